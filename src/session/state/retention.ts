/** The record of a removal: how much of a session's history was removed because of its age. Plain data. */

/** The removed part of a session, as `state()` shows it. */
export interface RemovedHistory {
  /** Epoch ms. Messages that left the model's window before this time are gone. */
  readonly before: number;
  /** The number of the first event that remains. */
  readonly firstEvent: number;
  /** Archives up to this number are gone; 0: no archive is gone. */
  readonly archives: number;
}
