/**
 * `SessionEvent`: the closed union of a session's events. An event with `seq` is durable: it is derived from the log
 * and can be replayed. The durable events of a session are numbered in one total order, without gaps. An event without
 * `seq` is ephemeral: a reader gets it live or not at all.
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
 * `blocked`: the session cannot run until a person or the embedder acts. `waiting`: all its open calls wait for a
 * person, or for its parent's answer. `running`: it is in a turn, prepares a turn, sums up old messages, or waits for
 * its restart. `suspended`: its turn stopped at a boundary. `paused`: `pause()` stopped it. `queued`: it is a child
 * that starts when another child of its parent has ended (`subagents.maxActive`). `failed`: no turn runs, and the last
 * turn failed. `idle`: none of these.
 */
export type SessionStatus = (typeof SESSION_STATUSES)[number];

/** How a turn ended. Receipts use the same names. */
export const TURN_OUTCOMES = ['answered', 'failed', 'interrupted', 'suspended'] as const;

/**
 * How a session's last turn ended. `interrupted`: on request. `suspended`: the turn stopped at a boundary and can
 * continue.
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
   * A summary replaced messages. `archived`: the seqs of the replaced messages. `created`: the messages in their place,
   * the summary first.
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
  /**
   * An entry could not be promoted and was set aside as a dead letter. `letter`: the id of the letter; the entry had
   * the same id in the mailbox.
   */
  | { readonly type: 'dead_letter.created'; readonly letter: number; readonly error: ErrorShape }
  /**
   * A dead letter left the list. `resent`: it was sent again, as the entry `pendingId`. `dropped`: on request.
   * `evicted`: a newer letter displaced it, because a session keeps a bounded number of letters.
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
   * `reason`: the model's own stop reason, or the reason why the runtime ended the turn. `outcome`: missing if the turn
   * completed; otherwise `interrupted`, `max_steps`, `length`, `content_filter`, `context_window` or `other`.
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
      /** The structured answer, as JSON; missing: the turn has no structured answer. */
      readonly output?: Json;
      /** The agent of the turn; missing: the agent has no version. */
      readonly agent?: TurnAgent;
    }
  | {
      readonly type: 'approval.required';
      readonly toolUseId: string;
      readonly toolName: string;
      readonly input: unknown;
    }
  /**
   * A waiting call was decided, or a question was answered (`allow` is true) or declined. This event is published only
   * if the decision names its author (`by`). In any case, `tool.started` or the result of the call follows.
   */
  | {
      readonly type: 'approval.decided';
      readonly toolUseId: string;
      readonly toolName: string;
      readonly allow: boolean;
      readonly by: string;
    }
  /**
   * A tool call asks a question and waits for the answer. `asked`: a person answers (with `session.answer`), or the
   * session's parent. `schema`: the JSON Schema that the answer must fit; without a schema, the answer is a text.
   * `choices`: answers that the model proposes. `server`: the MCP server that asks during the call. Further questions
   * of the same call have `#2`, `#3` … after the id of the call.
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
   * The messages of a failed turn were removed before the next turn. `index`: the position of the first removed
   * message, counted from 0.
   */
  | { readonly type: 'session.rollback'; readonly reason: string; readonly index: number }
  | { readonly type: 'turn.failed'; readonly turn: string; readonly error: ErrorShape; readonly agent?: TurnAgent }
  /**
   * The session moved to another version of its agent, between two turns. If `from` is missing, the earlier definition
   * has no version; if `version` is missing, the new definition has no version.
   */
  | { readonly type: 'agent.upgraded'; readonly agent: string; readonly from?: string; readonly version?: string }
  | { readonly type: 'bounce_back'; readonly content: string; readonly error: ErrorShape; readonly messageSeq?: number }
  | { readonly type: 'authentication_required'; readonly error: ErrorShape }
  /**
   * Attempt `attempt` (from 1) of a model call failed, and the next attempt begins after `waitMs`. `code`: the error
   * code of the failure, or `refusal`. `detail`: the message of the failure.
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
   * `refusal`. `reason` is `return` when the session returns to the first model, and `agent` if the agent's list of
   * models has changed.
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
   * A model call ended without an answer, after its answer had begun. `attempt`: from 1. `text` and `thinking`: the
   * streamed part of the answer, which is not a message. `truncated`: the call streamed more text than the event has.
   * `usage`: the tokens that the provider reported.
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
 * A note from a shard to its host: the text that the running model call of a session has streamed so far. The note is
 * published with the first delta of a call, and again when a reader of the session begins. Readers that lack the text
 * get it as deltas. No reader gets the note itself.
 */
export interface StreamNoteBody {
  readonly type: 'streamed';
  /** The seq of the last durable event before the note. */
  readonly after: number;
  readonly turn: string;
  /** The streamed pieces in order. Empty if nothing was streamed, or if the text is longer than the shard keeps. */
  readonly pieces: readonly { readonly type: 'text' | 'thinking'; readonly text: string }[];
}

/** A `StreamNoteBody` as it is published. */
export type StreamNote = { readonly session: string; readonly at: number } & StreamNoteBody;

/** An event or a note, as a shard publishes them to its host. */
export type PublishedEvent = SessionEvent | StreamNote;

/**
 * One event of a session. `at`: epoch ms. `seq`: the number of a durable event in the total order of its session, from
 * 1. `rendered`: the message or the entry of the event, as the reader's view mode shows it.
 */
export type SessionEvent = {
  readonly session: string;
  readonly at: number;
  readonly seq?: number;
  readonly rendered?: Rendered;
} & EventBody;
