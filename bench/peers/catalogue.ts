/** The compared systems, with the facts that a reader needs before comparing figures. */

/** The workloads that every system can run. */
export type PeerWorkload = 'W1' | 'W2' | 'W3';

/** The workloads of this system, in this order. */
export const WORKLOADS: readonly PeerWorkload[] = ['W1', 'W2', 'W3'];

/** One row of the tables. */
export interface Entry {
  readonly name: string;
  /** troupe itself; the hand-written loop, which is the reference and no peer; or a peer. */
  readonly kind: 'troupe' | 'reference' | 'peer';
  /** The system that `measure.ts` opens. */
  readonly system: string;
  readonly variant: string;
  /**
   * The packages whose versions the report states; the first is the version of the system. Empty for troupe, which has
   * the version of the project.
   */
  readonly packages: readonly string[];
  readonly persists: string;
  /** Says when the system syncs. */
  readonly synced: string;
  /** True if each answer follows a sync by the system's settings; a measured count takes precedence. */
  readonly isDurable: boolean;
  /** The form of a family (W3). */
  readonly family: string;
}

const TROUPE = {
  kind: 'troupe',
  system: 'troupe',
  packages: [],
  persists: 'each record of the session, in LMDB',
  synced: "group commit, `durability: 'flush'`",
  isDurable: true,
  family: 'native: spawned children, durable replies',
} as const;

const LANGGRAPH = {
  kind: 'peer',
  system: 'langgraph',
  packages: [
    '@langchain/langgraph',
    'langchain',
    '@langchain/core',
    '@langchain/langgraph-checkpoint-sqlite',
    'better-sqlite3',
  ],
  family: 'native: map-reduce by `Send`',
} as const;

/** The compared systems in the order of the tables. */
export const ENTRIES: readonly Entry[] = [
  { ...TROUPE, name: 'troupe-inline', variant: 'inline' },
  { ...TROUPE, name: 'troupe-isolated', variant: 'isolated' },
  {
    name: 'loop',
    kind: 'reference',
    system: 'loop',
    variant: '',
    packages: ['better-sqlite3'],
    persists: 'each message, SQLite (WAL)',
    synced: 'each message (`synchronous = FULL`)',
    isDurable: true,
    family: 'emulated: a turn each, replies inserted',
  },
  {
    name: 'nact',
    kind: 'peer',
    system: 'nact',
    variant: '',
    packages: ['nact'],
    persists: 'nothing',
    synced: 'never',
    isDurable: false,
    family: 'native: child actors',
  },
  {
    name: 'vercel-ai',
    kind: 'peer',
    system: 'vercel-ai',
    variant: '',
    packages: ['ai'],
    persists: 'nothing',
    synced: 'never',
    isDurable: false,
    family: 'emulated: a turn each, replies appended',
  },
  {
    name: 'openai-agents',
    kind: 'peer',
    system: 'openai-agents',
    variant: '',
    packages: ['@openai/agents', 'better-sqlite3'],
    persists: 'the items of a run, by its `Session` interface on SQLite (WAL)',
    synced: 'each `addItems` (`synchronous = FULL`)',
    isDurable: true,
    family: 'emulated: a run each, replies added to the parent',
  },
  {
    ...LANGGRAPH,
    name: 'langgraph',
    variant: '',
    persists: 'a checkpoint each step, SqliteSaver (WAL)',
    synced: 'as shipped: at a checkpoint of the WAL',
    isDurable: false,
  },
  {
    ...LANGGRAPH,
    name: 'langgraph-synced',
    variant: 'synced',
    persists: 'a checkpoint each step, SqliteSaver (WAL)',
    synced: 'each commit (`synchronous = FULL`, `durability: sync`)',
    isDurable: true,
  },
  {
    ...LANGGRAPH,
    name: 'langgraph-exit',
    variant: 'exit',
    persists: 'a checkpoint each turn, SqliteSaver (WAL)',
    synced: 'each commit (`synchronous = FULL`, `durability: exit`)',
    isDurable: true,
  },
  {
    name: 'restate',
    kind: 'peer',
    system: 'restate',
    variant: '',
    packages: ['@restatedev/restate-sdk', '@restatedev/restate-server'],
    persists: "a journal of steps and the object's state, in a separate server",
    synced: 'as shipped: each append to its log',
    isDurable: true,
    family: 'native: durable calls of child objects',
  },
  {
    name: 'mastra',
    kind: 'peer',
    system: 'mastra',
    variant: '',
    packages: ['@mastra/core', '@mastra/memory', '@mastra/libsql'],
    persists: 'threads and messages, libSQL, full history',
    synced: 'as shipped: at a checkpoint of the WAL',
    isDurable: false,
    family: 'emulated: a thread each, replies saved to the parent',
  },
];
