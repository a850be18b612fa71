/**
 * A small typed endpoint: requests, answers and notes over a port, batched by tick. Types; see `batched-endpoint.ts`.
 */

/** The far side of a thread boundary, or of the same thread (in place). */
export interface Endpoint {
  /**
   * Sends a request and resolves with its answer; rejects with the far side's error, which keeps its class, code and
   * cause.
   */
  call(method: string, payload: unknown): Promise<unknown>;
  /** Sends a note, which gets no answer. */
  notify(method: string, payload: unknown): void;
  /**
   * Sends a note whose payload is read when its batch leaves. It carries everything collected for it until then, and
   * precedes everything sent after it. `payload` must not throw; it is not called once the note can no longer be sent.
   */
  notifyLate(method: string, payload: () => unknown): void;
  /**
   * Sends everything that waits once the running callback has ended, and not at the end of the tick: a tick that reads
   * a thousand sockets takes ten milliseconds.
   */
  hasten(): void;
  /** Answers requests and receives notes of this method. One handler for each method. */
  handle(method: string, handler: (payload: unknown) => unknown): void;
  /** Runs once when the far side is gone. */
  onClose(listener: () => void): void;
  /** Rejects open calls with `CancelledError` and closes the port. */
  close(): void;
}
