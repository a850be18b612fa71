/**
 * The interface of an endpoint: one side of a connection between two threads. It carries requests, answers and notes,
 * batched by tick. `batched-endpoint.ts` implements it.
 */

/** One side of a connection to another thread, or to another part of the same thread. */
export interface Endpoint {
  /**
   * Sends a request and resolves with its answer. Rejects with the far side's error, whose class, code and cause are
   * kept.
   */
  call(method: string, payload: unknown): Promise<unknown>;
  /** Sends a note, which gets no answer. */
  notify(method: string, payload: unknown): void;
  /**
   * Sends a note, but calls `payload` only when the batch of this note leaves. So the note carries everything collected
   * until then. It arrives before everything that was sent after this call. `payload` must not throw. It is not called
   * if the note can no longer be sent.
   */
  notifyLate(method: string, payload: () => unknown): void;
  /** Sends everything that waits as soon as the running callback has ended, instead of at the end of the tick. */
  hasten(): void;
  /** Answers requests and receives notes of this method. A method has one handler. */
  handle(method: string, handler: (payload: unknown) => unknown): void;
  /** Calls `listener` once when the far side is gone. */
  onClose(listener: () => void): void;
  /** Rejects open calls with `CancelledError` and closes the port. */
  close(): void;
}

/** An endpoint that passes everything on to `endpoint`, except the methods in `own`. */
export function endpointWith(endpoint: Endpoint, own: Partial<Pick<Endpoint, 'call' | 'handle'>>): Endpoint {
  return {
    call: (method, payload) => endpoint.call(method, payload),
    notify: (method, payload) => endpoint.notify(method, payload),
    notifyLate: (method, payload) => endpoint.notifyLate(method, payload),
    hasten: () => endpoint.hasten(),
    handle: (method, handler) => endpoint.handle(method, handler),
    onClose: (listener) => endpoint.onClose(listener),
    close: () => endpoint.close(),
    ...own,
  };
}
