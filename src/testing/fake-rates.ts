/**
 * The rate limits of the fake server: one bucket for each rate. A bucket refills steadily, as the API documents for its
 * own limits.
 *
 * Owns: the amounts left. Does not own: the answers.
 */
import type { ServerResponse } from 'node:http';
import { RATE_WINDOW_MS } from '../base/bounds.ts';
import type { Clock } from '../base/clock.ts';

/** Limits per minute. A missing member means no limit. */
export interface FakeRates {
  readonly requestsPerMinute?: number;
  readonly inputTokensPerMinute?: number;
}

/** See the head of the file. */
export class FakeBuckets {
  readonly #clock: Clock;
  readonly #buckets: readonly Bucket[];

  constructor(rates: FakeRates, clock: Clock) {
    this.#clock = clock;
    const named = [
      ['requests', rates.requestsPerMinute],
      ['input-tokens', rates.inputTokensPerMinute],
    ] as const;
    this.#buckets = named.flatMap(([name, limit]) => (limit === undefined ? [] : [new Bucket(name, limit)]));
  }

  /**
   * Takes one request with this many input tokens, and sets the headers. Returns undefined if the request fits.
   * Otherwise takes nothing and returns the milliseconds until the request fits.
   */
  take(response: ServerResponse, inputTokens: number): number | undefined {
    const now = this.#clock.monotonic();
    const amountOf = ({ name }: Bucket): number => (name === 'requests' ? 1 : inputTokens);
    const waits = this.#buckets.map((bucket) => bucket.waitMs(now, amountOf(bucket)));
    const waitMs = Math.max(0, ...waits);
    for (const bucket of this.#buckets) {
      if (waitMs === 0) bucket.take(amountOf(bucket));
      bucket.report(response, this.#clock.now());
    }
    return waitMs === 0 ? undefined : waitMs;
  }
}

class Bucket {
  readonly name: string;
  readonly #limit: number;
  #left: number;
  #at = 0;

  constructor(name: string, limit: number) {
    this.name = name;
    this.#limit = limit;
    this.#left = limit;
  }

  /** Milliseconds until the bucket holds `amount`; an amount above the limit needs a full bucket. */
  waitMs(now: number, amount: number): number {
    this.#left = Math.min(this.#limit, this.#left + ((now - this.#at) * this.#limit) / RATE_WINDOW_MS);
    this.#at = now;
    const missing = Math.min(amount, this.#limit) - this.#left;
    return missing <= 0 ? 0 : Math.ceil((missing * RATE_WINDOW_MS) / this.#limit);
  }

  take(amount: number): void {
    this.#left -= amount;
  }

  report(response: ServerResponse, nowMs: number): void {
    const fullMs = ((this.#limit - this.#left) * RATE_WINDOW_MS) / this.#limit;
    const prefix = `anthropic-ratelimit-${this.name}`;
    response.setHeader(`${prefix}-limit`, String(this.#limit));
    response.setHeader(`${prefix}-remaining`, String(Math.max(0, Math.floor(this.#left))));
    response.setHeader(`${prefix}-reset`, new Date(Math.ceil(nowMs + fullMs)).toISOString());
  }
}
