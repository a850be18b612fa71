/** Holds waiting calls back while none may begin, and looks again soon. */
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

  /** True if no call may begin now. `again` is then called soon, once. */
  holds(again: () => void): boolean {
    if (this.#mayBegin()) return false;
    this.#look ??= this.#clock.setTimer(() => {
      this.#look = undefined;
      again();
    }, LEASE_LOOK_MS);
    return true;
  }
}
