/** One small typed endpoint: requests, answers and notes over a port, batched a turn of the loop. Types; see `batched-endpoint.ts`. */

/** The far side of a thread boundary, or of none (in place). */
export interface Endpoint {
  /** Sends a request and resolves with its answer; rejects with the far side's error, class, code and cause kept. */
  call(method: string, payload: unknown): Promise<unknown>;
  /** Sends without an answer. */
  notify(method: string, payload: unknown): void;
  /**
   * Sends a note whose payload is asked for when its batch goes: what is gathered for it until then goes with it, and with that before
   * what was sent since. `payload` must not throw; it is not called where the note cannot be sent any more.
   */
  notifyLate(method: string, payload: () => unknown): void;
  /** Answers requests and takes notes of this method. One handler a method. */
  handle(method: string, handler: (payload: unknown) => unknown): void;
  /** Runs once when the far side is gone. */
  onClose(listener: () => void): void;
  /** Rejects what is open with `CancelledError` and lets the port go. */
  close(): void;
}
