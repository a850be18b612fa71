/** The measurements of `troupe doctor stats`. */
import { DOCTOR_BIGGEST } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { agentKey } from '../../base/ids.ts';
import type { SalvageStore } from '../../journal/check/salvage-store.ts';
import { isInTurn } from '../../session/rules/epoch.ts';
import type { SessionState } from '../../session/state/state.ts';
import type { Paint } from '../surroundings.ts';
import { counted, left, number, printable, right } from '../text-layout.ts';
import { foldedSessions } from './sessions.ts';

/** One of the biggest sessions. */
export interface SessionSize {
  readonly id: string;
  readonly bytes: number;
  readonly turns: number;
  readonly messages: number;
}

/** The sessions of one version of an agent. */
export interface AgentSessions {
  readonly agent: string;
  readonly version?: string;
  readonly sessions: number;
  /** The sessions in a turn that began with this version. The version must stay defined for these sessions. */
  readonly inTurn: number;
}

/**
 * See the head of the file. `bytes` counts the bytes of the data files; in `SessionSize` it counts the bytes of the
 * session's entries. `turns` counts transitions.
 */
export interface StoreStats {
  readonly shards: number;
  readonly sessions: number;
  readonly turns: number;
  readonly rows: number;
  readonly messages: number;
  readonly bytes: number;
  readonly pages: number;
  readonly freePages: number;
  /** Epoch ms of the first and the last transition; 0 in an empty store. */
  readonly oldest: number;
  readonly newest: number;
  /** The number of waiting entries, of sessions with waiting entries, and of entries in the longest mailbox. */
  readonly waiting: number;
  readonly waitingSessions: number;
  readonly longestMailbox: number;
  readonly snapshots: number;
  readonly blobs: number;
  readonly blobBytes: number;
  /** Sessions by agent and version, the largest number first. `version` missing: the sessions have no version. */
  readonly agents: readonly AgentSessions[];
  /** The largest sessions by bytes, largest first. */
  readonly biggest: readonly SessionSize[];
}

const ID_COLUMNS = 40;
const NUMBER_COLUMNS = 14;

/** Measures a store. Reads the whole store. */
export function statsOf({ shards, ...store }: SalvageStore): StoreStats {
  const blobs = shards.flatMap((shard) => [...shard.contents.index.blobs.values()]);
  const totals = {
    sessions: 0,
    messages: 0,
    oldest: 0,
    newest: 0,
    waiting: 0,
    waitingSessions: 0,
    longestMailbox: 0,
    snapshots: 0,
  };
  let biggest: SessionSize[] = [];
  const agents = new Map<string, AgentSessions>();
  for (const { id, state, messages, bytes, turns, oldest, newest, hasSnapshot } of foldedSessions({
    shards,
    ...store,
  })) {
    const waiting = state.mailbox.length;
    countAgent(agents, state);
    totals.sessions += 1;
    totals.messages += messages.length;
    totals.waiting += waiting;
    if (waiting > 0) totals.waitingSessions += 1;
    totals.longestMailbox = Math.max(totals.longestMailbox, waiting);
    if (hasSnapshot) totals.snapshots += 1;
    if (oldest > 0) totals.oldest = totals.oldest === 0 ? oldest : Math.min(totals.oldest, oldest);
    totals.newest = Math.max(totals.newest, newest);
    biggest.push({ id, bytes, turns, messages: messages.length });
    biggest = biggest.sort((a, b) => b.bytes - a.bytes).slice(0, DOCTOR_BIGGEST);
  }
  const sum = (of: (shard: (typeof shards)[number]) => number): number =>
    shards.reduce((all, each) => all + of(each), 0);
  return {
    shards: shards.length,
    turns: sum((shard) => shard.turns),
    rows: sum((shard) => shard.contents.index.rows.size),
    bytes: sum((shard) => shard.bytes),
    pages: sum((shard) => shard.contents.pages),
    freePages: sum((shard) => shard.contents.freePages),
    blobs: blobs.length,
    blobBytes: blobs.reduce((all, { length }) => all + length, 0),
    ...totals,
    agents: [...agents.values()].sort((a, b) => b.sessions - a.sessions),
    biggest,
  };
}

function countAgent(agents: Map<string, AgentSessions>, state: SessionState): void {
  const { agent, version } = state;
  if (agent === undefined) return;
  const key = agentKey(agent, version);
  const { sessions = 0, inTurn = 0 } = agents.get(key) ?? {};
  const counts = { sessions: sessions + 1, inTurn: inTurn + (isInTurn(state) ? 1 : 0) };
  agents.set(key, { agent, ...defined({ version }), ...counts });
}

/** The statistics as JSON: times as ISO texts, left out when there are none. */
export function statsJson({ oldest, newest, ...stats }: StoreStats): Readonly<Record<string, unknown>> {
  if (newest === 0) return stats;
  return { ...stats, oldest: new Date(oldest).toISOString(), newest: new Date(newest).toISOString() };
}

/** The statistics as text for people. */
export function statsText(stats: StoreStats, title: string, paint: Paint): string {
  const { oldest, newest, agents, biggest } = stats;
  const facts: readonly (readonly [string, string])[] = [
    ['sessions', `${number(stats.sessions)} in ${counted(stats.shards, 'shard')}`],
    ['log', `${counted(stats.turns, 'turn')} in ${counted(stats.rows, 'row')}, ${counted(stats.messages, 'message')}`],
    ['bytes', `${number(stats.bytes)} on disk, ${counted(stats.freePages, 'page')} free`],
    [
      'mailboxes',
      `${counted(stats.waiting, 'entry', 'entries')} in ${counted(stats.waitingSessions, 'session')}, ${number(stats.longestMailbox)} at most`,
    ],
    ['snapshots', `${number(stats.snapshots)}; ${counted(stats.blobs, 'blob')} of ${number(stats.blobBytes)} bytes`],
    ...(newest === 0
      ? []
      : [['turns', `${new Date(oldest).toISOString()} to ${new Date(newest).toISOString()}`] as const]),
  ];
  const byAgent = agents.map(
    ({ agent, version, sessions, inTurn }) =>
      `${left(printable(agentKey(agent, version)), ID_COLUMNS)}${[sessions, inTurn].map((value) => right(number(value), NUMBER_COLUMNS)).join('')}`,
  );
  const agentHead = `${left('agents', ID_COLUMNS)}${['sessions', 'in a turn'].map((word) => right(word, NUMBER_COLUMNS)).join('')}`;
  const rows = biggest.map(
    ({ id, bytes, turns, messages }) =>
      `${left(printable(id), ID_COLUMNS)}${[bytes, turns, messages].map((value) => right(number(value), NUMBER_COLUMNS)).join('')}`,
  );
  const head = `${left('biggest sessions', ID_COLUMNS)}${['bytes', 'turns', 'messages'].map((word) => right(word, NUMBER_COLUMNS)).join('')}`;
  return [
    paint.bold(title),
    ...facts.map(([label, value]) => `${paint.dim(left(label, 11))}${value}`),
    ...(byAgent.length === 0 ? [] : ['', paint.dim(agentHead), ...byAgent]),
    ...(rows.length === 0 ? [] : ['', paint.dim(head), ...rows]),
    '',
  ].join('\n');
}
