/**
 * Holds back waiting calls while no call may begin: in a cluster, while the node has no valid lease. Looks at the lease
 * again after `LEASE_LOOK_MS`.
 */
import { LEASE_LOOK_MS } from '../base/bounds.ts';
import type { Clock } from '../base/clock.ts';

/** See the head of the file. */
export class BeginGate {
  readonly #clock: Clock;
  readonly #mayBegin: () => boolean;
  #look: unknown;

  constructor(clock: Clock, mayBegin: () => boolean) {
    this.#clock = clock;
    this.#mayBegin = mayBegin;
  }

  /**
   * True if no call may begin now. If so, calls `again` after `LEASE_LOOK_MS`, unless an earlier `again` is still to be
   * called.
   */
  holds(again: () => void): boolean {
    if (this.#mayBegin()) return false;
    this.#look ??= this.#clock.setTimer(() => {
      this.#look = undefined;
      again();
    }, LEASE_LOOK_MS);
    return true;
  }
}
