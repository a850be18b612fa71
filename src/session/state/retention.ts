/** The part of a session's history that was removed because of its age. Plain data. */

/** The removed part of a session, as `state()` shows it. */
export interface RemovedHistory {
  /** Epoch ms: the messages that left the model's window before it are gone. */
  readonly before: number;
  /** The number of the first event that is left. */
  readonly firstEvent: number;
  /** Archives with this number or a lower one are gone; 0: none is. */
  readonly archives: number;
}
