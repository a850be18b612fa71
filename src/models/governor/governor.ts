/**
 * Decides when a call may leave, from the state that all sessions on one provider key share. This state is rates, the
 * pause that a refusal asks for, the window of calls in flight, the circuit breaker, and refused credentials. The
 * governor is pure policy over a monotonic time given by the caller: it has no timer, makes no call, and knows no
 * session. A shard has one governor for each provider. The limits of a governor are the shard's share of the limits of
 * the provider's key. All shards share the rates that the provider reports.
 *
 * Owns: which calls are in flight, the amounts of the last minute, the common pause, the window. Does not own: which
 * calls wait and in which order (`governed-pool.ts`); the retries of one session, because the core decides them
 * (contract of the half-step).
 *
 * - N1 There are never more than `concurrency` calls in flight, and no minute ever has more than a rate allows
 *   (`rate-window.ts`). Input is estimated when a call leaves and corrected when it ends. Output is estimated when a
 *   call leaves and counted when it ends. So a minute may exceed a token rate by the estimation error of the calls in
 *   flight.
 * - N2 After a 429, a 529 or a server error no call leaves until the time of the provider's `retry-after` has passed. A
 *   429 or a 529 without that header, or with 0, makes no pause. It makes the window of calls in flight smaller, and
 *   answers make the window larger (`call-window.ts`).
 * - N3 After any pause one call tries, and the others follow in a window that probes (Y2 of `call-window.ts`). So a
 *   thousand waiting sessions do not return at once.
 * - N4 `GOVERNOR_FAILURES_MAX` connection faults and server errors in a row, within a minute, open the circuit for a
 *   growing time. Then one call tries, and its failure opens the circuit again.
 * - N5 Once the credentials were refused (401, 402, 403), no call leaves until `resume`; then one call tries. A model
 *   that is not found (404) is refused to all sessions that ask for it until `resume`.
 * - N6 A call that left before the latest pause, circuit or refusal of credentials is stale. Except for a
 *   `retry-after`, the outcome of a stale call changes no pause, circuit, refusal or window. So a thousand calls that
 *   fail together count as one failure. Stale calls take no room in the window.
 * - N7 Without limits, reported rates and trouble, `isFree` is true, and a call costs only one map entry. Answers end
 *   the trouble: a window that holds no call back is removed (Y3 of `call-window.ts`).
 * - N8 The rates that the provider reports hold calls back before the provider refuses them. With one runtime on a key,
 *   no call of any shard is refused for a rate once the first answers have arrived (`provider-rates.ts`).
 */
import {
  GOVERNED_MODELS_MAX,
  GOVERNOR_CIRCUIT_MS,
  GOVERNOR_CIRCUIT_MS_MAX,
  GOVERNOR_CIRCUIT_PATIENCE_MS,
  GOVERNOR_CREDENTIALS_PATIENCE_MS,
  GOVERNOR_FAILURES_MAX,
  GOVERNOR_FAILURES_PERIOD_MS,
  GOVERNOR_HOLD_MS_MAX,
  GOVERNOR_OUTPUT_TOKENS,
  GOVERNOR_WINDOW_STEP_MS,
} from '../../base/bounds.ts';
import type { Random } from '../../base/clock.ts';
import type { ErrorShape } from '../../base/errors.ts';
import { growingWait } from '../../base/growing-wait.ts';
import type { Usage } from '../../base/messages.ts';
import { outcomeOf } from '../call-outcome.ts';
import type { ModelCompletion } from '../pool.ts';
import { readRateLimits } from '../rate-limits.ts';
import { CallWindow } from './call-window.ts';
import type { GovernorLimits } from './limits.ts';
import { ProviderRates, type RateDraw } from './provider-rates.ts';
import type { RateTable } from './rate-table.ts';
import { RateWindow } from './rate-window.ts';

/** A condition that affects all sessions. The embedder's log gets one line, however many sessions there are. */
export interface Trouble {
  /** `window`: half as many calls may be in flight as when the refusals began. */
  readonly kind: 'pause' | 'window' | 'circuit' | 'credentials' | 'model';
  /** Milliseconds until one call tries again. Missing: calls are not held back, or are held back until `resume`. */
  readonly waitMs?: number;
  readonly error: ErrorShape;
}

/** A call's reserved amounts of the token rates while it is in flight. */
interface Reservation {
  readonly at: number;
  readonly input: number;
  readonly output: number;
}

/** The weight of the newest answer in the mean of output tokens. */
const NEWEST_SHARE = 0.1;

/** See the head of the file. */
export class Governor {
  readonly #random: Random;
  readonly #concurrency: number;
  readonly #requests: RateWindow | undefined;
  readonly #input: RateWindow | undefined;
  readonly #output: RateWindow | undefined;
  readonly #hasLimits: boolean;
  /** Calls in flight, with their models. */
  readonly #running = new Map<number, string>();
  /** The calls in flight that left before the latest pause, circuit or refusal of credentials (N6). */
  #stale: Set<number> = new Set();
  readonly #reservations = new Map<number, Reservation>();
  readonly #rates: RateTable;
  /** The rates of each model, as the provider reports them to any shard (`provider-rates.ts`). */
  readonly #reported = new Map<string, ProviderRates>();
  /** The amounts that each call in flight took from the reported rates. */
  readonly #draws = new Map<number, RateDraw>();
  #reservedOutput = 0;
  #meanOutput = GOVERNOR_OUTPUT_TOKENS;
  /** The window of calls in flight. It is undefined, and limits nothing, while there is no trouble. */
  #window: CallWindow | undefined;
  /** True while the circuit is open, and in the window after it. In that window one failure opens the circuit again. */
  #isCircuit = false;
  /** How many times in a row the circuit was opened. */
  #circuitLevel = 0;
  /** No call leaves before this time; checked only while there is a window. */
  #holdUntil = 0;
  #failures = 0;
  #firstFailureAt = 0;
  #refused: ErrorShape | undefined;
  readonly #refusedModels = new Map<string, ErrorShape>();
  #isFree: boolean;

  /**
   * `limits`: this governor's share; if missing, only the reported rates apply. `rates`: the table of the rates that
   * the provider reports, which all shards share.
   */
  constructor(limits: GovernorLimits | undefined, random: Random, rates: RateTable) {
    const windowOf = (limit: number | undefined) => (limit === undefined ? undefined : new RateWindow(limit));
    this.#random = random;
    this.#rates = rates;
    this.#concurrency = limits?.concurrency ?? Number.POSITIVE_INFINITY;
    this.#requests = windowOf(limits?.requestsPerMinute);
    this.#input = windowOf(limits?.inputTokensPerMinute);
    this.#output = windowOf(limits?.outputTokensPerMinute);
    this.#hasLimits = Object.values(limits ?? {}).some((limit) => limit !== undefined);
    this.#isFree = !this.#hasLimits;
  }

  /** True if there are no limits and no trouble, so that a call may leave without `opensAt` (N7). */
  get isFree(): boolean {
    return this.#isFree && this.#rates.size === 0;
  }

  /** True when the parameter `inputTokens` of `opensAt` and `started` matters. */
  get countsInput(): boolean {
    return this.#input !== undefined || this.#rates.size > 0;
  }

  /** The number of calls in flight. */
  get running(): number {
    return this.#running.size;
  }

  /**
   * The error with which the provider refused the credentials. While there is one, no call leaves until `resume` (N5).
   */
  get refusal(): ErrorShape | undefined {
    return this.#refused;
  }

  /** True while the circuit is open or a call probes it (N4). */
  get isCircuitOpen(): boolean {
    return this.#isCircuit;
  }

  /** The error that ends every call of this model at once, if there is one (N5). */
  refusalOf(model: string): ErrorShape | undefined {
    return this.#refusedModels.get(model);
  }

  /**
   * The time at which the next call may leave: `now`, or a later time at which to ask again. `Infinity` if a call in
   * flight must end first, or `resume` must be called.
   */
  opensAt(now: number, inputTokens: number, model: string = ''): number {
    if (this.#refused !== undefined || this.#running.size >= this.#concurrency) return Number.POSITIVE_INFINITY;
    return Math.max(
      this.#windowOpensAt(now),
      this.#requests?.opensAt(now, 1) ?? now,
      this.#input?.opensAt(now, inputTokens) ?? now,
      this.#output?.opensAt(now, this.#expectedOutput, this.#reservedOutput) ?? now,
      this.#reportedOf(model)?.opensAt(now, inputTokens) ?? now,
    );
  }

  /** A readable reason why a call is held back now; undefined if the call may leave. */
  explain(now: number, inputTokens: number, model: string = ''): string | undefined {
    if (this.#refused !== undefined) {
      const { message, data } = this.#refused;
      const code = data?.['errorCode'];
      return typeof code === 'string'
        ? `the provider stops all calls (${code}: ${message}); resume() lets one call try`
        : `the provider refused the credentials (${message}); resume() lets one call try`;
    }
    if (this.#running.size >= this.#concurrency) {
      return `${this.#running.size} calls are in flight (governor.concurrency: ${this.#concurrency})`;
    }
    if (this.#window !== undefined && now < this.#holdUntil) {
      const left = secondsUntil(this.#holdUntil, now);
      return this.#isCircuit
        ? `the circuit is open because the provider does not answer: one call probes it in ${left}`
        : `the provider asked for a pause (retry-after): ${left} are left`;
    }
    if (this.#window !== undefined && this.#inFlight >= this.#window.size) {
      return `${this.#inFlight} calls are in flight, and ${this.#window.size} may be: the provider refused some`;
    }
    const rates = [
      ['requestsPerMinute', this.#requests?.opensAt(now, 1)],
      ['inputTokensPerMinute', this.#input?.opensAt(now, inputTokens)],
      ['outputTokensPerMinute', this.#output?.opensAt(now, this.#expectedOutput, this.#reservedOutput)],
    ] as const;
    for (const [name, opensAt] of rates) {
      if (opensAt === undefined || opensAt <= now) continue;
      const until = opensAt === Number.POSITIVE_INFINITY ? 'until a call ends' : `for ${secondsUntil(opensAt, now)}`;
      return `the rate governor.${name} is used up ${until}`;
    }
    const reportedAt = this.#reportedOf(model)?.opensAt(now, inputTokens) ?? now;
    if (reportedAt > now) return `the rate that the provider reports is used up for ${secondsUntil(reportedAt, now)}`;
    return undefined;
  }

  /** Notes a call that leaves. `now` and `inputTokens` matter only while `isFree` is false. */
  started(id: number, model: string, now: number = 0, inputTokens: number = 0): void {
    this.#running.set(id, model);
    if (this.isFree) return;
    this.#window?.started(now);
    const draw = this.#reportedOf(model)?.take(now, inputTokens);
    if (draw !== undefined) this.#draws.set(id, draw);
    if (!this.#hasLimits) return;
    this.#requests?.add(now, 1);
    const at = this.#input?.add(now, inputTokens) ?? 0;
    const output = this.#output === undefined ? 0 : this.#expectedOutput;
    this.#reservedOutput += output;
    this.#reservations.set(id, { at, input: inputTokens, output });
  }

  /** Notes the outcomes of calls that ended together; returns the troubles that they cause for all sessions. */
  ended(completions: readonly ModelCompletion[], now: number): readonly Trouble[] {
    // `#busy` needs the number of calls in flight at the refusal. The number is read before the first call is removed.
    const inFlight = this.#inFlight;
    const troubles: Trouble[] = [];
    for (const completion of completions) {
      const trouble = this.#ended(completion, now, inFlight);
      if (trouble !== undefined) troubles.push(trouble);
    }
    return troubles;
  }

  /** Lifts the refusal of credentials and models; one call tries (N5). */
  resume(): void {
    if (this.#refused === undefined && this.#refusedModels.size === 0) return;
    this.#refused = undefined;
    this.#refusedModels.clear();
    this.#begin(CallWindow.probing(GOVERNOR_CREDENTIALS_PATIENCE_MS));
  }

  /** The calls in flight that the window counts. */
  get #inFlight(): number {
    return this.#running.size - this.#stale.size;
  }

  get #expectedOutput(): number {
    return Math.ceil(this.#meanOutput);
  }

  #ended(completion: ModelCompletion, now: number, inFlight: number): Trouble | undefined {
    const { id } = completion;
    const model = this.#running.get(id);
    if (model === undefined) return undefined;
    this.#running.delete(id);
    this.#noteReported(completion, model, now);
    const isStale = this.#stale.size > 0 && this.#stale.delete(id);
    if (this.#hasLimits) this.#settle(id, now, 'response' in completion ? completion.response.usage : undefined);
    if ('response' in completion) {
      if (!isStale) this.#answered(now);
      return undefined;
    }
    return this.#failed(completion.error, { model, isStale, now, inFlight });
  }

  #noteReported(completion: ModelCompletion, model: string, now: number): void {
    const draw = this.#draws.get(completion.id);
    this.#draws.delete(completion.id);
    const limits =
      'response' in completion ? completion.response.rateLimits : readRateLimits(completion.error.data?.['rateLimits']);
    if (limits === undefined && draw === undefined) return;
    this.#rates.make(model);
    this.#reportedOf(model)?.ended(now, limits, draw);
  }

  #reportedOf(model: string): ProviderRates | undefined {
    const known = this.#reported.get(model);
    if (known !== undefined) return known;
    const row = this.#rates.find(model);
    if (row === undefined) return undefined;
    const rates = new ProviderRates(this.#rates, row);
    this.#reported.set(model, rates);
    return rates;
  }

  #settle(id: number, now: number, usage: Usage | undefined): void {
    const reservation = this.#reservations.get(id);
    if (reservation === undefined) return;
    this.#reservations.delete(id);
    this.#reservedOutput -= reservation.output;
    if (usage === undefined) return;
    // Providers do not count input read from a cache toward the input rate.
    const input = usage.input_tokens + (usage.cache_creation_input_tokens ?? 0);
    this.#input?.adjust(reservation.at, input - reservation.input);
    this.#output?.add(now, usage.output_tokens);
    this.#meanOutput += (usage.output_tokens - this.#meanOutput) * NEWEST_SHARE;
  }

  #answered(now: number): void {
    this.#failures = 0;
    if (this.#window === undefined) return;
    this.#window.answered(now);
    if (this.#window.isOver) this.#allIsWell();
  }

  #failed(
    error: ErrorShape,
    call: { readonly model: string; readonly isStale: boolean; readonly now: number; readonly inFlight: number },
  ): Trouble | undefined {
    const { model, isStale, now, inFlight } = call;
    const { kind, retryAfterMs = 0 } = outcomeOf(error);
    if (retryAfterMs > 0 && isStale && this.#window !== undefined && now < this.#holdUntil) {
      this.#holdUntil = Math.max(this.#holdUntil, now + Math.min(retryAfterMs, GOVERNOR_HOLD_MS_MAX));
      return undefined;
    }
    if (retryAfterMs > 0) return this.#pause(error, now, retryAfterMs);
    if (isStale) return undefined;
    switch (kind) {
      case 'credentials':
        return this.#refuse(error);
      case 'model':
        return this.#refuseModel(error, model, now);
      case 'busy':
        return this.#busy(error, inFlight);
      case 'down':
        return this.#down(error, now);
      case 'answered':
        this.#answered(now);
        return undefined;
      case 'nothing':
        return undefined;
    }
  }

  #refuse(error: ErrorShape): Trouble {
    this.#refused = error;
    this.#begin(undefined);
    return { kind: 'credentials', error };
  }

  #refuseModel(error: ErrorShape, model: string, now: number): Trouble | undefined {
    // The provider has answered, so there is no trouble for other models.
    this.#answered(now);
    if (model === '' || this.#refusedModels.has(model) || this.#refusedModels.size >= GOVERNED_MODELS_MAX) {
      return undefined;
    }
    this.#refusedModels.set(model, error);
    this.#lookFree();
    return { kind: 'model', error };
  }

  #pause(error: ErrorShape, now: number, retryAfterMs: number): Trouble {
    const waitMs = Math.min(retryAfterMs, GOVERNOR_HOLD_MS_MAX);
    this.#hold(now, waitMs, GOVERNOR_WINDOW_STEP_MS);
    return { kind: 'pause', waitMs, error };
  }

  #busy(error: ErrorShape, inFlight: number): Trouble | undefined {
    // The provider answers, even if only with a refusal.
    this.#failures = 0;
    this.#isCircuit = false;
    this.#window ??= new CallWindow(inFlight);
    this.#lookFree();
    return this.#window.refused() ? { kind: 'window', error } : undefined;
  }

  #down(error: ErrorShape, now: number): Trouble | undefined {
    if (this.#failures === 0 || now - this.#firstFailureAt > GOVERNOR_FAILURES_PERIOD_MS) {
      this.#failures = 0;
      this.#firstFailureAt = now;
    }
    this.#failures += 1;
    if (!this.#isCircuit && this.#failures < GOVERNOR_FAILURES_MAX) return undefined;
    const level = this.#isCircuit ? this.#circuitLevel + 1 : 0;
    const waitMs = this.#circuitMs(level);
    this.#hold(now, waitMs, GOVERNOR_CIRCUIT_PATIENCE_MS);
    this.#isCircuit = true;
    this.#circuitLevel = level;
    return { kind: 'circuit', waitMs, error };
  }

  /**
   * The time for which the circuit stays open. Half of the longest time is fixed, so that no shard returns at once. The
   * other half is random, so that shards and processes on one key do not return together.
   */
  #circuitMs(level: number): number {
    const longest = growingWait(level + 1, { first: GOVERNOR_CIRCUIT_MS, longest: GOVERNOR_CIRCUIT_MS_MAX });
    return Math.ceil(longest * (0.5 + 0.5 * this.#random()));
  }

  #hold(now: number, waitMs: number, patienceMs: number): void {
    this.#holdUntil = Math.max(this.#holdUntil, now + waitMs);
    this.#begin(CallWindow.probing(patienceMs));
  }

  /**
   * Begins a pause, an open circuit, a refusal, or the trial after `resume`. The calls now in flight become stale,
   * because their outcomes say nothing about the time from now on (N6).
   */
  #begin(window: CallWindow | undefined): void {
    this.#stale = new Set(this.#running.keys());
    this.#failures = 0;
    this.#isCircuit = false;
    this.#window = window;
    this.#lookFree();
  }

  #allIsWell(): void {
    this.#window = undefined;
    this.#isCircuit = false;
    this.#lookFree();
  }

  #windowOpensAt(now: number): number {
    if (this.#window === undefined) return now;
    return now < this.#holdUntil ? this.#holdUntil : this.#window.opensAt(now, this.#inFlight);
  }

  #lookFree(): void {
    const isWell = this.#window === undefined && this.#refused === undefined && this.#refusedModels.size === 0;
    this.#isFree = isWell && !this.#hasLimits;
  }
}

function secondsUntil(at: number, now: number): string {
  return `${Math.ceil((at - now) / 1_000)} s`;
}
