/**
 * A session without a runtime: the pure core alone. A `Machine` holds one state, receives inputs, and collects their
 * records and effects. The core is the real one; only the clock, the random numbers and the agent are made up.
 */
import { fitOf } from '../../actors/answer-forms.ts';
import { LIMIT_DEFAULTS, type Limits } from '../../src/base/bounds.ts';
import type { ErrorShape } from '../../src/base/errors.ts';
import type { ContentBlock, Deliver, Usage } from '../../src/base/messages.ts';
import { parseSettings, type Settings, type SettingsInput } from '../../src/base/settings.ts';
import type { EventBody } from '../../src/events/event.ts';
import { applyAll } from '../../src/session/apply/apply.ts';
import type { Observer } from '../../src/session/apply/fold.ts';
import { acceptedContent, storeContents } from '../../src/session/rules/waiting-content.ts';
import type {
  AgentFacts,
  CompressionFacts,
  Effect,
  Environment,
  Input,
  SpawnRequest,
  ToolFacts,
} from '../../src/session/state/inputs.ts';
import type { LoggedMessage, ReadContent } from '../../src/session/state/messages.ts';
import type { Entry, SessionRecord, TransitionRecords } from '../../src/session/state/records.ts';
import { emptyState, type ReceiptState, type SessionState } from '../../src/session/state/state.ts';
import { contentBytes } from '../../src/session/state/tokens.ts';
import { runTurn, type TurnOutcome } from '../../src/session/turn.ts';

const SECOND_MS = 1_000;

/** Options for the world outside a session. */
export interface WorldOptions {
  readonly now?: number;
  readonly random?: number;
  readonly limits?: Partial<Limits>;
  readonly settings?: SettingsInput;
  readonly fingerprint?: string;
  readonly hasSystemFunction?: boolean;
  readonly toolRounds?: number;
  readonly tokenBudget?: number;
  readonly maxActiveChildren?: number;
  readonly isSupervised?: boolean;
  /** Compression is on, with these bounds in place of the defaults. */
  readonly compression?: Partial<CompressionFacts>;
  /** Facts of the agent beyond the facts that all agents have. */
  readonly agent?: Partial<AgentFacts>;
  readonly isGated?: boolean;
  readonly openedAt?: number;
  /**
   * Contents of waiting entries of at least this many bytes stay in the log only; if missing, all contents are in
   * memory.
   */
  readonly storedContentBytes?: number;
}

/** Bounds of compression for tests without their own: small enough to be reached in a few turns. */
export const COMPRESSION: CompressionFacts = {
  tokens: 150_000,
  messages: 12,
  keepRecent: 4,
  targetTokens: 10_000,
  idleMinTokens: 0,
  idleMinMessages: 5,
  isAutomatic: true,
  bindsThinking: false,
};

/** The world of a test. A test changes it between transitions by assigning to its members. */
export interface World {
  now: number;
  random: number;
  limits: Limits;
  settings: Settings;
  fingerprint: string;
  hasSystemFunction: boolean;
  toolRounds: number;
  tokenBudget: number;
  maxActiveChildren: number;
  admits: boolean;
  isSupervised: boolean;
  compression: CompressionFacts | undefined;
  agent: Partial<AgentFacts>;
  isGated: boolean;
  isUpgradeHeld: boolean;
  openedAt: number;
  storedContentBytes: number;
  waitingBytes: number;
  /** Ids that the embedder already uses for other sessions. */
  readonly taken: Set<string>;
  /** The states of the sessions of a tree. */
  readonly states: Map<string, () => SessionState>;
}

/** Tools of every test agent: one of each effect, one whose timeout the model may set, and those of the runtime. */
export const TOOLS: Readonly<Record<string, ToolFacts>> = {
  bash: facts('once'),
  read_file: facts('pure'),
  charge: facts('keyed'),
  deploy: facts('probe'),
  slow: { ...facts('pure'), adjustableTimeout: true },
  spawn_subagent: { ...facts('once'), isRuntimeTool: true },
  mark_goal_completed: { ...facts('once'), isRuntimeTool: true },
};

/** Agents that a child may have, beside the one named `main`, with their tools. */
const AGENTS: Readonly<Record<string, readonly string[]>> = {
  main: Object.keys(TOOLS),
  researcher: ['read_file'],
};

function facts(effect: ToolFacts['effect']): ToolFacts {
  return { effect, timeoutMs: 180 * SECOND_MS, adjustableTimeout: false, isRuntimeTool: false };
}

/** A world with defaults filled in: the time 2024-03-14T08:51:00Z, and random numbers that are 0. */
export function makeWorld(options: WorldOptions = {}): World {
  return {
    now: options.now ?? 1_710_406_260_000,
    random: options.random ?? 0,
    limits: { ...LIMIT_DEFAULTS, ...options.limits },
    settings: parseSettings(options.settings ?? {}),
    fingerprint: options.fingerprint ?? 'header-1',
    hasSystemFunction: options.hasSystemFunction ?? false,
    toolRounds: options.toolRounds ?? 250,
    tokenBudget: options.tokenBudget ?? 120_000,
    maxActiveChildren: options.maxActiveChildren ?? 8,
    admits: true,
    isSupervised: options.isSupervised ?? false,
    compression: options.compression === undefined ? undefined : { ...COMPRESSION, ...options.compression },
    agent: options.agent ?? {},
    isGated: options.isGated ?? false,
    isUpgradeHeld: false,
    openedAt: options.openedAt ?? 0,
    storedContentBytes: options.storedContentBytes ?? Number.POSITIVE_INFINITY,
    waitingBytes: 0,
    taken: new Set(),
    states: new Map(),
  };
}

/** The environment of one transition in that world. */
export function environmentOf(world: World): Environment {
  return {
    now: world.now,
    random: world.random,
    limits: world.limits,
    settings: world.settings,
    agent: {
      name: 'main',
      fingerprint: world.fingerprint,
      hasSystemFunction: world.hasSystemFunction,
      toolNames: Object.keys(TOOLS),
      tool: (name) => (Object.hasOwn(TOOLS, name) ? TOOLS[name] : undefined),
      toolRounds: world.toolRounds,
      tokenBudget: world.tokenBudget,
      maxActiveChildren: world.maxActiveChildren,
      compression: world.compression,
      ...world.agent,
    },
    isGated: world.isGated,
    openedAt: world.openedAt,
    waitingBytes: world.waitingBytes,
    toolNamesOf: (agent) => (Object.hasOwn(AGENTS, agent) ? AGENTS[agent] : undefined),
    agentNames: () => [],
    versionOf: () => world.agent.version,
    isUpgradeHeld: world.isUpgradeHeld,
    admits: world.admits,
    isSupervised: () => world.isSupervised,
    exists: (sessionId) => world.taken.has(sessionId),
    stateOf: (sessionId) => world.states.get(sessionId)?.(),
    fitOf,
  };
}

/** One durable event as an observer received it. */
export interface SeenEvent {
  readonly seq: number;
  readonly body: EventBody;
}

/** The events that an observer receives for some records. */
export interface Seen {
  readonly events: SeenEvent[];
  readonly settled: { readonly id: number; readonly receipt: ReceiptState }[];
  readonly promoted: number[];
}

/** An observer and the events it receives. */
export function watcher(): { readonly observer: Observer; readonly seen: Seen } {
  const seen: Seen = { events: [], settled: [], promoted: [] };
  const observer: Observer = {
    event: (body, seq) => seen.events.push({ seq, body }),
    settled: (id, receipt) => seen.settled.push({ id, receipt }),
    promoted: (id) => seen.promoted.push(id),
  };
  return { observer, seen };
}

/** Options of a sent message. */
export type SendOptions = Omit<Partial<Entry>, 'content'> & { readonly deliver?: Deliver };

/** The usage of every answer that names none. */
export const USAGE: Usage = { input_tokens: 10, output_tokens: 5 };

/** One session of a test. See the head of the file. */
export class Machine {
  readonly world: World;
  readonly state: SessionState;
  /** Every transition that has records, as the journal would hold it. */
  readonly turns: TransitionRecords[] = [];
  /** Effects of all transitions, and of the last one alone. */
  readonly effects: Effect[] = [];
  last: readonly Effect[] = [];
  readonly seen: Seen;
  readonly #observer: Observer;

  constructor(world: World = makeWorld(), id = 's') {
    this.world = world;
    this.state = emptyState(id);
    const { observer, seen } = watcher();
    this.#observer = observer;
    this.seen = seen;
  }

  /** A session read again from its log, and observed while it is folded. */
  static replayed(world: World, id: string, turns: readonly TransitionRecords[]): Machine {
    const machine = new Machine(world, id);
    for (const turn of turns) applyAll(machine.state, turn.records, turn.at, machine.#observer);
    machine.turns.push(...turns);
    return machine;
  }

  /** Runs one transition. */
  input(input: Input): TurnOutcome {
    const environment = { ...environmentOf(this.world), readContent: this.readContent };
    const outcome = runTurn(this.state, input, environment, this.#observer);
    if (outcome.records.length > 0) this.turns.push({ at: this.world.now, records: outcome.records });
    storeContents(this.state, outcome.records, this.turns.length - 1, this.world.storedContentBytes);
    this.effects.push(...outcome.effects);
    this.last = outcome.effects;
    return outcome;
  }

  /** A position of this machine's log is an index in `turns`. */
  readonly readContent: ReadContent = ({ id, content }) => {
    const found = acceptedContent(this.turns[content.storedAt]?.records ?? [], id);
    if (found === undefined) throw new Error(`entry ${id} is not in turn ${content.storedAt}`);
    return found;
  };

  /** Writes a record as another part of the core would, in a separate transition. */
  replay(record: SessionRecord): void {
    applyAll(this.state, [record], this.world.now, this.#observer);
    this.turns.push({ at: this.world.now, records: [record] });
  }

  /** Accepts an entry; returns its pending id, or the refusal. */
  send(content: Entry['content'], options: SendOptions = {}): number | ErrorShape {
    this.input({ type: 'send', entry: { type: 'user_message', ...options, content }, bytes: contentBytes(content) });
    const accepted = this.effect('accepted');
    const refused = this.effect('refused');
    if (accepted !== undefined) return accepted.pendingId;
    if (refused !== undefined) return refused.error;
    throw new Error('a send was neither accepted nor refused');
  }

  /** Answers the current half-step. */
  answer(content: unknown, options: { readonly stop?: string; readonly usage?: Usage } = {}): TurnOutcome {
    const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
    const hasCall = Array.isArray(blocks) && blocks.some((block) => block?.type === 'tool_use');
    return this.input({
      type: 'answered',
      halfStep: this.halfStep,
      content: blocks,
      stop: options.stop ?? (hasCall ? 'tool_use' : 'end_turn'),
      usage: options.usage ?? USAGE,
    });
  }

  /** Fails the current attempt of the current half-step. */
  fail(error: ErrorShape): TurnOutcome {
    const attempt = this.state.current?.attempt ?? 0;
    return this.input({ type: 'modelFailed', halfStep: this.halfStep, attempt, error });
  }

  /** Ends a call. */
  finish(callId: string, content = 'done', success = true): TurnOutcome {
    return this.input({ type: 'toolFinished', callId, content, success });
  }

  /** A spawn by the embedder, or by a call of the model. */
  spawn(request: Partial<SpawnRequest> & { readonly task: string }): TurnOutcome {
    return this.input({ type: 'spawn', request: { replies: 'mailbox', ...request } });
  }

  get halfStep(): number {
    return this.state.current?.halfStep ?? 0;
  }

  /** The first effect of a kind in the last transition. */
  effect<T extends Effect['type']>(type: T): Extract<Effect, { type: T }> | undefined {
    return effectsOf(this.last, type)[0];
  }

  /** All effects of a kind in the last transition. */
  lastOf<T extends Effect['type']>(type: T): readonly Extract<Effect, { type: T }>[] {
    return effectsOf(this.last, type);
  }

  /** All effects of a kind, of every transition. */
  allOf<T extends Effect['type']>(type: T): readonly Extract<Effect, { type: T }>[] {
    return effectsOf(this.effects, type);
  }

  /** All events of a kind. */
  events<T extends EventBody['type']>(type: T): readonly (EventBody & { readonly type: T })[] {
    return this.seen.events
      .map(({ body }) => body)
      .filter((body): body is EventBody & { readonly type: T } => body.type === type);
  }

  /** Records of all transitions, in order. */
  get records(): readonly SessionRecord[] {
    return this.turns.flatMap((turn) => turn.records);
  }

  /** The log in short form, `type content`, as most tests read it. */
  get log(): readonly string[] {
    return this.state.messages.map(brief);
  }

  /** The mailbox in short form: contents in order. */
  get waiting(): readonly string[] {
    return this.state.mailbox.map((entry) => String(entry.content));
  }
}

/** A message as one line. */
export function brief(message: LoggedMessage): string {
  const content = typeof message.content === 'string' ? message.content : JSON.stringify(message.content);
  return `${message.type} ${content}`;
}

function effectsOf<T extends Effect['type']>(
  effects: readonly Effect[],
  type: T,
): readonly Extract<Effect, { type: T }>[] {
  return effects.filter((effect): effect is Extract<Effect, { type: T }> => effect.type === type);
}

/** An existing session; `sent` is its first message, already promoted. */
export function startedSession(options: WorldOptions & { readonly sent?: string } = {}): Machine {
  const machine = new Machine(makeWorld(options));
  machine.input({ type: 'create', agent: 'main' });
  if (options.sent !== undefined) machine.send(options.sent);
  return machine;
}

/** A session in `executing`, whose model asked for these calls: name by id. */
export function executingSession(calls: Readonly<Record<string, string>>, options: WorldOptions = {}): Machine {
  const machine = startedSession({ ...options, sent: 'go' });
  machine.answer(Object.entries(calls).map(([id, name]) => call(id, name)));
  return machine;
}

/** A call of the model. */
export function call(id: string, name: string, input: unknown = {}): ContentBlock {
  return { type: 'tool_use', id, name, input };
}

/** A text block. */
export function text(content: string): ContentBlock {
  return { type: 'text', text: content };
}

/** An error that a retry may resolve. */
export function transientError(data: Readonly<Record<string, unknown>> = { status: 529 }): ErrorShape {
  return { name: 'ModelError', code: 'model_overloaded', message: 'overloaded', retryable: true, data };
}

/** An error that the same bytes cause again. */
export const FATAL: ErrorShape = {
  name: 'ModelInvalidRequestError',
  code: 'model_invalid_request',
  message: 'bad request',
};

/** A prompt that does not fit the model's context. */
export const OVERFLOW: ErrorShape = {
  name: 'ModelInvalidRequestError',
  code: 'model_invalid_request',
  message: 'prompt is too long: 208310 tokens > 200000 maximum',
  data: { status: 400, reason: 'context_overflow' },
};

/** Refused credentials. */
export const UNAUTHORIZED: ErrorShape = {
  name: 'ModelAuthenticationError',
  code: 'model_authentication',
  message: 'bad key',
};
