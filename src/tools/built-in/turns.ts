/** A number of slots, granted in order of request. */

interface Waiter {
  readonly resolve: (isTaken: boolean) => void;
  readonly stop: () => void;
  readonly signal: AbortSignal;
}

/**
 * Owns the waiting callers. Each waiting caller is an open tool call, so the bound on open calls also bounds the
 * waiting callers.
 * W1 First come, first served. A caller that gave up waiting never gets a slot.
 */
export class Turns {
  #free: number;
  readonly #waiting = new Set<Waiter>();

  constructor(places: number) {
    this.#free = places;
  }

  /**
   * Resolves to true when the caller has a slot, which it must give back with `release`. Resolves to false, without a
   * slot, if the signal fires first.
   */
  take(signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return Promise.resolve(false);
    if (this.#free > 0) {
      this.#free -= 1;
      return Promise.resolve(true);
    }
    return new Promise((resolve) => {
      const stop = (): void => {
        this.#waiting.delete(waiter);
        resolve(false);
      };
      const waiter: Waiter = { resolve, stop, signal };
      this.#waiting.add(waiter);
      signal.addEventListener('abort', stop, { once: true });
    });
  }

  /** Gives a slot back. The caller that has waited longest gets it. */
  release(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#free += 1;
      return;
    }
    this.#waiting.delete(next);
    next.signal.removeEventListener('abort', next.stop);
    next.resolve(true);
  }
}
