/** Abort signals: controllers that are made on first use, and promises that a signal ends. */
import { CancelledError } from './errors.ts';

/**
 * An abort controller that is created when its signal is first read. Most model calls and tools never read the signal,
 * and creating a controller costs more than the rest of a call on the same thread.
 */
export class LazyAbort {
  #controller: AbortController | undefined;
  #cause: { readonly reason: unknown } | undefined;
  #listener: ((reason: unknown) => void) | undefined;

  /** True once `abort` was called. */
  get isAborted(): boolean {
    return this.#cause !== undefined;
  }

  /** The reason passed to `abort`. */
  get reason(): unknown {
    return this.#cause?.reason;
  }

  /** The signal. It is already aborted if `abort` was called before. */
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

  /**
   * Calls `listener` once, at the abort, or at once if the abort has happened. There is only one listener; other code
   * uses the signal.
   */
  listen(listener: (reason: unknown) => void): void {
    this.#listener = listener;
    if (this.#cause !== undefined) listener(this.#cause.reason);
  }
}

const ABORT: unique symbol = Symbol('abort');
/** One getter for all holders: an object literal with its own getter costs more to make than the rest of a call. */
const SIGNAL: PropertyDescriptor & ThisType<{ readonly [ABORT]: LazyAbort }> = {
  enumerable: true,
  configurable: true,
  get() {
    return this[ABORT].signal;
  },
};

/**
 * Returns `context` itself, with a `signal` that is made when it is first read. The property is own and enumerable, so
 * that it survives a spread of the context.
 */
export function withSignal<T extends object>(context: T, abort: LazyAbort): T & { readonly signal: AbortSignal } {
  const holder = context as T & { [ABORT]: LazyAbort; readonly signal: AbortSignal };
  // The abort is a member, not in a closure. So a proxy of the context, or an object that inherits from it, has it too.
  holder[ABORT] = abort;
  return Object.defineProperty(holder, 'signal', SIGNAL);
}

/** The promise's outcome, or a `CancelledError` as soon as the signal fires. */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise<T>((resolve, reject) => {
    const onAbort = (): void => reject(new CancelledError('aborted by the signal', { cause: signal.reason }));
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
