/**
 * The rates of one model: the last ones that the provider's headers reported, updated between the answers. Pure; times
 * are monotonic ms given by the caller, from a clock that all threads share.
 *
 * Owns: for each rate a copy of the provider's token bucket, in a row of the table that all session threads share
 * (`rate-table.ts`). Does not own: which calls wait.
 *
 * - H1 The copy refills, and calls draw on it, as on the provider's bucket. Each answer reports the provider's count at
 *   the time the provider took the call. This count is compared with the level of the copy just after the call left,
 *   and the difference corrects the copy. So an answer that took minutes corrects the copy as well as an answer that
 *   took a second.
 * - H2 The provider may take a call before others that left earlier. The count in its answer is then too high, because
 *   the other calls are not subtracted yet. So a count below the copy lowers the copy at once. A higher count raises
 *   the copy only when all calls that were in flight with that call have ended, or after `RATE_PHASE_MS_MAX`. The copy
 *   is then raised by the least difference that the answers to these calls showed.
 * - H3 A share of each limit is never used (`RATE_RESERVE`), because the provider takes a call some time after it left.
 *   Calls of other processes on the same key are known only from the corrections, so they may cause a few refusals.
 * - H4 A rate whose limit is unknown or 0 holds nothing back.
 */
import { RATE_PHASE_MS_MAX, RATE_RESERVE, RATE_WINDOW_MS } from '../../base/bounds.ts';
import type { RateLimit, RateLimits } from '../provider.ts';
import { RATE_ROW_NUMBERS, type RateTable } from './rate-table.ts';

/** The levels of the copies after a call left, to be compared with the provider's own count. */
export interface RateDraw {
  /** The number of the phase in which the call left. */
  readonly phase: number;
  readonly requests: number | undefined;
  readonly input: number | undefined;
}

/** See the head of the file. */
export class ProviderRates {
  readonly #table: RateTable;
  readonly #row: Float64Array;
  readonly #requests: Bucket;
  readonly #input: Bucket;

  /** `row`: the model's row of the table. */
  constructor(table: RateTable, row: Float64Array) {
    this.#table = table;
    this.#row = row;
    this.#requests = new Bucket(row.subarray(PHASE_NUMBERS, PHASE_NUMBERS + BUCKET_NUMBERS));
    this.#input = new Bucket(row.subarray(PHASE_NUMBERS + BUCKET_NUMBERS));
  }

  /**
   * The time at which a call with this input may leave: `now`, or a later time at which to ask again. Never `Infinity`.
   */
  opensAt(now: number, inputTokens: number): number {
    return this.#table.change(() => Math.max(this.#requests.opensAt(now, 1), this.#input.opensAt(now, inputTokens)));
  }

  /** Notes a call that leaves. */
  take(now: number, inputTokens: number): RateDraw {
    return this.#table.change(() => {
      this.#row[LATER] = (this.#row[LATER] ?? 0) + 1;
      return {
        phase: this.#row[PHASE] ?? 0,
        requests: this.#requests.take(now, 1),
        input: this.#input.take(now, inputTokens),
      };
    });
  }

  /**
   * Notes the end of a call. `draw`: the result of `take` for the call. `limits`: the provider's count when it took the
   * call; undefined if the provider reported none.
   */
  ended(now: number, limits: RateLimits | undefined, draw: RateDraw | undefined): void {
    this.#table.change(() => {
      if (limits !== undefined) {
        this.#requests.correct(now, limits.requests, draw?.requests);
        this.#input.correct(now, limits.inputTokens, draw?.input);
      }
      if (draw !== undefined) this.#leave(draw.phase);
      const isLate = now - (this.#row[SINCE] ?? 0) > RATE_PHASE_MS_MAX;
      if ((this.#row[EARLIER] ?? 0) <= 0 || isLate) this.#nextPhase(now);
    });
  }

  /** Counts a call of this phase or the previous one as ended. Calls of earlier phases are no longer counted. */
  #leave(phase: number): void {
    const age = (this.#row[PHASE] ?? 0) - phase;
    if (age === 0) this.#row[LATER] = (this.#row[LATER] ?? 0) - 1;
    if (age === 1) this.#row[EARLIER] = (this.#row[EARLIER] ?? 0) - 1;
  }

  #nextPhase(now: number): void {
    this.#requests.endPhase();
    this.#input.endPhase();
    this.#row[PHASE] = (this.#row[PHASE] ?? 0) + 1;
    this.#row[SINCE] = now;
    this.#row[EARLIER] = this.#row[LATER] ?? 0;
    this.#row[LATER] = 0;
  }
}

/**
 * The first numbers of a row. A phase lasts until all calls that were in flight when it began have ended, or until
 * `RATE_PHASE_MS_MAX` have passed. `EARLIER`: how many of these calls are still in flight. `LATER`: how many of the
 * calls that left during the phase are in flight.
 */
const PHASE = 0;
const SINCE = 1;
const EARLIER = 2;
const LATER = 3;
const PHASE_NUMBERS = 4;

/** The numbers of a bucket within its row. */
const LIMIT = 0;
const LEFT = 1;
const AT = 2;
const CORRECTED = 3;
/**
 * The least difference that the answers of the previous phase (`LEAST_BEFORE`) and of this phase showed; `Infinity`:
 * there was none.
 */
const LEAST_BEFORE = 4;
const LEAST = 5;
const BUCKET_NUMBERS = (RATE_ROW_NUMBERS - PHASE_NUMBERS) / 2;

class Bucket {
  readonly #numbers: Float64Array;

  constructor(numbers: Float64Array) {
    this.#numbers = numbers;
  }

  opensAt(now: number, amount: number): number {
    const limit = this.#limit;
    if (limit === 0) return now;
    this.#refill(now);
    const reserve = limit * RATE_RESERVE;
    // An amount above the limit needs only a full bucket. Otherwise it would wait forever.
    const missing = Math.min(amount + reserve, limit) - this.#left;
    return missing <= 0 ? now : now + Math.ceil((missing * RATE_WINDOW_MS) / limit);
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
    const before = this.#limit;
    this.#numbers[LIMIT] = counted.limit;
    if (before === 0 || level === undefined) {
      // The first count becomes the level. A later count without a `level` to compare it with can only lower the copy.
      this.#left = before === 0 ? counted.remaining : Math.min(this.#left, counted.remaining);
      return;
    }
    const difference = counted.remaining - (level + this.#corrected);
    this.#numbers[LEAST] = Math.min(this.#numbers[LEAST] ?? 0, difference);
    if (difference < 0) this.#change(difference);
  }

  /**
   * Ends a phase: raises the copy if all answers of this phase and of the previous one showed that it is too low (H2).
   */
  endPhase(): void {
    const before = this.#numbers[LEAST_BEFORE] ?? 0;
    const least = Math.min(before, this.#numbers[LEAST] ?? 0);
    if (least > 0 && before < Number.POSITIVE_INFINITY) this.#change(least);
    this.#numbers[LEAST_BEFORE] = this.#numbers[LEAST] ?? 0;
    this.#numbers[LEAST] = Number.POSITIVE_INFINITY;
  }

  #change(difference: number): void {
    this.#left = Math.min(this.#left + difference, this.#limit);
    this.#numbers[CORRECTED] = this.#corrected + difference;
    // The noted difference was measured from the unchanged copy. From the changed copy it is less by `difference`.
    this.#numbers[LEAST] = (this.#numbers[LEAST] ?? 0) - difference;
  }

  /** The limit as last reported; 0 while it is unknown. */
  get #limit(): number {
    return this.#numbers[LIMIT] ?? 0;
  }

  get #left(): number {
    return this.#numbers[LEFT] ?? 0;
  }

  set #left(left: number) {
    this.#numbers[LEFT] = left;
  }

  /**
   * The sum of all corrections. A level noted before a correction is compared as if that correction had been applied.
   */
  get #corrected(): number {
    return this.#numbers[CORRECTED] ?? 0;
  }

  #refill(now: number): void {
    const at = this.#numbers[AT] ?? 0;
    if (now > at) this.#left = Math.min(this.#limit, this.#left + ((now - at) * this.#limit) / RATE_WINDOW_MS);
    this.#numbers[AT] = Math.max(at, now);
  }
}
