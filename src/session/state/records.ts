/**
 * The closed union of records. A session's log holds transitions, each a list of records; its state is their fold
 * (`apply`).
 * A record states a fact and carries only what earlier records cannot provide. A promotion names entries and moves
 * nothing. An
 * answer is stored once and split into messages when it is applied.
 */

import type { ErrorShape } from '../../base/errors.ts';
import type { HistoryMessage } from '../../base/history-message.ts';
import { isRecord, type Json } from '../../base/json.ts';
import type { ContentBlock, Deliver, PendingType, Source, Usage } from '../../base/messages.ts';
import type { AnswerForm } from './answer-form.ts';
import type { Asked, SuspensionReason } from './boundary.ts';
import type { Replies } from './child-link.ts';
import type { Container } from './container.ts';
import type { Elicitation, ElicitationResponse } from './elicitation.ts';
import type { ForkSeed } from './fork-seed.ts';
import type { SnapshotBudgets, SummaryRun } from './memory.ts';
import type { Continuation, DispatchedCall } from './messages.ts';
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
  /** The log message this entry stands for: promoting the entry writes nothing new. */
  readonly seed?: number;
  /** `tool_response` only: the duration of the call. */
  readonly ms?: number;
  /** The form of the answer that the sender asks for. */
  readonly output?: AnswerForm;
}

/** The model with which an epoch opens, of an agent with several. */
export interface EpochModel {
  /** Its place in the agent's list, from 0. */
  readonly place: number;
  readonly name: string;
  /** Why it is another one than before: the code of the failure, `refusal`, or `return`. */
  readonly because?: string;
}

/** One fact of a session's log. */
export type SessionRecord =
  | {
      readonly type: 'created';
      readonly agent: string;
      readonly depth: number;
      readonly parent?: string;
      readonly spawnCallId?: string;
      readonly name?: string;
      /** Added to the agent's system prompt: identity and communication of a child, or a specialist's prompt. */
      readonly prompt?: string;
      readonly grants?: readonly string[];
      readonly replies?: Replies;
      /** The child's task: its root goal and its first message, which is pinned. */
      readonly task?: string;
      /** True if the child was spawned without a name, so that it may get another name before its first half-step. */
      readonly unnamed?: true;
      /** Token limit of the child and everything below it. `isShared`: its tokens also count for its parent. */
      readonly budget?: { readonly tokens?: number; readonly isShared?: boolean };
      /** The form of the child's reply. */
      readonly output?: AnswerForm;
      /** True if the child starts nothing before its `started` record. */
      readonly queued?: true;
    }
  /** A child that waited for a place among its parent's working children has it. */
  | { readonly type: 'started' }
  /**
   * A child that has ended is to work again, and waits for a place. `resumes`: it continues its suspended run, without a
   * message.
   */
  | { readonly type: 'revived'; readonly resumes?: true }
  | { readonly type: 'accepted'; readonly id: number; readonly entry: Entry }
  | { readonly type: 'claimed'; readonly halfStep: number; readonly entries: readonly number[]; readonly turn?: number }
  /**
   * `traits`: the model's traits with which the epoch is rendered, in the short form of `request-traits.ts`. `model`: the
   * model of an agent with several; missing: its first one. `resends`: the half-step's call is made again in this epoch.
   */
  | {
      readonly type: 'epoch';
      readonly fingerprint: string;
      readonly traits?: string;
      readonly model?: EpochModel;
      readonly resends?: true;
    }
  | { readonly type: 'system'; readonly epoch: number; readonly text: string }
  /** `pinTokens`: window tokens that pinned messages among the evicted ones may use; present where there are goals. */
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
       * True if the answer's request is not repeated, or if the answer is not stored as it came. Its thoughts are bound
       * to that request.
       */
      readonly unbound?: true;
      /** Why the model refused, as the API describes it. */
      readonly stopDetails?: Json;
      /** The container that the answer's code ran in. */
      readonly container?: Container;
      /** Parts of the request that the API changed or dropped, such as thoughts. */
      readonly inputTransformations?: Json;
      /** True if a verdict is needed first, so that none of the answer's calls starts before `proceeded`. */
      readonly held?: true;
    }
  | {
      readonly type: 'retried';
      readonly halfStep: number;
      readonly attempt: number;
      readonly waitMs: number;
      readonly status?: number;
      /** The rule that refused the request. The request is now rendered differently. */
      readonly repaired?: string;
      /** True if another model of the agent makes the next attempt, with all its retries. */
      readonly fallsBack?: true;
      /** The tokens of an answer that was refused. */
      readonly usage?: Usage;
    }
  | {
      readonly type: 'failed';
      readonly halfStep: number;
      readonly error: ErrorShape;
      /**
       * The entries that bounced: their messages are removed, their contents return to the sender. A single entry is
       * written as a number.
       */
      readonly bounced?: number | readonly number[];
      /** True if authentication failed. The queue then stops until `resumed`. */
      readonly blocks?: boolean;
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
   * A structured answer does not have its form, and the model is asked again. `text`: what does not fit, for the model;
   * missing: the result of the call that gave the answer says it.
   */
  | { readonly type: 'corrected'; readonly text?: string }
  | { readonly type: 'dropped'; readonly id: number; readonly reason: string }
  | { readonly type: 'recalled'; readonly id: number }
  | { readonly type: 'poisoned'; readonly id: number; readonly error: ErrorShape }
  | { readonly type: 'interrupted'; readonly reason?: string }
  /** The model call in flight was given up on request: the turn ends as cancelled. */
  | { readonly type: 'released' }
  | {
      readonly type: 'spawned';
      readonly child: string;
      readonly name: string;
      readonly replies: Replies;
      readonly spawnCallId?: string;
      /**
       * The call's answer waits for the child's name. `specialist`: whether the answer calls the child a specialist.
       */
      readonly specialist?: true;
      readonly key?: string;
      readonly fingerprint?: string;
      /** The child's budget, in tokens. */
      readonly budget?: number;
      /** True if the child waits for a place: as many children as may be are at work. */
      readonly queued?: true;
    }
  /** A child that waited for a place has it. */
  | { readonly type: 'childStarted'; readonly child: string }
  /** A child that has ended works again; `queued`: it waits for a place. */
  | { readonly type: 'childRevived'; readonly child: string; readonly queued?: true }
  /** A child, or a session below it, used tokens of a budget. */
  | { readonly type: 'budgetUsed'; readonly tokens: number }
  /** The session has this budget from here on; `tokens` missing: none, and the use is still counted. */
  | { readonly type: 'budgetSet'; readonly tokens?: number }
  /** The use of this session counts for the session above it from here on, with all tokens that it used before. */
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
  /** A child waits for a transient fault to pass before it restarts. */
  | { readonly type: 'restartScheduled'; readonly dueAt: number; readonly error: ErrorShape }
  /** A child restarts: its earlier messages are left behind, and its task is its first message again. */
  | { readonly type: 'restarted'; readonly reason: string }
  | { readonly type: 'paused' }
  | { readonly type: 'resumed' }
  | { readonly type: 'recovered'; readonly redone: readonly string[]; readonly synthesized: readonly string[] }
  /** A round's results become messages; the session is held before the model is called with them. */
  | { readonly type: 'gathered'; readonly entries: readonly number[] }
  /** The held run continues. `approve`: calls that wait for a person first, in call order. */
  | { readonly type: 'proceeded'; readonly approve?: readonly string[] }
  /** The run stops at the boundary at which it is held. Its calls without a result wait until it continues. */
  | {
      readonly type: 'suspended';
      readonly reason: SuspensionReason;
      readonly detail?: string | null;
      /** Calls that the preceding edit answered with a placeholder; missing: none. */
      readonly healed?: readonly string[];
    }
  /**
   * The suspended run continues. `turn`: the number of the turn in which it continues; missing if nothing was left to
   * do.
   */
  | { readonly type: 'continued'; readonly turn?: number }
  /** A call asks a person or the parent, and waits for the answer. `form`: that of the answer; missing: text. */
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
   * A call that waits was decided. `input`: the input it runs with instead. For a question `allow` is true if it was
   * answered, and the record that follows has the answer; `answer`: the fingerprint of what a person or program gave.
   * `response`: the call continues with it, since its server asked; no result follows.
   */
  | {
      readonly type: 'decided';
      readonly callId: string;
      readonly allow: boolean;
      readonly reason?: string;
      readonly input?: unknown;
      readonly answer?: string;
      readonly response?: ElicitationResponse;
    }
  /**
   * A guardrail stopped the half-step: before its call, or after it. In the second case the answer is discarded and its
   * usage counts.
   */
  | { readonly type: 'blocked'; readonly halfStep: number; readonly error: ErrorShape; readonly usage?: Usage }
  /** The preceding edit removed what a failed turn left. `index`: position of the first removed message. */
  | { readonly type: 'rolledBack'; readonly reason: string; readonly index: number }
  /** One operation on the history. It holds the operation's results, never how they were found. */
  | {
      readonly type: 'edited';
      readonly operation: string;
      /** Seqs of the logged messages that leave. */
      readonly removed?: readonly number[];
      /** Messages that change in place. `seq` is that of the first logged message. */
      readonly updated?: readonly { readonly seq: number; readonly message: HistoryMessage }[];
      /**
       * Messages that are added. `after`: the seq after which the message is added, 0 for the beginning; missing: at
       * the end.
       */
      readonly added?: readonly { readonly message: HistoryMessage; readonly after?: number }[];
      /** Messages whose metadata changes. Requests do not contain it. */
      readonly annotated?: readonly { readonly seq: number; readonly message: HistoryMessage }[];
      readonly reason?: string;
      /** True if callbacks for new messages are not called. */
      readonly silent?: boolean;
      /** Idempotency key of the operation, the fingerprint of its arguments, and its outcome. */
      readonly key?: string;
      readonly fingerprint?: string;
      readonly value?: unknown;
    }
  /** A task begins below another and becomes active; during a turn it becomes active when the turn ends. */
  | { readonly type: 'taskStarted'; readonly id: number; readonly parent: number; readonly title?: string }
  /** Another task becomes active. During a turn the record is only a request, which the turn's end carries out. */
  | { readonly type: 'taskActivated'; readonly id: number; readonly cause: 'undo' | 'switch' }
  /** The log up to here is shared with a fork. `copied`: it is not shared, since the fork has a copy. */
  | { readonly type: 'forkMade'; readonly fork: number; readonly child: string; readonly copied?: true }
  /** First record of a fork. Its beginning is in `seed`, or in its origin's log before the marker of this fork. */
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
      /** Seq of the first message that is kept. The summary precedes it. */
      readonly kept: number;
      /** Kept results that are shortened: the form shown from now on. */
      readonly cut?: readonly { readonly seq: number; readonly content: string | readonly ContentBlock[] }[];
      readonly chunk?: ArchivedChunk;
      /** The task in which the compression was made. Other branches ignore it. */
      readonly task?: number;
      readonly usage: Usage;
    }
  /** A summary is being written: of messages (level 1, `leaving`), or of snapshots. */
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
  /** The result of the run is remembered. An `evicted` record behind this one makes its messages leave. */
  | { readonly type: 'remembered'; readonly budgets: SnapshotBudgets }
  /** The run failed for good. Nothing changes. */
  | { readonly type: 'summaryFailed' }
  /** The messages or snapshots of the run changed meanwhile, so its result does not count. */
  | { readonly type: 'summaryDropped' }
  /** The compression failed. Everything is as before `compacting`, except that the results stay promoted. */
  | {
      readonly type: 'compactionFailed';
      readonly halfStep: number;
      readonly reason: string;
      readonly usage?: Usage;
    }
  /**
   * The run with this number prepares the turn of a waiting entry; it begins again after a crash. `naming`: a
   * sub-agent's first turn.
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
   * Goals changed during the preparation: a separate run searches earlier messages. `usage`: that of the run before.
   */
  | { readonly type: 'recalling'; readonly run: number; readonly usage?: Usage }
  /** The preparation has ended. `entry`: the entry that is now prepared; missing: the preparation was given up. */
  | {
      readonly type: 'prepared';
      readonly run: number;
      readonly entry?: number;
      readonly usage?: Usage;
      readonly error?: ErrorShape;
    }
  /**
   * The session has a name, or a different one. `prompt`: the part of the prompt that gives a sub-agent its identity.
   */
  | { readonly type: 'named'; readonly name: string; readonly prompt?: string }
  /** A child's name is no longer the one from its birth. */
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

/** The entries that bounced, in the form a record has them. */
export function bouncedEntries(entries: readonly number[]): { readonly bounced?: number | readonly number[] } {
  const [only] = entries;
  if (only === undefined) return {};
  return { bounced: entries.length === 1 ? only : entries };
}

/** Version of the text form. A reader refuses higher versions. */
export const RECORD_FORMAT: 1 = 1;

/** The text of a transition for the journal: versioned JSON. */
export function encodeTransition(turn: TransitionRecords): string {
  return `{"v":${RECORD_FORMAT},"at":${turn.at},"r":${JSON.stringify(turn.records)}}`;
}

/**
 * The transition that a text of the journal describes. Throws an Error that names the fault; the store turns it into
 * `StoreCorruptError`. `media`: the media of the same log, which are shared. Only the envelope is checked here: the records' own fields were checked before they were
 * written.
 */
export function decodeTransition(text: string, media?: SharedMedia): TransitionRecords {
  const parsed: unknown = media === undefined ? JSON.parse(text) : media.parse(text);
  if (!isRecord(parsed) || parsed['v'] !== RECORD_FORMAT) throw new Error('not a turn of a known format');
  const { at, r: records } = parsed;
  if (typeof at !== 'number' || !Array.isArray(records)) throw new Error('a turn without a time or records');
  return { at, records: records as readonly SessionRecord[] };
}

/** The record of a type. */
export type RecordOf<T extends SessionRecord['type']> = Extract<SessionRecord, { type: T }>;
