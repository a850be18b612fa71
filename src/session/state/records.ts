/**
 * What a session remembers: the closed union of records. A session's log is turns of records; its state is their fold
 * (`apply`). A record states a fact and carries what cannot be derived from the records before it, nothing else: a
 * promotion names entries and moves nothing, an answer is kept once and split into messages when it is applied.
 */

import type { ErrorShape } from '../../base/errors.ts';
import type { HistoryMessage } from '../../base/history-message.ts';
import { isRecord } from '../../base/json.ts';
import type { ContentBlock, Deliver, PendingType, Source, Usage } from '../../base/messages.ts';
import type { SuspensionReason } from './boundary.ts';
import type { ForkSeed } from './fork-seed.ts';
import type { SnapshotBudgets, SummaryRun } from './memory.ts';
import type { Continuation, DispatchedCall } from './messages.ts';
import type { ForkOrigin, OverflowRecovery, Replies } from './state.ts';

/** What stands in the mailbox, as it was accepted. */
export interface Entry {
  readonly type: PendingType;
  readonly content: string | readonly ContentBlock[];
  /** Missing: a user. */
  readonly source?: Source;
  readonly toolUseId?: string;
  readonly success?: boolean;
  readonly deliver?: Deliver;
  readonly bounceBack?: boolean;
  /** Idempotency key of the sender, with the fingerprint of the content it came with. */
  readonly key?: string;
  readonly fingerprint?: string;
  /** The log message this entry stands for: promoting it writes nothing new (Δ28). */
  readonly seed?: number;
  /** `tool_response` only: how long the call ran. */
  readonly ms?: number;
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
      /** The child's task: its root goal, its first message, pinned (contract §7.3). */
      readonly task?: string;
      /** Nobody gave the child its name: it may get another one before its first half-step. */
      readonly unnamed?: true;
      /** Tokens it and what is below it may use; `isShared`: they count for its parent, too. */
      readonly budget?: { readonly tokens?: number; readonly isShared?: boolean };
    }
  | { readonly type: 'accepted'; readonly id: number; readonly entry: Entry }
  | { readonly type: 'claimed'; readonly halfStep: number; readonly entries: readonly number[]; readonly turn?: number }
  | { readonly type: 'epoch'; readonly fingerprint: string }
  | { readonly type: 'system'; readonly epoch: number; readonly text: string }
  /** `pinTokens`: what pinned messages among them may have of the window; where there are goals. */
  | { readonly type: 'evicted'; readonly below: number; readonly pinTokens?: number }
  | {
      readonly type: 'responded';
      readonly halfStep: number;
      readonly content: readonly ContentBlock[];
      readonly calls: readonly DispatchedCall[];
      readonly stop: string;
      readonly usage: Usage;
      readonly then: Continuation;
      /** It was asked for with a request that is not made again, or is not stored as it came: its thoughts are bound to that (R21). */
      readonly unbound?: true;
      /** Nothing of it starts before `proceeded`: somebody is asked first. */
      readonly held?: true;
    }
  | {
      readonly type: 'retried';
      readonly halfStep: number;
      readonly attempt: number;
      readonly waitMs: number;
      readonly status?: number;
      /** The rule for which the request was refused; it is rendered otherwise now. */
      readonly repaired?: string;
    }
  | {
      readonly type: 'failed';
      readonly halfStep: number;
      readonly error: ErrorShape;
      /** The entries that bounced: their messages are removed, their contents go back to the sender. One is not a list. */
      readonly bounced?: number | readonly number[];
      /** Authentication: the queue stops until `resumed`. */
      readonly blocks?: boolean;
    }
  | { readonly type: 'noted'; readonly content: string }
  | {
      readonly type: 'closed';
      readonly entries: readonly number[];
      readonly reason: 'completed' | 'cancelled' | 'limit';
      readonly error?: ErrorShape;
    }
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
      /** The call's answer waits for the child's name; `specialist`: as which it is told of. */
      readonly specialist?: true;
      readonly key?: string;
      readonly fingerprint?: string;
      /** The budget it was given, in tokens. */
      readonly budget?: number;
    }
  /** A child, or what is below it, used tokens of a budget. */
  | { readonly type: 'budgetUsed'; readonly tokens: number }
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
      readonly error?: ErrorShape;
    }
  /** A child waits out a transient fault before it is started again. */
  | { readonly type: 'restartScheduled'; readonly dueAt: number; readonly error: ErrorShape }
  /** A child starts again: what it knew is left behind, its task stands first. */
  | { readonly type: 'restarted'; readonly reason: string }
  | { readonly type: 'paused' }
  | { readonly type: 'resumed' }
  | { readonly type: 'recovered'; readonly redone: readonly string[]; readonly synthesized: readonly string[] }
  /** A round's results become messages; the session is held before the model is called with them. */
  | { readonly type: 'gathered'; readonly entries: readonly number[] }
  /** What was held goes on. `approve`: calls that wait for a person first, in call order. */
  | { readonly type: 'proceeded'; readonly approve?: readonly string[] }
  /** The run stops at the boundary at which it is held; its calls without a result wait until it is continued. */
  | {
      readonly type: 'suspended';
      readonly reason: SuspensionReason;
      readonly detail?: string | null;
      /** Calls the edit before answered with a placeholder; missing: none. */
      readonly healed?: readonly string[];
    }
  /** The suspended run goes on. `turn`: as a turn of this number; missing: nothing of it was left to do. */
  | { readonly type: 'continued'; readonly turn?: number }
  /** A person decided a call. `input`: what it is run with instead. */
  | {
      readonly type: 'decided';
      readonly callId: string;
      readonly allow: boolean;
      readonly reason?: string;
      readonly input?: unknown;
    }
  /** A guardrail stopped the half-step: before its call, or after it with the answer thrown away and paid for. */
  | { readonly type: 'blocked'; readonly halfStep: number; readonly error: ErrorShape; readonly usage?: Usage }
  /** What a failed turn left was removed by the edit before. `index`: place of the first message removed. */
  | { readonly type: 'rolledBack'; readonly reason: string; readonly index: number }
  /** One operation on the history: its results, never how they were found. */
  | {
      readonly type: 'edited';
      readonly operation: string;
      /** Seqs of logged messages that leave. */
      readonly removed?: readonly number[];
      /** Messages that change in place; `seq` is that of the first logged message. */
      readonly updated?: readonly { readonly seq: number; readonly message: HistoryMessage }[];
      /** Messages that come; `after`: the seq they stand behind, 0 for the head; missing: at the end. */
      readonly added?: readonly { readonly message: HistoryMessage; readonly after?: number }[];
      /** Messages whose metadata changes: nothing that is sent. */
      readonly annotated?: readonly { readonly seq: number; readonly message: HistoryMessage }[];
      readonly reason?: string;
      /** Callbacks for new messages are not told. */
      readonly silent?: boolean;
      /** Idempotency key of the operation, the fingerprint of its arguments, and its outcome. */
      readonly key?: string;
      readonly fingerprint?: string;
      readonly value?: unknown;
    }
  /** A task begins below another and becomes active, at the end of the running turn where there is one. */
  | { readonly type: 'taskStarted'; readonly id: number; readonly parent: number; readonly title?: string }
  /** Another task becomes active; during a turn this is the wish, and the turn's end its fulfilment. */
  | { readonly type: 'taskActivated'; readonly id: number; readonly cause: 'undo' | 'switch' }
  /** Up to here the log is shared with a fork; `copied`: it is not, the fork has a copy. */
  | { readonly type: 'forkMade'; readonly fork: number; readonly child: string; readonly copied?: true }
  /** First record of a fork. What it begins with is in `seed`, or in the log of its origin before the marker of this fork. */
  | { readonly type: 'forked'; readonly origin: ForkOrigin; readonly seed?: ForkSeed }
  /** A half-step that asks for a summary of the conversation; promotes the results of the round, if one is open. */
  | {
      readonly type: 'compacting';
      readonly halfStep: number;
      readonly entries: readonly number[];
      readonly tail?: number;
      readonly overflow?: OverflowRecovery;
    }
  /** The summary takes the place of what is archived. Seqs are ranges, both ends included. */
  | {
      readonly type: 'compacted';
      readonly halfStep: number;
      readonly number: number;
      readonly level: number;
      readonly summary: string;
      readonly archived: readonly SeqRange[];
      /** Seq of the first message that is kept: the summary stands before it. */
      readonly kept: number;
      /** Kept results that are shortened: the form shown from now on. */
      readonly cut?: readonly { readonly seq: number; readonly content: string | readonly ContentBlock[] }[];
      readonly chunk?: ArchivedChunk;
      /** The task it was made in: on other branches it is as if it had not been. */
      readonly task?: number;
      readonly usage: Usage;
    }
  /** A summary is being written: of messages (level 1, `leaving`), or of snapshots. */
  | ({ readonly type: 'summaryBegun' } & Omit<SummaryRun, 'isAwaited' | 'ended'>)
  /** A half-step waits for it. */
  | { readonly type: 'summaryAwaited' }
  /** The run is over. Nothing of the conversation changes yet. */
  | {
      readonly type: 'summaryEnded';
      readonly run: number;
      /** Missing, without an error: nothing of it need be remembered. */
      readonly text?: string;
      readonly error?: ErrorShape;
      readonly usage?: Usage;
    }
  /** What the run ended with is remembered. Messages leave with an `evicted` behind it. */
  | { readonly type: 'remembered'; readonly budgets: SnapshotBudgets }
  /** The run failed for good: all is as it was. */
  | { readonly type: 'summaryFailed' }
  /** What it was about is not what it was: the run is as if it had not been. */
  | { readonly type: 'summaryDropped' }
  /** All is as it was before `compacting`, but for the results that were promoted. */
  | {
      readonly type: 'compactionFailed';
      readonly halfStep: number;
      readonly reason: string;
      readonly usage?: Usage;
    }
  /** The turn of a waiting entry is being prepared, by the run of this number; again after a crash. `naming`: a sub-agent's first. */
  | {
      readonly type: 'preparing';
      readonly run: number;
      readonly entry: number;
      readonly naming?: true;
      /** In the place of a run that a crash ended. */
      readonly again?: true;
    }
  /** Goals changed while it was: what was said before is looked through, by a run of its own. `usage`: of the run before. */
  | { readonly type: 'recalling'; readonly run: number; readonly usage?: Usage }
  /** The preparation is over. `entry`: the one that needs none any more; missing: it was given up. */
  | {
      readonly type: 'prepared';
      readonly run: number;
      readonly entry?: number;
      readonly usage?: Usage;
      readonly error?: ErrorShape;
    }
  /** The session has a name, or another one. `prompt`: what tells a sub-agent who it is. */
  | { readonly type: 'named'; readonly name: string; readonly prompt?: string }
  /** A child has another name than that of its birth. */
  | { readonly type: 'childNamed'; readonly child: string; readonly name: string };

/** From a seq to a seq, both included. */
export type SeqRange = readonly [from: number, to: number];

/** Messages set aside by a compression. */
export interface ArchivedChunk {
  /** From 1, without gaps, in a session. */
  readonly number: number;
  readonly messages: readonly SeqRange[];
  readonly messageCount: number;
  /** What they are about, in the summarising model's words. */
  readonly topics?: string;
}

/** What one actor turn wrote for one session. */
export interface RecordTurn {
  /** Epoch ms of the turn: every message and event of it carries this time. */
  readonly at: number;
  readonly records: readonly SessionRecord[];
}

/** The entries that bounced, as a record names them. */
export function bouncedEntries(entries: readonly number[]): { readonly bounced?: number | readonly number[] } {
  const [only] = entries;
  if (only === undefined) return {};
  return { bounced: entries.length === 1 ? only : entries };
}

/** Version of the text form; a reader refuses higher ones. */
export const RECORD_FORMAT: 1 = 1;

/** The text of a turn for the journal: versioned JSON. */
export function encodeTurn(turn: RecordTurn): string {
  return `{"v":${RECORD_FORMAT},"at":${turn.at},"r":${JSON.stringify(turn.records)}}`;
}

/**
 * The turn a text of the journal describes. Throws an Error naming what is wrong; the store turns it into
 * `StoreCorruptError`. The envelope is checked here, the records' own fields were checked before they were written.
 */
export function decodeTurn(text: string): RecordTurn {
  const parsed: unknown = JSON.parse(text);
  if (!isRecord(parsed) || parsed['v'] !== RECORD_FORMAT) throw new Error('not a turn of a known format');
  const { at, r: records } = parsed;
  if (typeof at !== 'number' || !Array.isArray(records)) throw new Error('a turn without a time or records');
  return { at, records: records as readonly SessionRecord[] };
}

/** The record of a type. */
export type RecordOf<T extends SessionRecord['type']> = Extract<SessionRecord, { type: T }>;
