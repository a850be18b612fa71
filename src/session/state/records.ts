/**
 * The closed union of records. A session's log holds transitions, each a list of records. Folding all records with
 * `apply` gives the session's state. A record states one fact and carries only data that earlier records do not have. A
 * promotion names entries and moves nothing. An answer is stored once and split into messages when it is applied.
 */

import type { LossReason } from '../../base/answer-draft.ts';
import type { ErrorShape } from '../../base/errors.ts';
import type { HistoryMessage } from '../../base/history-message.ts';
import { isRecord, type Json } from '../../base/json.ts';
import type { ContentBlock, Deliver, PendingType, Source, TurnAgent, Usage } from '../../base/messages.ts';
import type { AnswerForm } from './answer-form.ts';
import type { Asked, SuspensionReason } from './boundary.ts';
import type { Replies } from './child-link.ts';
import type { Container } from './container.ts';
import type { Elicitation, ElicitationResponse } from './elicitation.ts';
import type { ForkSeed } from './fork-seed.ts';
import type { SnapshotBudgets, SummaryRun } from './memory.ts';
import type { Continuation, DispatchedCall } from './messages.ts';
import type { RemovedHistory } from './retention.ts';
import type { SharedMedia } from './shared-media.ts';
import type { ForkOrigin, OverflowRecovery } from './state.ts';

/** A mailbox entry, as it was accepted. */
export interface Entry {
  readonly type: PendingType;
  readonly content: string | readonly ContentBlock[];
  /** The sender; missing: a user. */
  readonly source?: Source;
  readonly toolUseId?: string;
  readonly success?: boolean;
  readonly deliver?: Deliver;
  readonly bounceBack?: boolean;
  /** Idempotency key of the sender, with the fingerprint of its content. */
  readonly key?: string;
  readonly fingerprint?: string;
  /**
   * Seq of the logged message that this entry stands for, such as a child's task. Promoting the entry logs no message.
   */
  readonly seed?: number;
  /** `tool_response` only: the duration of the call. */
  readonly ms?: number;
  /** The form of the answer that the sender asks for. */
  readonly output?: AnswerForm;
  /** The number of the dead letter that this entry sends again. The letter leaves the list with this record. */
  readonly letter?: number;
}

/** The model of an epoch, if the agent has several models. */
export interface EpochModel {
  /** The model's index in the agent's list, from 0. */
  readonly place: number;
  readonly name: string;
  /** Why the model changed: the code of the failure, `refusal`, or `return`. */
  readonly because?: string;
}

/** One fact of a session's log. */
export type SessionRecord =
  | {
      readonly type: 'created';
      readonly agent: string;
      /** The version of the agent when the session begins; missing: the agent has no version. */
      readonly version?: string;
      readonly depth: number;
      readonly parent?: string;
      readonly spawnCallId?: string;
      readonly name?: string;
      /**
       * A text added to the agent's system prompt: a child's identity and ways to communicate, or a specialist's
       * prompt.
       */
      readonly prompt?: string;
      readonly grants?: readonly string[];
      readonly replies?: Replies;
      /** The child's task: its root goal and its first message, which is pinned. */
      readonly task?: string;
      /** True if the child was spawned without a name, so that it may get another name before its first half-step. */
      readonly unnamed?: true;
      /** Token limit of the child and its descendants. `isShared`: their tokens also count for the parent. */
      readonly budget?: { readonly tokens?: number; readonly isShared?: boolean };
      /** The form of the child's reply. */
      readonly output?: AnswerForm;
      /** True if the child is queued: it starts nothing before its `started` record. */
      readonly queued?: true;
    }
  /** This session, a queued child, may start. */
  | { readonly type: 'started' }
  /** This ended child is to work again, once its parent lets it start. `resumes`: its suspended run continues. */
  | { readonly type: 'revived'; readonly resumes?: true }
  | { readonly type: 'accepted'; readonly id: number; readonly entry: Entry }
  /** `turn`: the half-step begins this turn. `agent`: the agent of the turn, if the agent has a version. */
  | {
      readonly type: 'claimed';
      readonly halfStep: number;
      readonly entries: readonly number[];
      readonly turn?: number;
      readonly agent?: TurnAgent;
    }
  /** The session moved to another version of its agent. `version` missing: the agent's definition has no version. */
  | { readonly type: 'upgraded'; readonly from?: string; readonly version?: string }
  /**
   * An epoch opens. `traits`: the model's traits for rendering the epoch, in the short form of `request-traits.ts`.
   * `model`: the model, if the agent has several; missing: the first. `resends`: the half-step's call is made again in
   * this epoch.
   */
  | {
      readonly type: 'epoch';
      readonly fingerprint: string;
      readonly traits?: string;
      readonly model?: EpochModel;
      readonly resends?: true;
    }
  | { readonly type: 'system'; readonly epoch: number; readonly text: string }
  /**
   * Messages leave the window. `pinTokens`: token limit of the pinned messages that requests show before the window;
   * present if the session has goals or an open task.
   */
  | { readonly type: 'evicted'; readonly below: number; readonly pinTokens?: number }
  | {
      readonly type: 'responded';
      readonly halfStep: number;
      readonly content: readonly ContentBlock[];
      readonly calls: readonly DispatchedCall[];
      readonly stop: string;
      readonly usage: Usage;
      readonly then: Continuation;
      /**
       * True if the next request will not begin with this answer's request, or if the answer was changed before it was
       * stored. The thoughts of an answer are bound to its request, so these thoughts cannot be sent again.
       */
      readonly unbound?: true;
      /** True if thoughts of the answer were not stored. Then an epoch opens, whose requests do not need them. */
      readonly lacksThoughts?: true;
      /** Why the model refused, as the API describes it. */
      readonly stopDetails?: Json;
      /** The provider's container in which the answer's code ran. */
      readonly container?: Container;
      /** Parts of the request that the API changed or dropped, such as thoughts. */
      readonly inputTransformations?: Json;
      /** True if the answer waits for a verdict: none of its calls starts before `proceeded`. */
      readonly held?: true;
    }
  | {
      readonly type: 'retried';
      readonly halfStep: number;
      readonly attempt: number;
      readonly waitMs: number;
      /** The code of the failure, or `refusal`; missing: an older version wrote the record. */
      readonly code?: string;
      /** The message of the failure. */
      readonly detail?: string;
      readonly status?: number;
      /** The rule of the API that the request broke. The request is now rendered differently. */
      readonly repaired?: string;
      /** True if another model of the agent makes the next attempt, with all its retries. */
      readonly fallsBack?: true;
      /** The tokens of an answer in which the model refused. */
      readonly usage?: Usage;
    }
  | {
      readonly type: 'failed';
      readonly halfStep: number;
      readonly error: ErrorShape;
      /**
       * The entries that bounced: their messages are removed from the conversation, and their contents return to the
       * sender. A single entry is written as a number.
       */
      readonly bounced?: number | readonly number[];
      /** True if the session is blocked until `resumed`, for example because authentication failed. */
      readonly blocks?: boolean;
    }
  /**
   * A model call ended without an answer, after its answer had begun. `turn`: the number of its turn. `text`: the
   * streamed text. `text` and `thinking` together have at most `DRAFT_CHARACTERS_MAX`. `truncated`: the call streamed
   * more than these texts. `usage`: the tokens that the provider reported.
   */
  | {
      readonly type: 'lost';
      readonly halfStep: number;
      readonly attempt: number;
      readonly turn: number;
      readonly reason: LossReason;
      readonly text: string;
      readonly thinking?: string;
      readonly truncated?: true;
      readonly usage?: Usage;
    }
  | { readonly type: 'noted'; readonly content: string }
  | {
      readonly type: 'closed';
      readonly entries: readonly number[];
      readonly reason: 'completed' | 'cancelled' | 'limit';
      readonly error?: ErrorShape;
      /** The structured answer that ends the turn. */
      readonly output?: Json;
    }
  /**
   * A structured answer does not have its form, and the model is asked again. `text`: the message that describes the
   * faults to the model; missing: the result of the answer's call describes them.
   */
  | { readonly type: 'corrected'; readonly text?: string }
  | { readonly type: 'dropped'; readonly id: number; readonly reason: string }
  | { readonly type: 'recalled'; readonly id: number }
  /**
   * An entry that cannot be promoted becomes a dead letter. `announced`: events report it. Logs of earlier versions
   * lack this member, and their events keep their numbers.
   */
  | { readonly type: 'poisoned'; readonly id: number; readonly error: ErrorShape; readonly announced?: true }
  /** A dead letter was dropped on request. */
  | { readonly type: 'letterDropped'; readonly id: number }
  /** Messages that left the window before a given time were removed, with the older part of the log. */
  | ({ readonly type: 'historyRemoved' } & RemovedHistory)
  | { readonly type: 'interrupted'; readonly reason?: string }
  /** The model call in flight was cancelled on request, and the turn ends as cancelled. */
  | { readonly type: 'released' }
  | {
      readonly type: 'spawned';
      readonly child: string;
      readonly name: string;
      readonly replies: Replies;
      readonly spawnCallId?: string;
      /**
       * True if the spawn call's result calls the child a specialist. The result waits for the child's name.
       */
      readonly specialist?: true;
      readonly key?: string;
      readonly fingerprint?: string;
      /** The child's budget, in tokens. */
      readonly budget?: number;
      /** True if the child is queued, because the session has the maximum number of working children. */
      readonly queued?: true;
    }
  /** A queued child of this session may start. */
  | { readonly type: 'childStarted'; readonly child: string }
  /** A child that has ended works again. `queued`: it first waits for a place among the working children. */
  | { readonly type: 'childRevived'; readonly child: string; readonly queued?: true }
  /** A descendant used tokens that count for this session's budget. */
  | { readonly type: 'budgetUsed'; readonly tokens: number }
  /** The session has this budget from here on. `tokens` missing: no limit, but the session's use is still counted. */
  | { readonly type: 'budgetSet'; readonly tokens?: number }
  /** This session's use counts for its parent's budget from here on, together with all tokens that it used before. */
  | { readonly type: 'budgetShared' }
  | {
      readonly type: 'childExited';
      readonly child: string;
      readonly reason: 'completed' | 'failed' | 'cancelled';
      readonly error?: ErrorShape;
    }
  | { readonly type: 'goalCompleted'; readonly result: string }
  | { readonly type: 'goalCreated'; readonly id: number; readonly description: string; readonly parentId?: number }
  | { readonly type: 'goalUpdated'; readonly id: number; readonly description: string }
  | { readonly type: 'goalDone'; readonly id: number }
  | {
      readonly type: 'pinned';
      readonly messages: readonly { readonly seq: number; readonly text: string }[];
      readonly goals: readonly number[];
    }
  | {
      readonly type: 'exited';
      readonly reason: 'completed' | 'failed' | 'cancelled';
      readonly reply: string;
      /** The structured reply. `reply` is its text. */
      readonly output?: Json;
      readonly error?: ErrorShape;
    }
  /** This child will restart at `dueAt`, when the transient fault may have passed. */
  | { readonly type: 'restartScheduled'; readonly dueAt: number; readonly error: ErrorShape }
  /** This child restarts: its earlier messages leave the window, and its task is its first message again. */
  | { readonly type: 'restarted'; readonly reason: string }
  | { readonly type: 'paused' }
  /** The block is lifted, and the pause as well, unless `staysPaused`. */
  | { readonly type: 'resumed'; readonly staysPaused?: true }
  | { readonly type: 'recovered'; readonly redone: readonly string[]; readonly synthesized: readonly string[] }
  /** A round's results become messages; the session is held before the model is called with them. */
  | { readonly type: 'gathered'; readonly entries: readonly number[] }
  /** The held run continues. `approve`: calls that still wait for a person, in call order. */
  | { readonly type: 'proceeded'; readonly approve?: readonly string[] }
  /** The held run is suspended at its boundary. Its calls without a result wait until the run continues. */
  | {
      readonly type: 'suspended';
      readonly reason: SuspensionReason;
      readonly detail?: string | null;
      /** Calls that the preceding edit answered with a placeholder; missing: none. */
      readonly healed?: readonly string[];
    }
  /**
   * The suspended run continues. `turn`: the number of the turn in which it continues; missing if the run had nothing
   * left to do.
   */
  | { readonly type: 'continued'; readonly turn?: number; readonly agent?: TurnAgent }
  /** A call asks a person or the parent, and waits for the answer. `form`: the form of the answer; missing: text. */
  | {
      readonly type: 'asked';
      readonly callId: string;
      readonly asked: Asked;
      readonly question: string;
      readonly choices?: readonly string[];
      readonly form?: AnswerForm;
      readonly elicitation?: Elicitation;
    }
  /** The parent's answer to a question does not have its form. The question keeps waiting. */
  | { readonly type: 'misanswered'; readonly callId: string }
  /**
   * A waiting call got its decision. `input`: the input that replaces the call's own.
   * For a question, `allow` is true if the question was answered. The next record has the answer. `answer`: the
   * fingerprint of the value that a person or program gave. `response`: the answer for an MCP server. The call then
   * continues with that answer, and no record has a result.
   */
  | {
      readonly type: 'decided';
      readonly callId: string;
      readonly allow: boolean;
      readonly reason?: string;
      readonly input?: unknown;
      readonly answer?: string;
      readonly response?: ElicitationResponse;
      /**
       * The author of the decision, as the caller named it. Only a record with an author publishes
       * `approval.decided`.
       */
      readonly by?: string;
    }
  /**
   * A guardrail stopped the half-step, before or after its call. After the call the answer is discarded, but its usage
   * counts.
   */
  | { readonly type: 'blocked'; readonly halfStep: number; readonly error: ErrorShape; readonly usage?: Usage }
  /** The preceding edit removed the messages of a failed turn. `index`: position of the first removed message. */
  | { readonly type: 'rolledBack'; readonly reason: string; readonly index: number }
  /** One operation on the history. The record names the messages that it changed, never how they were found. */
  | {
      readonly type: 'edited';
      readonly operation: string;
      /** Seqs of the logged messages that leave. */
      readonly removed?: readonly number[];
      /** Messages that change in place. `seq`: that of the message's first logged part. */
      readonly updated?: readonly { readonly seq: number; readonly message: HistoryMessage }[];
      /**
       * Messages that are added. `after`: the seq after which the message is added, 0 for the beginning; missing: at
       * the end.
       */
      readonly added?: readonly { readonly message: HistoryMessage; readonly after?: number }[];
      /** Messages whose metadata changes. Requests do not contain metadata. */
      readonly annotated?: readonly { readonly seq: number; readonly message: HistoryMessage }[];
      readonly reason?: string;
      /** False if callbacks are called for the new messages. Missing or true: they are not called. */
      readonly silent?: boolean;
      /** Idempotency key of the operation, the fingerprint of its arguments, and its outcome. */
      readonly key?: string;
      readonly fingerprint?: string;
      readonly value?: unknown;
    }
  /** A task begins below another. It becomes active now, or at the end of the running turn. */
  | { readonly type: 'taskStarted'; readonly id: number; readonly parent: number; readonly title?: string }
  /**
   * Another task becomes active. During a turn the record is only a request: the task becomes active as the turn ends.
   */
  | { readonly type: 'taskActivated'; readonly id: number; readonly cause: 'undo' | 'switch' }
  /** The log up to here is shared with a fork. `copied`: the fork has a copy instead. */
  | { readonly type: 'forkMade'; readonly fork: number; readonly child: string; readonly copied?: true }
  /**
   * First record of a fork. The fork's first state is in `seed`, or in its origin's log before the `forkMade` record.
   */
  | { readonly type: 'forked'; readonly origin: ForkOrigin; readonly seed?: ForkSeed }
  /** A half-step that asks for a summary of the conversation. It promotes the results of the round, if one is open. */
  | {
      readonly type: 'compacting';
      readonly halfStep: number;
      readonly entries: readonly number[];
      readonly tail?: number;
      readonly overflow?: OverflowRecovery;
    }
  /** The summary replaces the archived messages. Seqs are ranges, both ends included. */
  | {
      readonly type: 'compacted';
      readonly halfStep: number;
      readonly number: number;
      readonly level: number;
      readonly summary: string;
      readonly archived: readonly SeqRange[];
      /** Seq of the first message that is kept. The summary directly precedes this message. */
      readonly kept: number;
      /** Kept results that are shortened, with the content shown from now on. */
      readonly cut?: readonly { readonly seq: number; readonly content: string | readonly ContentBlock[] }[];
      readonly chunk?: ArchivedChunk;
      /** The task in which the compression was made. Other branches ignore the compression. */
      readonly task?: number;
      readonly usage: Usage;
    }
  /** Mneme begins a summary: of messages (level 1, with `leaving`), or of snapshots (level 2). */
  | ({ readonly type: 'summaryBegun' } & Omit<SummaryRun, 'isAwaited' | 'ended'>)
  /** A half-step waits for the summary. */
  | { readonly type: 'summaryAwaited' }
  /** The run that writes a summary has ended. The conversation does not change yet. */
  | {
      readonly type: 'summaryEnded';
      readonly run: number;
      /** The summary. Missing without an error if there is nothing to remember. */
      readonly text?: string;
      readonly error?: ErrorShape;
      readonly usage?: Usage;
    }
  /** The run's result becomes a snapshot. After level 1, an `evicted` record follows for the summed-up messages. */
  | { readonly type: 'remembered'; readonly budgets: SnapshotBudgets }
  /** The run failed for good. Its messages or snapshots stay without a summary. */
  | { readonly type: 'summaryFailed' }
  /** The messages or snapshots that the run summed up changed meanwhile, so its result is dropped. */
  | { readonly type: 'summaryDropped' }
  /** The compression failed. It changed no message; the results promoted by `compacting` stay promoted. */
  | {
      readonly type: 'compactionFailed';
      readonly halfStep: number;
      readonly reason: string;
      readonly usage?: Usage;
    }
  /**
   * A run of an enricher begins to prepare the turn of a waiting entry. `naming`: it names a sub-agent before its first
   * turn.
   */
  | {
      readonly type: 'preparing';
      readonly run: number;
      readonly entry: number;
      readonly naming?: true;
      /** True if this run replaces a run that a crash ended. */
      readonly again?: true;
    }
  /**
   * Goals changed during the preparation, so a separate run searches earlier messages. `usage`: of the preparing run.
   */
  | { readonly type: 'recalling'; readonly run: number; readonly usage?: Usage }
  /** The preparation has ended. `entry`: the entry whose turn is prepared; missing: the preparation was given up. */
  | {
      readonly type: 'prepared';
      readonly run: number;
      readonly entry?: number;
      readonly usage?: Usage;
      readonly error?: ErrorShape;
    }
  /**
   * The session has a new name. `prompt`: the part of the prompt that gives a sub-agent its identity.
   */
  | { readonly type: 'named'; readonly name: string; readonly prompt?: string }
  /** A child gets a name that differs from its name at its spawning. */
  | { readonly type: 'childNamed'; readonly child: string; readonly name: string };

/** A range of seqs, both ends included. */
export type SeqRange = readonly [from: number, to: number];

/** Messages archived by a compression. */
export interface ArchivedChunk {
  /** The number of the archive: from 1, without gaps within a session. */
  readonly number: number;
  readonly messages: readonly SeqRange[];
  readonly messageCount: number;
  /** The topics of the messages, in the words of the summarising model. */
  readonly topics?: string;
}

/** The records of one transition, for one session. */
export interface TransitionRecords {
  /** Epoch ms of the transition. Each of its messages and events carries this time. */
  readonly at: number;
  readonly records: readonly SessionRecord[];
}

/** The entries that bounced, as the `failed` record stores them. */
export function bouncedEntries(entries: readonly number[]): { readonly bounced?: number | readonly number[] } {
  const [only] = entries;
  if (only === undefined) return {};
  return { bounced: entries.length === 1 ? only : entries };
}

/** Version of the text form. A reader refuses any other version. */
export const RECORD_FORMAT: 1 = 1;

/** The text of a transition for the journal: versioned JSON. */
export function encodeTransition(turn: TransitionRecords): string {
  return `{"v":${RECORD_FORMAT},"at":${turn.at},"r":${JSON.stringify(turn.records)}}`;
}

/**
 * The transition that a text of the journal describes. `media`: the media that values of the same log share. Only the
 * envelope is checked here; the records' own fields were checked before they were written. Throws an Error that names
 * the fault; the store turns it into `StoreCorruptError`.
 */
export function decodeTransition(text: string, media?: SharedMedia): TransitionRecords {
  const parsed: unknown = media === undefined ? JSON.parse(text) : media.parse(text);
  if (!isRecord(parsed) || parsed['v'] !== RECORD_FORMAT) throw new Error('not a transition of a known format');
  const { at, r: records } = parsed;
  if (typeof at !== 'number' || !Array.isArray(records)) throw new Error('a transition without a time or records');
  return { at, records: records as readonly SessionRecord[] };
}

/** The record of a type. */
export type RecordOf<T extends SessionRecord['type']> = Extract<SessionRecord, { type: T }>;

/** The text and tokens of a model call that ended without an answer. */
export type LostAnswer = Omit<RecordOf<'lost'>, 'type'>;
