/**
 * State of a run (the half-steps of a turn) that is held at a message boundary, suspended, waiting for a person, or
 * failed. Plain data.
 */
import type { ErrorShape } from '../../base/errors.ts';
import type { Json } from '../../base/json.ts';
import type { AnswerForm } from './answer-form.ts';
import type { Elicitation } from './elicitation.ts';
import type { Continuation, DispatchedCall } from './messages.ts';

/**
 * Why a run was suspended at a boundary: a listener asked for it, or the agent's step limit was reached.
 */
export type SuspensionReason = 'interrupted' | 'max_steps';

/**
 * A message boundary at which the session waits.
 * - `answer`: an answer is stored and none of its calls has started.
 * - `results`: a round's results are stored and the model has not been called with them.
 * - `resume`: the calls of a suspended run are about to start.
 */
export interface Held {
  readonly at: 'answer' | 'results' | 'resume';
  /** The half-step that the model answered. This number and `at` identify the boundary. */
  readonly halfStep: number;
  /** Seq of the first message of the boundary. */
  readonly firstSeq: number;
  readonly next: Continuation;
  readonly stop: string;
  readonly stopDetails?: Json;
  readonly calls: readonly HeldCall[];
}

/** A call of a held answer. */
export interface HeldCall extends DispatchedCall {
  /** True if the call changed after it was held, so that an earlier approval does not count. */
  readonly isChanged?: true;
}

/** A run that stopped at a boundary. Its calls without a result are in `openCalls`, and none of them has started. */
export interface Suspension {
  readonly reason: SuspensionReason;
  /** The reason the listener gave, verbatim. */
  readonly detail?: string | null;
  /** Calls that will not run when the run continues, by id. Each value is the reason, for the call's failed result. */
  readonly refused?: Readonly<Record<string, string>>;
}

/** Calls that wait for a person or a parent, and recent decisions. */
export interface Approvals {
  /**
   * Call ids in call order; calls that ask a question come last. Each of these calls is open and does not run. Most of
   * them have not started. A call whose MCP server asked a question has run up to the question, and continues with the
   * answer.
   */
  readonly waiting: readonly string[];
  /**
   * Epoch ms at which the calls that need an approval began to wait. Missing in states stored before this member
   * existed.
   */
  readonly since?: number;
  /** The calls among `waiting` that are questions; missing: there are none. Every other call needs an approval. */
  readonly questions?: readonly AskedQuestion[];
  /** The last decisions, oldest first: they let a repeated decision be recognised. */
  readonly decided: readonly DecidedCall[];
}

/** The recipient of a question: a person (`human`), or the model or program that spawned the session (`parent`). */
export type Asked = 'human' | 'parent';

/**
 * A question that the model asks with a call, or that an MCP server asks during a call. The call waits. A model's call
 * gets the answer as its result. A server's call (`elicitation`) continues with the answer.
 */
export interface AskedQuestion {
  readonly callId: string;
  readonly question: string;
  readonly asked: Asked;
  /** Answers that the model proposes. Another answer may be given. */
  readonly choices?: readonly string[];
  /** The form of the answer; missing: it is text. */
  readonly form?: AnswerForm;
  /** The id by which the question is answered; missing: the call's id. */
  readonly id?: string;
  /** For a question of an MCP server: the data that the server needs to continue the call. */
  readonly elicitation?: Elicitation;
  /** Epoch ms at which the question was asked. */
  readonly at: number;
  /** The number of the parent's answers that did not have the form; missing: 0. */
  readonly misfits?: number;
}

/** A decision about a call. */
export interface DecidedCall {
  /** The id of the call, or of its question. */
  readonly id: string;
  /** True if the call was allowed, or if its question was answered. */
  readonly allow: boolean;
  /** True for a question. */
  readonly isQuestion?: true;
  /** The fingerprint of the answer, if a person or a program gave it. */
  readonly answer?: string;
}

/** The failure of the last turn, for a rollback when the next turn starts (`settings.recovery.rollbackFailed`). */
export interface TurnFailure {
  readonly error: ErrorShape;
  /** Epoch ms of the failure. */
  readonly at: number;
}
