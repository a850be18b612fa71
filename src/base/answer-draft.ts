/** Streamed text of a model call that has no answer yet, or never gets one. Plain data. */

/**
 * The reasons for which a model call ends without an answer. `restart`: its process or its session thread ended.
 * `cancelled`: the call was given up after an interrupt or a change of the session. `failed`: the model's stream broke
 * off, or its answer was refused.
 */
export const LOSS_REASONS = ['restart', 'cancelled', 'failed'] as const;
/** One of `LOSS_REASONS`. */
export type LossReason = (typeof LOSS_REASONS)[number];

/**
 * The text that a model call has streamed, as long as the call has no answer. It is for people. It is not a message,
 * and no model receives it.
 */
export interface AnswerDraft {
  /** The turn of the call. */
  readonly turn: string;
  readonly text: string;
  /** The streamed thoughts; missing if there are none. */
  readonly thinking?: string;
  /** True if the model streamed more than is kept. The beginning is kept. */
  readonly truncated?: true;
  /** Why the call has no answer; missing while the call runs. */
  readonly lost?: LossReason;
}
