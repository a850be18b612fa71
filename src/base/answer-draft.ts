/** Streamed text of a model call that has no answer. Plain data. */

/**
 * Why a model call has no answer. `restart`: its process or its session thread ended. `cancelled`: an interrupt or a
 * change of the session gave the call up. `failed`: the model's stream broke off, or its answer was refused.
 */
export const LOSS_REASONS = ['restart', 'cancelled', 'failed'] as const;
/** One of `LOSS_REASONS`. */
export type LossReason = (typeof LOSS_REASONS)[number];

/**
 * The text that a model call has streamed, while it has no answer. It is for people: it is no message, and no model
 * receives it.
 */
export interface AnswerDraft {
  /** The turn of the call. */
  readonly turn: string;
  readonly text: string;
  /** The streamed thoughts; missing if there are none. */
  readonly thinking?: string;
  /** True if the model streamed more than is kept. The beginning is kept. */
  readonly truncated?: true;
  /** Why the call has no answer; missing while it runs. */
  readonly lost?: LossReason;
}
