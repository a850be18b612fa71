/**
 * The closed union of a session's events. An event with `seq` is durable: it is derived from the log and can be
 * replayed. Durable events are numbered in one total order per session, without gaps. An event without `seq` is
 * ephemeral: a reader sees it live or not at all.
 */
import type { LossReason } from '../base/answer-draft.ts';
import type { ErrorShape } from '../base/errors.ts';
import type { Goal } from '../base/goals.ts';
import type { Json } from '../base/json.ts';
import type { Message, Pending, TurnAgent, Usage } from '../base/messages.ts';
import type { Rendered } from './rendered.ts';

/** The states of a session. */
export const SESSION_STATES = ['idle', 'awaiting', 'executing'] as const;
/** One of `SESSION_STATES`. */
export type SessionStateName = (typeof SESSION_STATES)[number];

/** The status of a session in one word, the most urgent first. */
export const SESSION_STATUSES = [
  'blocked',
  'waiting',
  'running',
  'suspended',
  'paused',
  'queued',
  'failed',
  'idle',
] as const;

/**
 * `blocked`: the session cannot run until someone acts. `waiting`: it waits for a person. `running`: it is in a turn,
 * or about to be. `suspended`: its turn stopped at a boundary. `paused`: `pause()` stopped it. `queued`: it is a child
 * that starts when another child of its parent has ended (`subagents.maxActive`). `failed`: no turn runs, and the last
 * one failed. `idle`: none of these.
 */
export type SessionStatus = (typeof SESSION_STATUSES)[number];

/** How a turn ended. Receipts use the same names. */
export const TURN_OUTCOMES = ['answered', 'failed', 'interrupted', 'suspended'] as const;

/**
 * How a session's last turn ended: `interrupted` on request; `suspended` at a boundary, so that the turn can continue.
 */
export type LastOutcome = (typeof TURN_OUTCOMES)[number];

/** The error of a session's last turn, as lists of sessions show it: without its data, and with a bounded message. */
export type LastError = Pick<ErrorShape, 'name' | 'code' | 'message' | 'retryable'>;
/** How an entry can leave a mailbox. */
export const REMOVAL_REASONS = ['promoted', 'recalled', 'dropped'] as const;
/** The activity of a session within its state. */
export type Phase = 'preparing' | 'retrying' | 'paused' | 'approval' | 'question' | 'suspended';

/** The content of an event, without its envelope. */
export type EventBody =
  | { readonly type: 'message.created' | 'message.updated'; readonly message: Message }
  | { readonly type: 'message.removed'; readonly messageSeq: number; readonly reason: string }
  /**
   * One operation on the history that touched more than one message. It is one event, so that no reader sees half of
   * the operation.
   */
  | {
      readonly type: 'history.changed';
      readonly operation: string;
      readonly removed: readonly number[];
      readonly created: readonly Message[];
      readonly updated: readonly Message[];
    }
  /**
   * A summary replaced messages: `archived` are their seqs, `created` the messages in their place, the summary first.
   */
  | {
      readonly type: 'compaction.applied';
      readonly number: number;
      readonly level: number;
      readonly archived: readonly number[];
      readonly created: readonly Message[];
      /** Number of the archive that holds the replaced messages. */
      readonly chunk?: number;
    }
  | { readonly type: 'compaction.failed'; readonly reason: string }
  | { readonly type: 'pending.created'; readonly pending: Pending }
  | {
      readonly type: 'pending.removed';
      readonly pendingId: number;
      readonly reason: (typeof REMOVAL_REASONS)[number];
    }
  /** An entry could not be promoted and was set aside. `letter`: its number, the id that it had in the mailbox. */
  | { readonly type: 'dead_letter.created'; readonly letter: number; readonly error: ErrorShape }
  /**
   * A dead letter left the list. `resent`: it was sent again, as the entry `pendingId`. `dropped`: on request.
   * `evicted`: newer letters took its place, since a session keeps a bounded number of them.
   */
  | {
      readonly type: 'dead_letter.removed';
      readonly letter: number;
      readonly reason: 'resent' | 'dropped' | 'evicted';
      readonly pendingId?: number;
    }
  | { readonly type: 'session.state'; readonly state: SessionStateName; readonly phase?: Phase }
  | { readonly type: 'text.delta' | 'thinking.delta'; readonly text: string; readonly turn: string }
  | { readonly type: 'tool.started'; readonly toolUseId: string; readonly toolName: string }
  | {
      readonly type: 'tool.finished';
      readonly toolUseId: string;
      readonly toolName: string;
      readonly success: boolean;
      readonly ms?: number;
    }
  | { readonly type: 'tool.progress'; readonly toolUseId: string; readonly data: unknown }
  /**
   * Ephemeral: attempt `attempt` (from 1) of a call has failed, and its tool's `retry` runs it again after `waitMs`.
   * `reason`: the tool threw (`failure`), ran out of time (`timeout`), or its thread died or lost the result (`lost`).
   */
  | {
      readonly type: 'tool.retry';
      readonly toolUseId: string;
      readonly toolName: string;
      readonly attempt: number;
      readonly waitMs: number;
      readonly reason: 'failure' | 'timeout' | 'lost';
    }
  /**
   * `reason`: the model's own stop reason, or why the turn was ended. `outcome`: missing if the turn simply completed;
   * otherwise `interrupted`, `max_steps`, `length`, `content_filter`, `context_window` or `other`.
   */
  | {
      readonly type: 'turn.finished';
      readonly turn: string;
      readonly reason: string;
      readonly usage: Usage;
      readonly outcome?: string;
      /** Why the model refused, as the API describes it (`stop_details`). */
      readonly stopDetails?: Json;
      /** Calls of the interrupted run that were answered with a placeholder (`repair.onInterrupt: 'fill'`). */
      readonly healedToolCallIds?: readonly string[];
      /** The structured answer, as JSON; missing: the turn had none. */
      readonly output?: Json;
      /** The agent with which the turn began; missing: it has no version. */
      readonly agent?: TurnAgent;
    }
  | {
      readonly type: 'approval.required';
      readonly toolUseId: string;
      readonly toolName: string;
      readonly input: unknown;
    }
  /**
   * A call that waited was decided, or a question was answered (`allow`) or declined. Only if the decision names its
   * author (`by`); `tool.started` or the result of the call follows in any case.
   */
  | {
      readonly type: 'approval.decided';
      readonly toolUseId: string;
      readonly toolName: string;
      readonly allow: boolean;
      readonly by: string;
    }
  /**
   * A tool call asks a question and waits for its answer. `asked`: who answers, a person (with `session.answer`) or the
   * session's parent. `schema`: the JSON Schema that the answer must fit; without it, the answer is text. `choices`:
   * answers that the model proposes. `server`: the MCP server that asks during the call. Further questions of the same
   * call have `#2`, `#3` … after the id of the call.
   */
  | {
      readonly type: 'question.asked';
      readonly toolUseId: string;
      readonly toolName: string;
      readonly asked: 'human' | 'parent';
      readonly question: string;
      readonly choices?: readonly string[];
      readonly schema?: Readonly<Record<string, Json>>;
      readonly server?: string;
    }
  /**
   * The messages of a failed turn were removed before the next one. `index`: the position that the first removed
   * message had, from 0.
   */
  | { readonly type: 'session.rollback'; readonly reason: string; readonly index: number }
  | { readonly type: 'turn.failed'; readonly turn: string; readonly error: ErrorShape; readonly agent?: TurnAgent }
  /**
   * The session moved to another version of its agent, between two turns. `from` or `version` missing: that definition
   * has no version.
   */
  | { readonly type: 'agent.upgraded'; readonly agent: string; readonly from?: string; readonly version?: string }
  | { readonly type: 'bounce_back'; readonly content: string; readonly error: ErrorShape; readonly messageSeq?: number }
  | { readonly type: 'authentication_required'; readonly error: ErrorShape }
  /**
   * Attempt `attempt` (from 1) of a model call failed, and the next one is made after `waitMs`. `code`: the error code of
   * the failure, or `refusal`. `detail`: its message.
   */
  | {
      readonly type: 'llm.retry';
      readonly attempt: number;
      readonly waitMs: number;
      readonly code?: string;
      readonly detail?: string;
      readonly status?: number;
      /**
       * The rule of the API that the refused request broke. The request is sent again at once, without the thoughts
       * that broke the rule.
       */
      readonly repaired?: string;
    }
  /**
   * Another model of the agent makes the calls from now on. `reason`: the code of the previous model's failure, or
   * `refusal`. It is `return` when the session returns to the first model, and `agent` if the agent's list of models
   * has changed.
   */
  | { readonly type: 'model.changed'; readonly model: string; readonly reason: string }
  /**
   * Ephemeral: how the answered request of a session with message threads was sent. `bytes`: UTF-8 bytes of its body.
   * `code`: the API's reason for `replayed` and `refused`.
   */
  | {
      readonly type: 'llm.thread';
      readonly turn: string;
      readonly thread: 'created' | 'continued' | 'replayed' | 'refused';
      readonly code?: string;
      readonly bytes?: number;
    }
  /**
   * A model call ended after its answer had begun, and without an answer. `attempt`: from 1. `text` and `thinking`: what
   * it streamed; a part, and no message. `truncated`: it streamed more. `usage`: the tokens that the provider reported.
   */
  | {
      readonly type: 'llm.lost';
      readonly turn: string;
      readonly attempt: number;
      readonly reason: LossReason;
      readonly text: string;
      readonly thinking?: string;
      readonly truncated?: true;
      readonly usage?: Usage;
    }
  /** `reason`: the reason that was given to `interrupt`. */
  | { readonly type: 'interrupt.acknowledged'; readonly reason?: string }
  | { readonly type: 'child.spawned'; readonly child: string; readonly name?: string }
  | { readonly type: 'child.state'; readonly child: string; readonly name?: string; readonly state: string }
  | { readonly type: 'child.exited'; readonly child: string; readonly name?: string; readonly reason: string }
  | {
      readonly type: 'children.updated';
      readonly children: readonly { readonly id: string; readonly name: string; readonly state: string }[];
    }
  | { readonly type: 'subagent.evicted'; readonly child: string }
  | { readonly type: 'goals.updated'; readonly goals: readonly Goal[] }
  | { readonly type: 'skills.updated'; readonly skills: readonly string[] }
  | { readonly type: 'workflow.updated'; readonly workflow: string | null }
  | { readonly type: 'eviction'; readonly below: number }
  | { readonly type: 'session.name'; readonly name: string }
  | {
      readonly type: 'session.recovered';
      readonly redone: readonly string[];
      readonly synthesized: readonly string[];
    }
  | { readonly type: 'gap'; readonly from: number; readonly to: number };

/**
 * A note from shard to host: the text that the running model call of a session has streamed before its next delta. The
 * note is published with the first delta of a call, and again when a reader of the session begins. Readers that lack
 * the text get it as deltas. No reader gets the note itself.
 */
export interface StreamNoteBody {
  readonly type: 'streamed';
  /** The number of the last durable event before the note. */
  readonly after: number;
  readonly turn: string;
  /** The streamed pieces in order. Empty if nothing was streamed, or if there was more than is kept. */
  readonly pieces: readonly { readonly type: 'text' | 'thinking'; readonly text: string }[];
}

/** A `StreamNoteBody` as it is published. */
export type StreamNote = { readonly session: string; readonly at: number } & StreamNoteBody;

/** An event or a note, as a shard publishes them to its host. */
export type PublishedEvent = SessionEvent | StreamNote;

/**
 * One event of a session. `at`: epoch ms. `seq`: durable events only, from 1, one total order per session. `rendered`:
 * a message or an entry as the reader's view mode shows it.
 */
export type SessionEvent = {
  readonly session: string;
  readonly at: number;
  readonly seq?: number;
  readonly rendered?: Rendered;
} & EventBody;
