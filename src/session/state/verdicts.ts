/** Questions to functions of the embedder, and their verdicts. Plain data. */
import type { ErrorShape } from '../../base/errors.ts';
import type { AssistantMessage, HistoryMessage } from '../../base/history-message.ts';
import type { Json } from '../../base/json.ts';
import type { Usage } from '../../base/messages.ts';
import type { Held } from './boundary.ts';
import type { Container } from './container.ts';

/** A model's answer. */
export interface AnsweredInput {
  readonly type: 'answered';
  readonly halfStep: number;
  readonly content: unknown;
  readonly stop: string;
  readonly usage: Usage;
  readonly stopDetails?: Json;
  readonly container?: Container;
  readonly inputTransformations?: Json;
  /**
   * True if the request had transient messages, because the next request then does not begin with the same messages.
   * Also true if a thought follows a changed block.
   */
  readonly unbound?: true;
  /** True if thoughts of the answer were left out, because their texts may not be stored. */
  readonly lacksThoughts?: true;
  /** True if the guardrails have already checked the answer. */
  readonly isGuarded?: true;
}

/** A question to functions of the embedder. `on`: the subject of the verdict. Each question gets one verdict. */
export type Question =
  /** A boundary at which the session is held: for its listeners, or for the predicate that selects calls to approve. */
  | {
      readonly on: 'boundary';
      readonly at: Held['at'];
      readonly halfStep: number;
      readonly notifiesListeners: boolean;
      readonly asksApproval: boolean;
    }
  /** The request of a half-step, for the guardrails before the call. */
  | { readonly on: 'request'; readonly halfStep: number }
  /** The answer of a half-step, for the guardrails after the call. */
  | {
      readonly on: 'answer';
      readonly halfStep: number;
      readonly message: AssistantMessage;
      readonly answer: AnsweredInput;
    };

/** The verdict on a question, with the members of the question that identify it. */
export type Judged =
  | {
      readonly on: 'boundary';
      readonly at: Held['at'];
      readonly halfStep: number;
      readonly verdict: BoundaryVerdict | Unjudged;
    }
  | {
      readonly on: 'request';
      readonly halfStep: number;
      readonly verdict: GuardVerdict<readonly HistoryMessage[]> | Unjudged;
    }
  | {
      readonly on: 'answer';
      readonly halfStep: number;
      readonly answer: AnsweredInput;
      readonly verdict: GuardVerdict<AssistantMessage> | Unjudged;
    };

/** The verdict at a boundary. */
export interface BoundaryVerdict {
  /** A listener suspends the run, for this reason. */
  readonly interrupt?: { readonly reason: string | null };
  /** Ids of the calls that a person must decide. */
  readonly approve: readonly string[];
}

/**
 * The joint verdict of all guardrails before a call, or of all guardrails after it. The first block decides. Without a
 * block, the last transformation decides.
 */
export type GuardVerdict<T> =
  | { readonly type: 'pass' }
  | { readonly type: 'transform'; readonly value: T }
  | { readonly type: 'block'; readonly reason: string };

/** There is no verdict: a function of the embedder threw. */
export interface Unjudged {
  readonly error: ErrorShape;
}
