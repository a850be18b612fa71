/**
 * The amounts (requests or tokens) of the last minute.
 * Owns: the amounts of the last `RATE_WINDOW_MS`. Does not own: which calls may wait, and how an amount is measured.
 *
 * - W1 No one-minute window ever holds more than `limit`, wherever it starts, provided that the noted amounts are
 *   right. The burst is the allowance of a whole minute: after an idle minute the whole `limit` may leave at once. Then
 *   nothing leaves until the entries of this burst are a minute old.
 * - W2 An amount above `limit` fits an empty window, so that no call waits forever.
 * - W3 At most one entry per millisecond is kept, so the number of entries has a bound at any rate.
 *
 * The window is a log of starts and not a token bucket. A bucket of a minute's size lets twice the rate through in its
 * first minute. A smaller bucket wastes the burst that an idle key may use.
 */
import { RATE_WINDOW_MS } from '../../base/bounds.ts';

/** The lists keep up to this number of expired entries, because shortening the lists costs a copy. */
const EXPIRED_MAX = 1_024;

/** See the head of the file. Times are monotonic ms and never decrease. */
export class RateWindow {
  readonly limit: number;
  /** The times of the entries, ascending, in whole milliseconds. Entries before `#head` have expired. */
  readonly #times: number[] = [];
  readonly #amounts: number[] = [];
  #head = 0;
  #sum = 0;

  /** `limit`: at least 1. */
  constructor(limit: number) {
    this.limit = limit;
  }

  /**
   * The time at which `amount` may leave: `now`, later, or `Infinity` if the amount fits only after `reserved` has
   * become smaller. `reserved`: the amount that calls in flight will use and that is not noted yet.
   */
  opensAt(now: number, amount: number, reserved: number = 0): number {
    this.#expire(now);
    let excess = this.#sum + reserved + Math.min(amount, this.limit) - this.limit;
    if (excess <= 0) return now;
    for (let place = this.#head; place < this.#times.length; place += 1) {
      excess -= this.#amounts[place] ?? 0;
      if (excess <= 0) return (this.#times[place] ?? 0) + RATE_WINDOW_MS;
    }
    return Number.POSITIVE_INFINITY;
  }

  /** Notes an amount that leaves now; returns the entry's time, for `adjust`. */
  add(now: number, amount: number): number {
    // The time is rounded up: an entry may count a fraction of a millisecond too long, never too short (W1).
    const at = Math.ceil(now);
    this.#sum += amount;
    const last = this.#times.length - 1;
    if (last >= this.#head && this.#times[last] === at) {
      this.#amounts[last] = (this.#amounts[last] ?? 0) + amount;
    } else {
      this.#times.push(at);
      this.#amounts.push(amount);
    }
    return at;
  }

  /** Corrects the amount noted at `at` by `difference`; an expired entry does not change. */
  adjust(at: number, difference: number): void {
    let low = this.#head;
    let high = this.#times.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#times[middle] ?? 0) < at) low = middle + 1;
      else high = middle;
    }
    if (this.#times[low] !== at) return;
    this.#amounts[low] = (this.#amounts[low] ?? 0) + difference;
    this.#sum += difference;
  }

  #expire(now: number): void {
    while (this.#head < this.#times.length && (this.#times[this.#head] ?? 0) + RATE_WINDOW_MS <= now) {
      this.#sum -= this.#amounts[this.#head] ?? 0;
      this.#head += 1;
    }
    if (this.#head <= EXPIRED_MAX || this.#head * 2 <= this.#times.length) return;
    this.#times.splice(0, this.#head);
    this.#amounts.splice(0, this.#head);
    this.#head = 0;
  }
}
