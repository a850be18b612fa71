/** A number of places, taken in the order of asking. */

interface Waiter {
  readonly resolve: (isTaken: boolean) => void;
  readonly stop: () => void;
  readonly signal: AbortSignal;
}

/**
 * Owns who waits. How many may wait is bounded by who asks: one for each open tool call.
 *  W1 first come, first served; who gave up waiting never has a place.
 */
export class Turns {
  #free: number;
  readonly #waiting = new Set<Waiter>();

  constructor(places: number) {
    this.#free = places;
  }

  /** True with a place, to be given back with `release`; false, without one, when the signal fired first. */
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

  /** Gives a place back: the one who waits longest has it. */
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
