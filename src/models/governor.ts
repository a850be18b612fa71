/**
 * What all sessions on one provider key share: rates, the pause a refusal asks for, the circuit, and credentials that were
 * refused. Pure policy over a monotonic time it is told: no timer, no call, no session.
 *
 * Owns: which calls are out, what left within the last minute, the common pause. Does not own: who waits and in which order
 * (`governed-pool.ts`), and the retries of one session, which the core decides on top of this (contract of the half-step).
 *
 * - N1 Never more than `concurrency` calls out; never more than a rate in any minute (`rate-window.ts`). Input is estimated
 *   when a call leaves and corrected when it has ended; output is charged when a call has ended, and expected before: so of
 *   tokens a minute may hold too much by what the estimates of the calls on their way were wrong.
 * - N2 After a 429 or a 529 nothing leaves before the provider's `retry-after`. Without one the first refusal sets no pause, as
 *   the session's own backoff is one; those that follow within `GOVERNOR_CALM_MS` set pauses that double.
 * - N3 After any pause one call tries, and the others follow gradually (`ramp.ts`): a thousand sessions that waited do not come
 *   back at once.
 * - N4 `GOVERNOR_FAILURES_MAX` connection faults and server errors in a row, within a minute, open the circuit for a growing
 *   time; one call tries it, and its failure opens it again.
 * - N5 Once the credentials were refused (401, 402, 403), or a model is not found (404), no call on them leaves until `resume`;
 *   then one tries.
 * - N6 What calls report that left before the latest of these turns changes none of it: a thousand calls that fail together are
 *   one failure. Only a `retry-after` among them still counts.
 * - N7 Without limits, and while all is well, `isFree`: a call costs one entry of a map.
 */
import {
  GOVERNED_MODELS_MAX,
  GOVERNOR_BACKOFF_MS,
  GOVERNOR_BACKOFF_MS_MAX,
  GOVERNOR_CALM_MS,
  GOVERNOR_CIRCUIT_PATIENCE_MS,
  GOVERNOR_CREDENTIALS_PATIENCE_MS,
  GOVERNOR_FAILURES_MAX,
  GOVERNOR_FAILURES_PERIOD_MS,
  GOVERNOR_HOLD_MS_MAX,
  GOVERNOR_OUTPUT_TOKENS,
  GOVERNOR_RAMP_STEP_MS,
} from '../base/bounds.ts';
import type { Random } from '../base/clock.ts';
import type { ErrorShape } from '../base/errors.ts';
import type { Usage } from '../base/messages.ts';
import { outcomeOf } from './call-outcome.ts';
import type { GovernorLimits } from './governor-limits.ts';
import type { ModelCompletion } from './pool.ts';
import { Ramp } from './ramp.ts';
import { RateWindow } from './rate-window.ts';

/** Something all sessions are about to feel. For the embedder's log: one line, however many sessions there are. */
export interface Trouble {
  readonly kind: 'pause' | 'circuit' | 'credentials' | 'model';
  /** Milliseconds until one call tries again; missing: `resume` decides. */
  readonly waitMs?: number;
  readonly error: ErrorShape;
}

/** How the calls come back after a pause. */
type Return = ConstructorParameters<typeof Ramp>[0];

/** What a call on its way holds of the token rates. */
interface Reservation {
  readonly at: number;
  readonly input: number;
  readonly output: number;
}

/** Of the mean of output tokens, what the newest answer is worth. */
const NEWEST_SHARE = 0.1;

/** See the head of the file. */
export class Governor {
  readonly #random: Random;
  readonly #concurrency: number;
  readonly #requests: RateWindow | undefined;
  readonly #input: RateWindow | undefined;
  readonly #output: RateWindow | undefined;
  readonly #hasLimits: boolean;
  /** Calls out, with their models. */
  readonly #running = new Map<number, string>();
  /** Those of them that left before the latest turn (N6). */
  #stale: Set<number> = new Set();
  readonly #reservations = new Map<number, Reservation>();
  #reservedOutput = 0;
  #meanOutput = GOVERNOR_OUTPUT_TOKENS;
  #ramp: Ramp | undefined;
  /** Nothing leaves before; looked at while there is a ramp. */
  #holdUntil = 0;
  /** Pauses in a row. */
  #level = 0;
  #calmAt = 0;
  #failures = 0;
  #firstFailureAt = 0;
  #refused: ErrorShape | undefined;
  readonly #refusedModels = new Map<string, ErrorShape>();
  #isFree: boolean;

  /** `limits`: this governor's share; missing: no rates. */
  constructor(limits: GovernorLimits | undefined, random: Random) {
    const windowOf = (limit: number | undefined) => (limit === undefined ? undefined : new RateWindow(limit));
    this.#random = random;
    this.#concurrency = limits?.concurrency ?? Number.POSITIVE_INFINITY;
    this.#requests = windowOf(limits?.requestsPerMinute);
    this.#input = windowOf(limits?.inputTokensPerMinute);
    this.#output = windowOf(limits?.outputTokensPerMinute);
    this.#hasLimits = Object.values(limits ?? {}).some((limit) => limit !== undefined);
    this.#isFree = !this.#hasLimits;
  }

  /** Nothing is limited and nothing is wrong: a call may leave without being asked about (N7). */
  get isFree(): boolean {
    return this.#isFree;
  }

  /** `inputTokens` of `opensAt` and `started` matter. */
  get countsInput(): boolean {
    return this.#input !== undefined;
  }

  /** Calls out. */
  get running(): number {
    return this.#running.size;
  }

  /** The error every call of this model ends with at once, if there is one (N5). */
  refusalOf(model: string): ErrorShape | undefined {
    return this.#refused ?? this.#refusedModels.get(model);
  }

  /**
   * When the next call may leave: `now` when it may, a later time at which to ask again, or `Infinity` when only the end of a
   * call on its way can change it.
   */
  opensAt(now: number, inputTokens: number): number {
    if (this.#running.size >= this.#concurrency) return Number.POSITIVE_INFINITY;
    return Math.max(
      this.#rampOpensAt(now),
      this.#requests?.opensAt(now, 1) ?? now,
      this.#input?.opensAt(now, inputTokens) ?? now,
      this.#output?.opensAt(now, this.#expectedOutput, this.#reservedOutput) ?? now,
    );
  }

  /** Notes a call that leaves. `now` and `inputTokens` matter only while not `isFree`. */
  started(id: number, model: string, now: number = 0, inputTokens: number = 0): void {
    this.#running.set(id, model);
    if (this.#isFree) return;
    this.#ramp?.started(now);
    if (!this.#hasLimits) return;
    this.#requests?.add(now, 1);
    const at = this.#input?.add(now, inputTokens) ?? 0;
    const output = this.#output === undefined ? 0 : this.#expectedOutput;
    this.#reservedOutput += output;
    this.#reservations.set(id, { at, input: inputTokens, output });
  }

  /** Notes how a call ended; returns what the other sessions are to feel of it, if anything. */
  ended(completion: ModelCompletion, now: number): Trouble | undefined {
    const { id } = completion;
    const model = this.#running.get(id);
    if (model === undefined) return undefined;
    this.#running.delete(id);
    const isStale = this.#stale.size > 0 && this.#stale.delete(id);
    if (this.#hasLimits) this.#settle(id, now, 'response' in completion ? completion.response.usage : undefined);
    if ('response' in completion) {
      if (!isStale) this.#answered(now);
      return undefined;
    }
    return this.#failed(completion.error, { model, isStale, now });
  }

  /** Lifts what refused credentials and models stopped; one call tries (N5). */
  resume(): void {
    if (this.#refused === undefined && this.#refusedModels.size === 0) return;
    this.#refused = undefined;
    this.#refusedModels.clear();
    this.#turn({ isCircuit: false, patienceMs: GOVERNOR_CREDENTIALS_PATIENCE_MS });
  }

  get #expectedOutput(): number {
    return Math.ceil(this.#meanOutput);
  }

  #settle(id: number, now: number, usage: Usage | undefined): void {
    const reservation = this.#reservations.get(id);
    if (reservation === undefined) return;
    this.#reservations.delete(id);
    this.#reservedOutput -= reservation.output;
    if (usage === undefined) return;
    // What a cache answered counts for no provider's input rate.
    const input = usage.input_tokens + (usage.cache_creation_input_tokens ?? 0);
    this.#input?.adjust(reservation.at, input - reservation.input);
    this.#output?.add(now, usage.output_tokens);
    this.#meanOutput += (usage.output_tokens - this.#meanOutput) * NEWEST_SHARE;
  }

  #answered(now: number): void {
    this.#failures = 0;
    if (this.#ramp === undefined) return;
    this.#ramp.answered(now);
    if (this.#ramp.isOver) this.#endRamp();
  }

  #failed(
    error: ErrorShape,
    call: { readonly model: string; readonly isStale: boolean; readonly now: number },
  ): Trouble | undefined {
    const { model, isStale, now } = call;
    const { kind, retryAfterMs } = outcomeOf(error);
    if (retryAfterMs !== undefined && isStale && this.#ramp !== undefined && now < this.#holdUntil) {
      this.#holdUntil = Math.max(this.#holdUntil, now + Math.min(retryAfterMs, GOVERNOR_HOLD_MS_MAX));
      return undefined;
    }
    if (retryAfterMs !== undefined) return this.#pause(error, now, retryAfterMs);
    if (isStale) return undefined;
    switch (kind) {
      case 'credentials':
        return this.#refuse(error);
      case 'model':
        return this.#refuseModel(error, model, now);
      case 'busy':
        return this.#pause(error, now, undefined);
      case 'down':
        return this.#down(error, now);
      case 'answered':
        this.#answered(now);
        return undefined;
      case 'nothing':
        // It said nothing of the provider: whoever comes next tries in its place.
        this.#ramp?.gaveBack();
        return undefined;
    }
  }

  #refuse(error: ErrorShape): Trouble {
    this.#refused = error;
    this.#turn(undefined);
    return { kind: 'credentials', error };
  }

  #refuseModel(error: ErrorShape, model: string, now: number): Trouble | undefined {
    // The provider answers: for other models all is well.
    this.#answered(now);
    if (model === '' || this.#refusedModels.has(model) || this.#refusedModels.size >= GOVERNED_MODELS_MAX) {
      return undefined;
    }
    this.#refusedModels.set(model, error);
    this.#isFree = false;
    return { kind: 'model', error };
  }

  #pause(error: ErrorShape, now: number, retryAfterMs: number | undefined): Trouble {
    let waitMs = Math.min(retryAfterMs ?? 0, GOVERNOR_HOLD_MS_MAX);
    if (retryAfterMs === undefined) {
      const level = this.#nextLevel(now);
      waitMs = level === 0 ? 0 : this.#backoffMs(level - 1);
    }
    this.#hold(now, waitMs, { isCircuit: false, patienceMs: GOVERNOR_RAMP_STEP_MS });
    return { kind: 'pause', waitMs, error };
  }

  #down(error: ErrorShape, now: number): Trouble | undefined {
    if (this.#failures === 0 || now - this.#firstFailureAt > GOVERNOR_FAILURES_PERIOD_MS) {
      this.#failures = 0;
      this.#firstFailureAt = now;
    }
    this.#failures += 1;
    if (this.#ramp?.isCircuit !== true && this.#failures < GOVERNOR_FAILURES_MAX) return undefined;
    const waitMs = this.#backoffMs(this.#nextLevel(now));
    this.#hold(now, waitMs, { isCircuit: true, patienceMs: GOVERNOR_CIRCUIT_PATIENCE_MS });
    return { kind: 'circuit', waitMs, error };
  }

  #nextLevel(now: number): number {
    const level = now > this.#calmAt ? 0 : this.#level;
    this.#level = level + 1;
    return level;
  }

  /** Half of it fixed, half by chance: shards and processes on one key do not come back together, and none comes at once. */
  #backoffMs(level: number): number {
    const longest = Math.min(GOVERNOR_BACKOFF_MS * 2 ** level, GOVERNOR_BACKOFF_MS_MAX);
    return Math.ceil(longest * (0.5 + 0.5 * this.#random()));
  }

  #hold(now: number, waitMs: number, next: Return): void {
    this.#holdUntil = Math.max(this.#holdUntil, now + waitMs);
    this.#calmAt = this.#holdUntil + Math.max(GOVERNOR_CALM_MS, 2 * waitMs);
    this.#turn(next);
  }

  /** A turn for all: what is on its way has nothing to say to what comes now (N6). */
  #turn(next: Return | undefined): void {
    this.#stale = new Set(this.#running.keys());
    this.#failures = 0;
    this.#ramp = next === undefined ? undefined : new Ramp(next);
    this.#lookFree();
  }

  #rampOpensAt(now: number): number {
    if (this.#ramp === undefined) return now;
    if (now < this.#holdUntil) return this.#holdUntil;
    const opensAt = this.#ramp.opensAt(now);
    if (this.#ramp.isOver) this.#endRamp();
    return opensAt;
  }

  #endRamp(): void {
    this.#ramp = undefined;
    this.#level = 0;
    this.#lookFree();
  }

  #lookFree(): void {
    const isWell = this.#ramp === undefined && this.#refused === undefined && this.#refusedModels.size === 0;
    this.#isFree = isWell && !this.#hasLimits;
  }
}
