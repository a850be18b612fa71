/** What a session keeps of a run that stands at a message boundary, was suspended, waits for a person, or failed. Plain data. */
import type { ErrorShape } from '../../base/errors.ts';
import type { Continuation, DispatchedCall } from './messages.ts';

/** Why a run stopped at a boundary with everything kept: on request of a listener, or at the agent's step limit. */
export type SuspensionReason = 'interrupted' | 'max_steps';

/**
 * A message boundary at which the session waits. `answer`: an answer is stored and nothing of it has started; `results`: a
 * round's results are stored and the model was not called yet; `resume`: the calls of a suspended run are about to start.
 */
export interface Held {
  readonly at: 'answer' | 'results' | 'resume';
  /** The half-step that was answered: with `at` it names the boundary. */
  readonly halfStep: number;
  /** Seq of the first message of the boundary. */
  readonly firstSeq: number;
  readonly next: Continuation;
  readonly stop: string;
  readonly calls: readonly HeldCall[];
}

/** A call of a held answer. */
export interface HeldCall extends DispatchedCall {
  /** It asks for something else than when it was held: whoever was asked about it was asked about another. */
  readonly isChanged?: true;
}

/** A run that stopped at a boundary: its calls without a result wait in `openCalls`, none of them was started. */
export interface Suspension {
  readonly reason: SuspensionReason;
  /** What the listener gave as its reason, verbatim. */
  readonly detail?: string | null;
  /** Calls that are not run but answered with a failure when it goes on, by id. */
  readonly refused?: Readonly<Record<string, string>>;
}

/** Calls that wait for a person, and what persons said lately. */
export interface Approvals {
  /** Call ids, in call order. Each is open and was not started. */
  readonly waiting: readonly string[];
  /** Epoch ms since when they wait; missing in states stored before it was kept. */
  readonly since?: number;
  /** The last decisions, oldest first, so that one told twice is known. */
  readonly decided: readonly { readonly id: string; readonly allow: boolean }[];
}

/** The last turn failed: what a deferred rollback goes by. */
export interface TurnFailure {
  readonly error: ErrorShape;
  /** Epoch ms. */
  readonly at: number;
}
