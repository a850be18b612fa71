/**
 * A session's state: the fold of its records.
 *
 * Owns: everything `decide` may look at. Does not own: time, the agent's definition, the store, the work in flight.
 * Invariants, asserted by `apply` and cited by tests:
 *  S1 `messages` has the messages at or above `floor` that the active branch shows, in the order of the conversation.
 *     They ascend by seq, except for messages that an edit of the history inserted between others (`place`). Messages
 *     of other branches are `hidden`, and may be below the floor;
 *  S2 `mailbox` is ascending by id; an entry is in the mailbox, or it left in exactly one way: promoted, recalled,
 *     dropped or set aside (A7);
 *  S3 `current` is present exactly while the state is `awaiting`;
 *  S4 `openCalls` are the calls without a response in the log or in the mailbox. Open calls exist only while
 *     `executing`, or while idle and `suspended`; suspended calls have not started. Calls of an answer that is `held`,
 *     or that wait in `approvals`, have not started either, except a call whose MCP server asks a question;
 *  S5 every event with a seq was counted exactly once: `eventSeq` is the seq of the last event;
 *  S6 `tokens` is the sum over `messages`, so that a half-step need not add up its history;
 *  S7 `enrichment` is present only while idle: no turn is claimed before the preparation has ended (R12);
 *  S8 `mailboxBytes` is the sum of the bytes of the entries in `mailbox`, except those with a seed: their text is a
 *     message;
 *  S9 a dead letter is in `deadLetters`, or was sent again once, or was dropped. The entry that sends it again is a new
 *     entry (A7).
 */

import type { AnswerDraft } from '../../base/answer-draft.ts';
import type { ErrorShape } from '../../base/errors.ts';
import type { Json } from '../../base/json.ts';
import type { ContentBlock, TurnAgent, Usage } from '../../base/messages.ts';
import { NO_USAGE } from '../../base/messages.ts';
import type { SessionStateName } from '../../events/event.ts';
import type { AnswerForm } from './answer-form.ts';
import type { Approvals, Held, Suspension, SuspensionReason, TurnFailure } from './boundary.ts';
import type { ChildLink, Exit, Replies, Revived } from './child-link.ts';
import type { Container } from './container.ts';
import type { Enrichment } from './enrichment.ts';
import type { GoalBook } from './goals.ts';
import type { LastTurn } from './last-turn.ts';
import type { DeadLetterEntry, ResentLetter } from './letters.ts';
import type { Memory } from './memory.ts';
import type { LoggedMessage, MailboxEntry, OpenCall } from './messages.ts';
import type { RemovedHistory } from './retention.ts';
import { noTasks, type Tasks } from './tasks.ts';

/** The outcome of an accepted entry. */
export type ReceiptState =
  | { readonly status: 'accepted' }
  | { readonly status: 'promoted'; readonly turn: number; readonly messageSeq?: number }
  | { readonly status: 'answered'; readonly turn: number; readonly text: string; readonly output?: Json }
  | { readonly status: 'failed'; readonly turn: number; readonly error: ErrorShape }
  | { readonly status: 'cancelled'; readonly turn: number; readonly reason?: string }
  /** The run stopped at a boundary and can be continued. `text`: text of its last answer. */
  | {
      readonly status: 'suspended';
      readonly turn: number;
      readonly reason: SuspensionReason;
      readonly detail?: string | null;
      readonly text: string;
    }
  | { readonly status: 'dropped'; readonly reason: string };

/** Token limit of a session and everything spawned below it. */
export interface Budget {
  /** The session's own limit; missing: it has none. */
  readonly tokens?: number;
  /** True if the session's tokens also count for the session that spawned it. */
  readonly isShared?: boolean;
  /** Tokens used by the sessions below this one. */
  below: number;
}

/** The running turn: from the claim that ends idle to the next idle. */
export interface RunningTurn {
  readonly id: number;
  /** The agent of the turn, if the agent has a version. */
  readonly agent?: TurnAgent;
  /** Entries that the turn consumed and whose senders wait for its answer. */
  readonly entries: number[];
  /** Text of the turn's last answer; parts of a paused answer are joined. */
  text: string;
  /** True if `text` is the beginning of a paused answer. The next part is joined to it. */
  joins: boolean;
  usage: Usage;
  /** Model calls made in this turn. */
  halfSteps: number;
  /** Continuations of the current paused answer. */
  pauses: number;
  /** True if the model marked its goal completed, so that the round closes without another model call. */
  marked: boolean;
  /** The form of the turn's answer, if the message that began the turn asks for a form. */
  form?: AnswerForm;
  /** Times that the model was asked to correct its structured answer; missing: 0. */
  corrections?: number;
}

/** The model call in flight or due. */
export interface CurrentCall {
  readonly halfStep: number;
  /** Attempts begun, from 1. */
  attempt: number;
  /**
   * Epoch ms at which the current attempt is due; only for the second and later attempts. The time has passed once the
   * call is in flight.
   */
  retryAt?: number;
  /** Milliseconds of the wait before that attempt. A wall clock that was set back must not extend the wait. */
  retryWaitMs?: number;
  /** Users' messages of this half-step that return to their senders if it fails; missing if there are none. */
  readonly bouncing?: readonly BouncingMessage[];
  /** True if this half-step also has messages of users or children that stay in the log if it fails. */
  readonly keeps?: true;
  /** Present if the call asks for a summary of the conversation; missing: the call is a half-step of a turn. */
  readonly compaction?: CompactionCall;
  /** True after a compression, even a failed one, for this call's too long prompt. No call is recovered twice. */
  readonly overflowed?: true;
  /**
   * True if an epoch opened after the attempt in flight was sent. The attempt's request then differs from the messages
   * that will precede its answer.
   */
  outdated?: true;
  /** Attempts with earlier models of the agent. They do not count as retries of the present model. Missing: none. */
  attemptsBefore?: number;
}

/** The model that a session uses in place of its agent's first model. */
export interface Fallback {
  /** The model's index in the agent's list, from 1. */
  readonly place: number;
  /** Epoch ms at which the session moved to this model. */
  readonly since: number;
  /** True after a turn failed with this model: the next turn begins with the first model. */
  readonly hasFailed?: true;
}

/** A message that leaves the conversation and returns to its sender if its half-step fails. */
export interface BouncingMessage {
  /** The entry that asked for bouncing; if entries were merged, the first entry that asked. */
  readonly entry: number;
  readonly messageSeq?: number;
  readonly content: string | readonly ContentBlock[];
}

/** A compression in progress. */
export interface CompactionCall {
  /**
   * The state to which the session returns after the compression; `awaiting`: to the call whose prompt was too long.
   */
  readonly returnsTo: SessionStateName;
  /** Highest message seq when the compression began. Later messages stay. */
  readonly through: number;
  /** Epoch ms at which the compression began. */
  readonly at: number;
  /**
   * Seq from which on messages stay out of the compression. The summary request ends before this message.
   */
  readonly tail?: number;
  readonly overflow?: OverflowRecovery & { readonly suspended: CurrentCall };
}

/** Results of the compressions so far. */
export interface CompressionState {
  /** Number of the last compression that succeeded. */
  number: number;
  /** The number of compressions that succeeded. The oldest messages were summed up this many times. */
  level: number;
  /** Number of the newest archive; 0: there is none. */
  chunk: number;
  /** The newest archives, oldest first. */
  notes: ChunkNote[];
  /** `nextMessageSeq` when the last compression succeeded. */
  since: number;
  /** No automatic compression begins before `nextMessageSeq` has this value. */
  restsUntil: number;
  /** True if the last compression failed, so that the window may be cut instead if necessary. */
  hasFailed: boolean;
  /** How the last compression ended. */
  last: CompactionEnd | undefined;
}

/** An archive, as the index card (the message that lists archives to the model) shows it. */
export interface ChunkNote {
  readonly number: number;
  readonly messageCount: number;
  readonly topics?: string;
}

/** How a compression ended. */
export type CompactionEnd =
  | { readonly halfStep: number; readonly compressed: true; readonly level: number; readonly chunk?: number }
  | { readonly halfStep: number; readonly compressed: false; readonly reason: string };

/** The fold of a session's records. It is mutable, and the code that folds records owns it (see `apply`). */
export interface SessionState {
  readonly id: string;
  /** The session's agent; undefined until the `created` record, because the session does not exist before it. */
  agent: string | undefined;
  /** The agent's version in the session's last turn, or the version that the session moved to since then. */
  version: string | undefined;
  depth: number;
  parent: string | undefined;
  spawnCallId: string | undefined;
  name: string | undefined;
  /** True for a child that may get another name before its first half-step. */
  unnamed: boolean;
  /** True for a child that may not start yet, because its parent has the maximum number of working children. */
  queued: boolean;
  /** Present while a child that had ended works again, or waits to do so. */
  revived: Revived | undefined;
  prompt: string | undefined;
  grants: readonly string[] | undefined;
  /** The form of the reply, if the session is a child that was asked for a structured reply. */
  form: AnswerForm | undefined;
  replies: Replies;
  createdAt: number;
  updatedAt: number;

  state: SessionStateName;
  paused: boolean;
  blocked: ErrorShape | undefined;
  interruptRequested: boolean;
  interruptReason: string | undefined;
  /** A message boundary at which the session waits; only while `executing`. */
  held: Held | undefined;
  /** The run that was suspended at a boundary; only while idle. */
  suspended: Suspension | undefined;
  /** Calls that wait for a person, and recent decisions; undefined until a call waits for the first time. */
  approvals: Approvals | undefined;
  /** The error with which the last turn failed. */
  failure: TurnFailure | undefined;
  /** The end of the last turn; undefined before the first turn has ended. */
  last: LastTurn | undefined;
  /** Number of messages of users and agents in the log, without removed ones; undefined after an older snapshot. */
  spoken: number | undefined;
  /** The preparation of the next turn. */
  enrichment: Enrichment | undefined;
  /** Pending ids of the waiting entries whose turn was prepared; undefined: none. */
  prepared: readonly number[] | undefined;
  /**
   * Number of the next run of an enricher. A run that begins again gets a new number, so that a late outcome of the
   * earlier run is recognised as stale.
   */
  nextMuseRun: number;

  messages: LoggedMessage[];
  tokens: number;
  floor: number;
  epoch: number;
  /** Fingerprint of the agent's request header when this epoch opened. */
  fingerprint: string | undefined;
  /**
   * The model's traits when this epoch opened, in the short form of `request-traits.ts`. Its requests are rendered for
   * them. Undefined before the first epoch and in logs of earlier versions: then the table in `model-traits.ts` counts.
   */
  traits: string | undefined;
  /** Present while the session does not use the first model of its agent. */
  fallback: Fallback | undefined;
  /** True from the return to the first model until its first answer. Meanwhile a failed call moves to another model. */
  isReturning: boolean;
  /** The system prompt of this epoch, if the agent's system prompt is a function. */
  system: { readonly epoch: number; readonly text: string } | undefined;
  /** Highest message seq in an answered request. The rendering of messages up to this seq is frozen. */
  sealedSeq: number;
  /** The container that the next request names. */
  container: Container | undefined;
  /** Ids of the provider's calls in this epoch's last answer that have no result yet. */
  awaitedUses: readonly string[] | undefined;
  /** The number of system messages in `messages`. */
  promptCount: number;
  /**
   * First message seq of this epoch. Thoughts of earlier messages belong to another request. A model that binds
   * thoughts to their request refuses them.
   */
  thoughtFloor: number;
  /** The branches of the conversation. */
  tasks: Tasks;
  /** Messages that the active branch does not show, in conversation order; at most `HIDDEN_MESSAGES_MAX`. */
  hidden: LoggedMessage[];
  /** Hidden messages below this seq may have left memory; 0: none has left. */
  hiddenFloor: number;
  /**
   * True if the log is folded only to read all messages: then no message leaves `messages`, and every branch is shown.
   * Never true for a session that runs.
   */
  keepsAll: boolean;
  /** Compressions by number, each with its task and with the epoch ms at which it was made. */
  compactions: Map<number, { readonly task: number | undefined; readonly at: number }>;
  /** Epoch ms at which messages left the window, oldest first; not all are remembered (see `rules/eviction.ts`). */
  departures: readonly number[];
  /** The part of the history that was removed because of its age; undefined: nothing. */
  removed: RemovedHistory | undefined;
  /** The session and message that this fork was made from; undefined if this session is no fork. */
  origin: ForkOrigin | undefined;
  /** Forks that share this log, at most `FORKS_SHARED_MAX`. */
  forks: string[];
  nextFork: number;
  /** The results of compressions; undefined until the first compression has ended, successful or not. */
  compression: CompressionState | undefined;

  nextMessageSeq: number;
  nextPendingId: number;
  nextTurn: number;
  nextHalfStep: number;
  nextChild: number;
  eventSeq: number;

  mailbox: MailboxEntry[];
  /** UTF-8 bytes of the waiting entries. */
  mailboxBytes: number;
  /** Entries that could not be promoted, oldest first; bounded by `DEAD_LETTERS_MAX` and `DEAD_LETTER_BYTES_MAX`. */
  deadLetters: DeadLetterEntry[];
  /** Dead letters that were sent again, oldest first; undefined: none. */
  resentLetters: ResentLetter[] | undefined;
  openCalls: Map<string, OpenCall>;
  /** Every tool-use id in `messages` and `hidden`. If a model repeats one of these ids, the new id is rewritten. */
  callIds: Set<string>;
  current: CurrentCall | undefined;
  /** The text of a lost answer, until the model answers again or the next half-step begins. */
  draft: AnswerDraft | undefined;
  turn: RunningTurn | undefined;
  keys: Map<string, { readonly id: number; readonly fingerprint: string; readonly seq: number }>;
  /** Outcomes of history operations with a key, oldest first; undefined before the first such operation. */
  editKeys: Map<string, { readonly fingerprint: string; readonly value?: unknown }> | undefined;
  receipts: Map<number, ReceiptState>;
  /** Ids of the settled receipts still in memory, oldest first. */
  settled: number[];

  children: Map<string, ChildLink>;
  /** Ids of the queued children, in the order in which they were queued. */
  childQueue: Set<string>;
  /** Number of children that are neither queued nor ended. Not in snapshots: derived from `children`. */
  childrenAtWork: number;
  childNames: Set<string>;
  /** Names of children that the window no longer mentions. The next message from such a child shows its name again. */
  hiddenChildren: Set<string>;
  childKeys: Map<string, { readonly child: string; readonly fingerprint: string }>;
  goal: { readonly description: string; completed: boolean } | undefined;
  /** Goals and pins; present once there are more than the task, or messages left the window while the task was open. */
  goals: GoalBook | undefined;
  /** The active skills and workflow, if any, as of the last event that reported them. */
  active: ActiveDefinitions | undefined;
  /** Memory of messages that left the window; undefined until the first summary began. */
  memory: Memory | undefined;
  /** Goals and pins as this epoch shows them before the window. */
  prefix: string | undefined;
  /** If the session is a child: its first `completed` end, or else its last end. */
  exit: Exit | undefined;
  /** Epoch ms at which a child's restart is due. */
  restartAt: number | undefined;
  /** Milliseconds of the whole wait before that restart. A wall clock that was set back must not extend the wait. */
  restartWaitMs: number | undefined;
  usage: Usage;
  /** The session's budget; undefined if neither the session nor an ancestor has a budget. */
  budget: Budget | undefined;
}

/** The state before the first record. */
export function emptyState(id: string): SessionState {
  return {
    id,
    agent: undefined,
    version: undefined,
    depth: 0,
    parent: undefined,
    spawnCallId: undefined,
    name: undefined,
    unnamed: false,
    queued: false,
    revived: undefined,
    prompt: undefined,
    grants: undefined,
    form: undefined,
    replies: 'mailbox',
    createdAt: 0,
    updatedAt: 0,
    state: 'idle',
    paused: false,
    blocked: undefined,
    interruptRequested: false,
    interruptReason: undefined,
    held: undefined,
    suspended: undefined,
    approvals: undefined,
    failure: undefined,
    last: undefined,
    spoken: 0,
    enrichment: undefined,
    prepared: undefined,
    nextMuseRun: 1,
    messages: [],
    tokens: 0,
    floor: 1,
    epoch: 1,
    fingerprint: undefined,
    traits: undefined,
    fallback: undefined,
    isReturning: false,
    system: undefined,
    sealedSeq: 0,
    container: undefined,
    awaitedUses: undefined,
    promptCount: 0,
    thoughtFloor: 0,
    tasks: noTasks(),
    hidden: [],
    hiddenFloor: 0,
    keepsAll: false,
    compactions: new Map(),
    departures: [],
    removed: undefined,
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
    resentLetters: undefined,
    openCalls: new Map(),
    callIds: new Set(),
    current: undefined,
    draft: undefined,
    turn: undefined,
    keys: new Map(),
    editKeys: undefined,
    receipts: new Map(),
    settled: [],
    children: new Map(),
    childQueue: new Set(),
    childrenAtWork: 0,
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

/** Adds the ids of the calls among these messages. */
export function addCallIds(state: SessionState, messages: readonly LoggedMessage[]): void {
  for (const { type, toolUseId } of messages) {
    if (type === 'tool_call' && toolUseId !== undefined) state.callIds.add(toolUseId);
  }
}

/** Active definitions: skills in the order of their activation, and at most one workflow. */
export interface ActiveDefinitions {
  readonly skills: readonly string[];
  readonly workflow: string | null;
}

/** A call whose prompt was too long. The call is repeated after a compression. */
export interface OverflowRecovery {
  /** The error of the call. If no compression succeeds, the half-step fails with this error. */
  readonly error: ErrorShape;
  readonly attempt: 1 | 2;
}

/** The source of a fork's first messages. */
export interface ForkOrigin {
  readonly session: string;
  /**
   * The number of this fork in the forked session; missing: the fork has its own copy of the messages.
   */
  readonly fork?: number;
  /** Epoch ms at which the forked session was created, to distinguish it from a later session with the same id. */
  readonly createdAt: number;
  /** Seq of the message that the caller chose as the fork's last; missing: the fork begins with all messages. */
  readonly at?: number;
  /** The length of the chain of logs that this log depends on. */
  readonly depth: number;
}
