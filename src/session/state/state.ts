/**
 * A session's state: the fold of its records.
 *
 * Owns: everything `decide` may look at. Does not own: time, the agent's definition, the store, what is in flight outside.
 * Invariants, asserted by `apply` and cited by tests:
 *  S1 `messages` are those at or above `floor` that the active branch shows, in the order of the conversation: ascending by
 *     seq, but for what an edit of the history put between others (`place`); those of other branches are `hidden`, and may be
 *     from below the floor;
 *  S2 `mailbox` is ascending by id; an entry is in the mailbox or was promoted, recalled or dropped, never two of them (A7);
 *  S3 `current` is present exactly while the state is `awaiting`;
 *  S4 `openCalls` are the calls with neither a response in the log nor one in the mailbox; non-empty only while `executing`,
 *     or idle and `suspended`: then none of them was started. Nor were those of an answer that is `held`, or that wait in
 *     `approvals`;
 *  S5 every event with a seq was counted exactly once: `eventSeq` is the seq of the last one;
 *  S6 `tokens` is the sum over `messages`, so that a half-step need not add up its history;
 *  S7 `enrichment` is present only while idle: nothing is claimed before it is over (R12);
 *  S8 `mailboxBytes` is the sum over `mailbox` of the bytes of its entries, those with a seed excepted: their text is a message.
 */

import type { ErrorShape } from '../../base/errors.ts';
import type { ContentBlock, Usage } from '../../base/messages.ts';
import { NO_USAGE } from '../../base/messages.ts';
import type { SessionStateName } from '../../events/event.ts';
import type { Approvals, Held, Suspension, SuspensionReason, TurnFailure } from './boundary.ts';
import type { GoalBook } from './goals.ts';
import type { Memory } from './memory.ts';
import type { Content, LoggedMessage, MailboxEntry, OpenCall } from './messages.ts';
import { noTasks, plainTasks, restoreTasks, type Tasks } from './tasks.ts';
import { contentBytes } from './tokens.ts';

/** What became of an accepted entry. */
export type ReceiptState =
  | { readonly status: 'accepted' }
  | { readonly status: 'promoted'; readonly turn: number; readonly messageSeq?: number }
  | { readonly status: 'answered'; readonly turn: number; readonly text: string }
  | { readonly status: 'failed'; readonly turn: number; readonly error: ErrorShape }
  | { readonly status: 'cancelled'; readonly turn: number }
  /** The run stopped at a boundary and can be continued. `text`: of its last answer. */
  | {
      readonly status: 'suspended';
      readonly turn: number;
      readonly reason: SuspensionReason;
      readonly detail?: string | null;
      readonly text: string;
    }
  | { readonly status: 'dropped'; readonly reason: string };

/** Tokens a session and everything spawned below it may use. */
export interface Budget {
  /** Missing: it has none of its own. */
  readonly tokens?: number;
  /** What it uses counts for the session that spawned it, too. */
  readonly isShared?: boolean;
  /** Tokens used by what is below it. */
  below: number;
}

/** The running turn: from the claim out of idle to the next idle. */
export interface RunningTurn {
  readonly id: number;
  /** Entries it consumed whose senders wait for its answer. */
  readonly entries: number[];
  /** Text of its last answer; parts of a paused answer joined. */
  text: string;
  /** `text` is the beginning of a paused answer: what comes next is joined to it. */
  joins: boolean;
  usage: Usage;
  /** Model calls made. */
  halfSteps: number;
  /** Continuations of the current paused answer. */
  pauses: number;
  /** The goal was marked completed: close the round without another model call (Δ32). */
  marked: boolean;
}

/** The model call in flight or due. */
export interface CurrentCall {
  readonly halfStep: number;
  /** Attempts begun, from 1. */
  attempt: number;
  /** Epoch ms at which the current attempt was due, from the second on; in the past once its call is out. */
  retryAt?: number;
  /** How long that attempt waited: a wall clock that was set back must not make it longer (F59). */
  retryWaitMs?: number;
  /** Users' messages of this half-step that go back to their sender when it fails (§4.5); missing: there are none. */
  readonly bouncing?: readonly BouncingMessage[];
  /** Steers and riders of this half-step that did not ask for it: they stay when it fails. */
  readonly keeps?: true;
  /** The call asks for a summary of the conversation; missing: it is a half-step of a turn. */
  readonly compaction?: CompactionCall;
  /** A prompt that was too long was compressed for this call: it is not done twice. */
  readonly overflowed?: true;
  /** An epoch was opened since the attempt that is out: it was sent something else than what will stand before its answer. */
  outdated?: true;
}

/** A message that leaves the log again when its half-step fails. */
export interface BouncingMessage {
  /** The entry that asked for it; of merged ones the first that did. */
  readonly entry: number;
  readonly messageSeq?: number;
  readonly content: string | readonly ContentBlock[];
}

/** A compression under way. */
export interface CompactionCall {
  /** What the session goes back to when it is over; `awaiting`: to the call that was too long. */
  readonly returnsTo: SessionStateName;
  /** Highest message seq there was when it began: what came since stays. */
  readonly through: number;
  /** Epoch ms at which it began. */
  readonly at: number;
  /** Seq of the first message taken back from the end: from there on nothing is sent for the summary, and all stays. */
  readonly tail?: number;
  readonly overflow?: OverflowRecovery & { readonly suspended: CurrentCall };
}

/** What compressions left behind. */
export interface CompressionState {
  /** Number of the last one that succeeded. */
  number: number;
  /** Compressions that succeeded: how often the oldest words were summed up. */
  level: number;
  /** Number of the newest archived chunk; 0: there is none. */
  chunk: number;
  /** The newest chunks, oldest first. */
  notes: ChunkNote[];
  /** The seq that came next when the last one had succeeded. */
  since: number;
  /** Not begun of itself again before the next message has this seq. */
  restsUntil: number;
  /** The last one failed: the window may be cut instead, if it must. */
  hasFailed: boolean;
  /** How the last one ended. */
  last: CompactionEnd | undefined;
}

/** A chunk as the index card lists it. */
export interface ChunkNote {
  readonly number: number;
  readonly messageCount: number;
  readonly topics?: string;
}

/** How a compression ended. */
export type CompactionEnd =
  | { readonly halfStep: number; readonly compressed: true; readonly level: number; readonly chunk?: number }
  | { readonly halfStep: number; readonly compressed: false; readonly reason: string };

/** A child as its parent remembers it. */
export interface ChildLink {
  readonly id: string;
  readonly name: string;
  readonly replies: Replies;
  readonly spawnCallId?: string;
  readonly specialist?: true;
  exited?: 'completed' | 'failed' | 'cancelled';
  /** Number of the event of this session that told of it: children ended in this order. Missing in heads written before it was kept. */
  exitedSeq?: number;
}

/** The fold of a session's records. Mutable: owned by whoever folds it (see `apply`). */
export interface SessionState {
  readonly id: string;
  /** Undefined until the `created` record: the session does not exist yet. */
  agent: string | undefined;
  depth: number;
  parent: string | undefined;
  spawnCallId: string | undefined;
  name: string | undefined;
  /** A child that may get another name before its first half-step. */
  unnamed: boolean;
  prompt: string | undefined;
  grants: readonly string[] | undefined;
  replies: Replies;
  createdAt: number;
  updatedAt: number;

  state: SessionStateName;
  paused: boolean;
  blocked: ErrorShape | undefined;
  interruptRequested: boolean;
  /** A message boundary at which the session waits; only while `executing`. */
  held: Held | undefined;
  /** The run stopped at a boundary; only while idle. */
  suspended: Suspension | undefined;
  /** Calls that wait for a person; undefined as long as none ever did. */
  approvals: Approvals | undefined;
  /** The last turn failed with it. */
  failure: TurnFailure | undefined;
  /** The next turn is being prepared. */
  enrichment: Enrichment | undefined;
  /** Pending ids of the entries whose turn was prepared and that wait; undefined: none does. */
  prepared: readonly number[] | undefined;
  /** Number of the next run of an enricher: an outcome of an earlier one is stale. */
  nextMuseRun: number;

  messages: LoggedMessage[];
  tokens: number;
  floor: number;
  epoch: number;
  /** Fingerprint of the agent's request header this epoch was opened with. */
  fingerprint: string | undefined;
  /** The system text of this epoch, where the agent's is a function. */
  system: { readonly epoch: number; readonly text: string } | undefined;
  /** Highest message seq that was part of an answered request: below it the rendering is frozen. */
  sealedSeq: number;
  /** System messages among `messages`. */
  promptCount: number;
  /** Where this epoch begins: thoughts of messages below it were about another request, a model that binds them refuses them (R21). */
  thoughtFloor: number;
  /** The branches of the conversation. */
  tasks: Tasks;
  /** Messages the active branch does not show, in the order of the conversation; at most `HIDDEN_MESSAGES_MAX`. */
  hidden: LoggedMessage[];
  /** Hidden messages below this seq may have left memory; 0: none has. */
  hiddenFloor: number;
  /** Folded to be read whole: nothing leaves the window, and every branch is shown. No session at work is. */
  keepsAll: boolean;
  /** Compactions by number, with the task each was made in. */
  compactions: Map<number, { readonly task: number | undefined }>;
  /** Where the first messages of a fork come from. */
  origin: ForkOrigin | undefined;
  /** Forks that share this log, at most `FORKS_SHARED_MAX`. */
  forks: string[];
  nextFork: number;
  /** Undefined until the first compression ended, well or not. */
  compression: CompressionState | undefined;

  nextMessageSeq: number;
  nextPendingId: number;
  nextTurn: number;
  nextHalfStep: number;
  nextChild: number;
  eventSeq: number;

  mailbox: MailboxEntry[];
  /** See S8. */
  mailboxBytes: number;
  deadLetters: { readonly entry: MailboxEntry; readonly error: ErrorShape }[];
  openCalls: Map<string, OpenCall>;
  /** Every tool-use id in `messages` and `hidden`: a model's repeated id is rewritten (R05). */
  callIds: Set<string>;
  current: CurrentCall | undefined;
  turn: RunningTurn | undefined;
  keys: Map<string, { readonly id: number; readonly fingerprint: string; readonly seq: number }>;
  /** Outcomes of keyed history operations, oldest first; undefined until there is one. */
  editKeys: Map<string, { readonly fingerprint: string; readonly value?: unknown }> | undefined;
  receipts: Map<number, ReceiptState>;
  /** Ids of settled receipts still at hand, oldest first. */
  settled: number[];

  children: Map<string, ChildLink>;
  childNames: Set<string>;
  /** Names of children of which no trace is left in the window (§7.7); their next delivery shows them again. */
  hiddenChildren: Set<string>;
  childKeys: Map<string, { readonly child: string; readonly fingerprint: string }>;
  goal: { readonly description: string; completed: boolean } | undefined;
  /** All goals and pins, once there are others than the task, or the task has left the window. */
  goals: GoalBook | undefined;
  /** Skills and workflow, where there are some: as they were told last. */
  active: ActiveDefinitions | undefined;
  /** What is remembered of messages that left the window; undefined until the first summary was begun. */
  memory: Memory | undefined;
  /** Goals and pins as this epoch shows them before the window. */
  prefix: string | undefined;
  exit:
    | { readonly reason: 'completed' | 'failed' | 'cancelled'; readonly reply: string; readonly error?: ErrorShape }
    | undefined;
  /** Epoch ms at which a child's restart is due. */
  restartAt: number | undefined;
  /** How long that restart waits in all, as `retryWaitMs`. */
  restartWaitMs: number | undefined;
  usage: Usage;
  /** Undefined: it is under no budget, its own or another's. */
  budget: Budget | undefined;
}

/** The state before the first record. */
export function emptyState(id: string): SessionState {
  return {
    id,
    agent: undefined,
    depth: 0,
    parent: undefined,
    spawnCallId: undefined,
    name: undefined,
    unnamed: false,
    prompt: undefined,
    grants: undefined,
    replies: 'mailbox',
    createdAt: 0,
    updatedAt: 0,
    state: 'idle',
    paused: false,
    blocked: undefined,
    interruptRequested: false,
    held: undefined,
    suspended: undefined,
    approvals: undefined,
    failure: undefined,
    enrichment: undefined,
    prepared: undefined,
    nextMuseRun: 1,
    messages: [],
    tokens: 0,
    floor: 1,
    epoch: 1,
    fingerprint: undefined,
    system: undefined,
    sealedSeq: 0,
    promptCount: 0,
    thoughtFloor: 0,
    tasks: noTasks(),
    hidden: [],
    hiddenFloor: 0,
    keepsAll: false,
    compactions: new Map(),
    origin: undefined,
    forks: [],
    nextFork: 1,
    compression: undefined,
    nextMessageSeq: 1,
    nextPendingId: 1,
    nextTurn: 1,
    nextHalfStep: 1,
    nextChild: 1,
    eventSeq: 0,
    mailbox: [],
    mailboxBytes: 0,
    deadLetters: [],
    openCalls: new Map(),
    callIds: new Set(),
    current: undefined,
    turn: undefined,
    keys: new Map(),
    editKeys: undefined,
    receipts: new Map(),
    settled: [],
    children: new Map(),
    childNames: new Set(),
    hiddenChildren: new Set(),
    childKeys: new Map(),
    goal: undefined,
    goals: undefined,
    memory: undefined,
    prefix: undefined,
    active: undefined,
    exit: undefined,
    restartAt: undefined,
    restartWaitMs: undefined,
    usage: NO_USAGE,
    budget: undefined,
  };
}

/** The text form of a state, for a head of the journal. `restoreState(snapshotState(s))` equals `s`. */
export function snapshotState(state: SessionState): string {
  return JSON.stringify({
    ...state,
    openCalls: [...state.openCalls],
    callIds: [...state.callIds],
    keys: [...state.keys],
    editKeys: state.editKeys === undefined ? undefined : [...state.editKeys],
    receipts: [...state.receipts],
    children: [...state.children],
    childNames: [...state.childNames],
    hiddenChildren: [...state.hiddenChildren],
    childKeys: [...state.childKeys],
    tasks: plainTasks(state.tasks),
    compactions: [...state.compactions],
  });
}

/** The state a snapshot describes. Trusts its writer: the journal guards the text. */
export function restoreState(text: string): SessionState {
  const plain = JSON.parse(text) as SessionState &
    Record<
      | 'openCalls'
      | 'callIds'
      | 'keys'
      | 'editKeys'
      | 'receipts'
      | 'children'
      | 'childNames'
      | 'hiddenChildren'
      | 'childKeys'
      | 'compactions'
      | 'tasks',
      never
    >;
  // Object.assign over an empty state: members that were undefined are absent from the text.
  const state: SessionState = Object.assign(emptyState(plain.id), plain, {
    // Heads written before there was compression have none.
    compactions: new Map(plain.compactions ?? []),
    openCalls: new Map(plain.openCalls),
    callIds: new Set(plain.callIds),
    keys: new Map(plain.keys),
    editKeys: plain.editKeys === undefined ? undefined : new Map(plain.editKeys),
    receipts: new Map(plain.receipts),
    children: new Map(plain.children),
    childNames: new Set(plain.childNames),
    hiddenChildren: new Set(plain.hiddenChildren),
    childKeys: new Map(plain.childKeys),
    tasks: restoreTasks(plain.tasks),
  });
  // Heads written before there were several have one, whether it asked to bounce or not.
  if (state.current !== undefined) state.current = withBouncing(state.current);
  const { compaction } = state.current ?? {};
  if (state.current !== undefined && compaction?.overflow !== undefined) {
    const overflow = { ...compaction.overflow, suspended: withBouncing(compaction.overflow.suspended) };
    state.current = { ...state.current, compaction: { ...compaction, overflow } };
  }
  // Heads written before the ids of hidden calls were kept have none of them.
  addCallIds(state, state.hidden);
  if (plain.mailboxBytes === undefined) measureMailbox(state);
  return state;
}

function withBouncing(call: CurrentCall): CurrentCall {
  const { rider, ...rest } = call as CurrentCall & { rider?: BouncingMessage & { readonly bounceBack: boolean } };
  if (rider === undefined) return call;
  const { bounceBack, ...message } = rider;
  return bounceBack ? { ...rest, bouncing: [message] } : { ...rest, keeps: true };
}

/** Snapshots written before the bytes of a mailbox were counted have all contents at hand, and no sizes. */
function measureMailbox(state: SessionState): void {
  state.mailbox = state.mailbox.map((entry) => ({ ...entry, bytes: contentBytes(entry.content as Content) }));
  for (const { bytes, seed } of state.mailbox) if (seed === undefined) state.mailboxBytes += bytes;
}

/** Takes the ids of calls among these messages. */
export function addCallIds(state: SessionState, messages: readonly LoggedMessage[]): void {
  for (const { type, toolUseId } of messages) {
    if (type === 'tool_call' && toolUseId !== undefined) state.callIds.add(toolUseId);
  }
}

/** What is active: skills in the order they came, and at most one workflow. */
export interface ActiveDefinitions {
  readonly skills: readonly string[];
  readonly workflow: string | null;
}

/** How a child reports: into its parent's mailbox, or only to the handle of the program that spawned it. */
export type Replies = 'mailbox' | 'handle';

/** A call whose prompt was too long, which is made again after a compression. */
export interface OverflowRecovery {
  /** What it failed with; it fails with it after all when no compression succeeds. */
  readonly error: ErrorShape;
  readonly attempt: 1 | 2;
}

/** Where a fork's first messages come from. */
export interface ForkOrigin {
  readonly session: string;
  /** Which of that session's forks it is; missing: its messages were copied, it rests on no other log. */
  readonly fork?: number;
  /** Epoch ms at which that session was made: another of the same name is not meant. */
  readonly createdAt: number;
  /** The message the fork was cut behind; missing: it begins with everything there was. */
  readonly at?: number;
  /** Logs its own rests on, one on the other. */
  readonly depth: number;
}

/** The preparation under way: one at most in a session. */
export interface Enrichment {
  /** Number of the run that is out. */
  readonly run: number;
  /**
   * The turn is prepared; then, where goals changed meanwhile, what was said before is looked through. Or a sub-agent is named,
   * before its first turn.
   */
  readonly stage: 'preparing' | 'recalling' | 'naming';
  /** Pending id of the message whose turn it is. */
  readonly entry: number;
  /** Epoch ms at which it began. */
  readonly at: number;
  /** A goal was made or worded anew since it began. */
  readonly goalsChanged: boolean;
}
