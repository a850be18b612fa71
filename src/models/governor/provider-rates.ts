/**
 * The rates of one model as the provider's headers report them, followed between the answers. Pure; times are monotonic
 * ms given by the caller.
 *
 * Owns: for each rate a copy of the provider's bucket. Does not own: which calls wait.
 *
 * - H1 The copy refills and is drawn on as the provider's bucket is. Each answer corrects it by what the provider
 *   counted when it took that call, compared with the copy just after that call left. So an answer that took minutes
 *   corrects as well as one that took a second.
 * - H2 A share of each limit is never used (`RATE_RESERVE`): the provider takes a call some time after it left. Calls of
 *   other governors on the same key are known only from the corrections, so a few calls may then be refused.
 * - H3 A rate whose limit is unknown or 0 holds nothing back.
 */
import { RATE_RESERVE, RATE_WINDOW_MS } from '../../base/bounds.ts';
import type { RateLimit, RateLimits } from '../provider.ts';

/** The levels of the copies after a call left, to be compared with the provider's own count. */
export interface RateDraw {
  readonly requests: number | undefined;
  readonly input: number | undefined;
}

/** See the head of the file. */
export class ProviderRates {
  readonly #requests = new Bucket();
  readonly #input = new Bucket();

  /** When a call with this input may leave: `now`, or a later time at which to ask again. Never `Infinity`. */
  opensAt(now: number, inputTokens: number): number {
    return Math.max(this.#requests.opensAt(now, 1), this.#input.opensAt(now, inputTokens));
  }

  /** Notes a call that leaves. */
  take(now: number, inputTokens: number): RateDraw {
    return { requests: this.#requests.take(now, 1), input: this.#input.take(now, inputTokens) };
  }

  /** Notes what the provider counted when it took a call; `draw`: what `take` returned for that call. */
  correct(now: number, limits: RateLimits, draw: RateDraw | undefined): void {
    this.#requests.correct(now, limits.requests, draw?.requests);
    this.#input.correct(now, limits.inputTokens, draw?.input);
  }
}

class Bucket {
  /** The limit as last reported; 0 while it is unknown. */
  #limit = 0;
  #left = 0;
  #at = 0;
  /**
   * The sum of all corrections. A level noted before a correction is compared as if that correction had been applied.
   */
  #corrected = 0;

  opensAt(now: number, amount: number): number {
    if (this.#limit === 0) return now;
    this.#refill(now);
    const reserve = this.#limit * RATE_RESERVE;
    // An amount above the limit needs a full bucket only, or it would wait forever.
    const missing = Math.min(amount + reserve, this.#limit) - this.#left;
    return missing <= 0 ? now : now + Math.ceil((missing * RATE_WINDOW_MS) / this.#limit);
  }

  /**
   * Takes an amount. Returns the level after that, less the corrections so far; undefined while the limit is unknown.
   */
  take(now: number, amount: number): number | undefined {
    if (this.#limit === 0) return undefined;
    this.#refill(now);
    this.#left -= amount;
    return this.#left - this.#corrected;
  }

  correct(now: number, counted: RateLimit | undefined, level: number | undefined): void {
    if (counted === undefined || counted.limit === 0) return;
    this.#refill(now);
    if (this.#limit === 0 || level === undefined) {
      // The first count, or a call from before it: there is nothing to compare it with, so it can only lower the copy.
      this.#left = this.#limit === 0 ? counted.remaining : Math.min(this.#left, counted.remaining);
      this.#limit = counted.limit;
      return;
    }
    this.#limit = counted.limit;
    const difference = counted.remaining - (level + this.#corrected);
    this.#left = Math.min(this.#left + difference, this.#limit);
    this.#corrected += difference;
  }

  #refill(now: number): void {
    if (now > this.#at)
      this.#left = Math.min(this.#limit, this.#left + ((now - this.#at) * this.#limit) / RATE_WINDOW_MS);
    this.#at = Math.max(this.#at, now);
  }
}
