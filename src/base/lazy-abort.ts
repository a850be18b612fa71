/**
 * An abort controller that is made when somebody looks at its signal: most model calls and tools never do, and a signal costs
 * more than the rest of a call in place.
 */
export class LazyAbort {
  #controller: AbortController | undefined;
  #cause: { readonly reason: unknown } | undefined;
  #listener: ((reason: unknown) => void) | undefined;

  /** True once `abort` was called. */
  get isAborted(): boolean {
    return this.#cause !== undefined;
  }

  /** What `abort` was called with. */
  get reason(): unknown {
    return this.#cause?.reason;
  }

  /** The signal; aborted already when `abort` came first. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#cause !== undefined) this.#controller.abort(this.#cause.reason);
    }
    return this.#controller.signal;
  }

  /** Aborts, once. */
  abort(reason?: unknown): void {
    if (this.#cause !== undefined) return;
    this.#cause = { reason };
    this.#controller?.abort(reason);
    this.#listener?.(reason);
  }

  /** Calls `listener` once at the abort, at once when it was before. One listener; the signal is for all others. */
  listen(listener: (reason: unknown) => void): void {
    this.#listener = listener;
    if (this.#cause !== undefined) listener(this.#cause.reason);
  }
}

const ABORT: unique symbol = Symbol('abort');
/** One getter for all: an object literal with a getter of its own costs more to make than the rest of a call. */
const SIGNAL: PropertyDescriptor & ThisType<{ readonly [ABORT]: LazyAbort }> = {
  enumerable: true,
  configurable: true,
  get() {
    return this[ABORT].signal;
  },
};

/**
 * `context` itself, with a `signal` of its own that is made when it is first read. An own and enumerable one, so that it
 * survives a spread of the context.
 */
export function withSignal<T extends object>(context: T, abort: LazyAbort): T & { readonly signal: AbortSignal } {
  const holder = context as T & { [ABORT]: LazyAbort; readonly signal: AbortSignal };
  // As data, and not in a closure: whatever stands before the context, a proxy or a heir, finds it.
  holder[ABORT] = abort;
  return Object.defineProperty(holder, 'signal', SIGNAL);
}
