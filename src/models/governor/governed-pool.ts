/**
 * A pool whose calls wait until the governor of its provider key lets them leave.
 *
 * Owns: the waiting calls, their order, one timer. Does not own: the policy (`governor.ts`), running calls and
 * mirrors (the inner pool), the retries of a session (the core).
 *
 * - G1 Every call completes exactly once, even if it never left. The listener is never called from within `call`,
 *   `cancel`, `resume` or `close`.
 * - G2 No waiting call is overtaken by another call of its model and session tree. A session has one call at a time, so
 *   its own calls keep their order. Calls of other models leave while a model's rate is used up (`model-queues.ts`).
 * - G3 A call's `timeoutMs` counts from when it leaves. `cancel` removes a waiting call, which then never leaves.
 * - G4 A waiting call touches no mirror, so `holds` describes the mirror as it is. When the call leaves, its delta is
 *   checked again: the mirror may have been forgotten, displaced, or lost with its thread while the call waited. If the
 *   delta no longer fits, the whole context is sent.
 * - G5 A timer runs only while the time at which a call may leave is known.
 * - G6 Refused credentials end no call that `waitsForResume`: such calls, waiting or new, leave after `resume`.
 * - G7 For a call with `fallbackAfterMs`, the session has another model that can answer. Such a call ends with an error
 *   if its wait is known and longer than `fallbackAfterMs`. It also ends if it would wait for an open circuit or for
 *   `resume`.
 */
import { GOVERNED_CALLS_MAX, GOVERNOR_FULL_RETRY_MS } from '../../base/bounds.ts';
import type { Clock, Random, Soon } from '../../base/clock.ts';
import { CancelledError, type ErrorShape, errorShape } from '../../base/errors.ts';
import { estimateTokens } from '../../session/state/tokens.ts';
import { modelErrorOf } from '../model-error.ts';
import type { CallWait, ContextDelta, ModelCall, ModelCompletion, ModelPool, ModelPoolListener } from '../pool.ts';
import { Governor, type Trouble } from './governor.ts';
import type { GovernorLimits } from './limits.ts';
import { ModelQueues } from './model-queues.ts';
import type { RateTable } from './rate-table.ts';
import { UnsentCalls } from './unsent-calls.ts';

/** The options of `createGovernedPool`. */
export interface GovernedPoolOptions {
  /**
   * This pool's share of the limits. If missing, calls wait only for the rates that the provider reports, the window,
   * the common pause and the circuit (`governor.ts`).
   */
  readonly limits?: GovernorLimits | undefined;
  /** The table of the rates that the provider reports. All shards of the runtime share it. */
  readonly rates: RateTable;
  readonly clock: Clock;
  readonly random: Random;
  /**
   * Schedules the tick in which completions of calls that never left are reported. Default: the next tick of the event
   * loop.
   */
  readonly soon?: Soon | undefined;
  readonly listener: ModelPoolListener;
  /** Creates the inner pool, which makes the calls and reports to the given listener. Called once, synchronously. */
  readonly makePool: (listener: ModelPoolListener) => ModelPool;
  /** Called whenever the number of waiting calls has changed. Must not throw. */
  readonly onWaiting?: (count: number) => void;
  /** Called once for each trouble that affects all sessions. Must not throw. */
  readonly onTrouble?: (trouble: Trouble) => void;
  /** Called with the first state, and whenever the state has changed. Must not throw. */
  readonly onStop?: (stop: ProviderStop) => void;
}

/** Whether a provider's trouble stops all calls of a pool. */
export interface ProviderStop {
  /** The provider does not answer: the other calls wait while one call probes it. */
  readonly isCircuitOpen: boolean;
  /** The provider refused the credentials: calls wait for `resume`. */
  readonly isRefused: boolean;
}

/** A pool behind a governor. Lives on the thread of its owner. */
export function createGovernedPool(options: GovernedPoolOptions): ModelPool {
  return new GovernedPool(options);
}

/** A call that has not been sent to the provider yet. */
interface Waiting {
  readonly id: number;
  readonly session: string;
  readonly model: string;
  readonly call: ModelCall;
  readonly whole: (() => ContextDelta) | undefined;
  readonly inputTokens: number;
  wantsDeltas: boolean;
}

class GovernedPool implements ModelPool {
  readonly #options: GovernedPoolOptions;
  readonly #clock: Clock;
  readonly #listener: ModelPoolListener;
  readonly #pool: ModelPool;
  readonly #governor: Governor;
  readonly #waiting = new ModelQueues<Waiting>();
  /** The model of each session that has a mirror. The model is kept because a delta does not name it. */
  readonly #models = new Map<string, string>();
  /**
   * Input tokens of each session's latest answer. The tokens are needed because a delta does not contain the earlier
   * messages. They are kept only if input is limited, or if the provider reports rates (`countsInput`).
   */
  readonly #lastInput = new Map<string, number>();
  /** The sessions of the calls in flight, for `#lastInput`. */
  readonly #sessions = new Map<number, string>();
  readonly #unsent: UnsentCalls;
  #stop: ProviderStop | undefined;
  #timer: unknown;
  #closed = false;

  constructor(options: GovernedPoolOptions) {
    this.#options = options;
    this.#clock = options.clock;
    this.#listener = options.listener;
    this.#unsent = new UnsentCalls(options.listener, options.soon);
    this.#governor = new Governor(options.limits, options.random, options.rates);
    this.#pool = options.makePool({
      completed: (completions) => this.#completed(completions),
      delta: (id, session, delta) => this.#listener.delta(id, session, delta),
    });
    this.#count();
    this.#noteStop();
  }

  call(call: ModelCall, whole?: () => ContextDelta): void {
    const { header } = call.context;
    if (header !== undefined && this.#models.get(call.session) !== header.model) {
      this.#models.set(call.session, header.model);
    }
    if (this.#governor.isFree && this.#waiting.size === 0) {
      this.#governor.started(call.id, this.#modelOf(call.session));
      this.#pool.call(call);
      return;
    }
    const refusal = this.#closed ? closedShape() : (this.#refusalOf(call) ?? this.#tooLongFor(call));
    if (refusal !== undefined) this.#unsent.end(call.id, refusal);
    else if (this.#waiting.size >= GOVERNED_CALLS_MAX) this.#unsent.end(call.id, fullShape());
    else {
      const { id, session, wantsDeltas } = call;
      const model = this.#modelOf(session);
      this.#waiting.put({ id, session, model, call, whole, inputTokens: this.#inputOf(call), wantsDeltas });
      this.#pump();
      this.#count();
    }
  }

  holds(session: string, epoch: number, keep: number): boolean {
    return this.#pool.holds(session, epoch, keep);
  }

  wantsDeltas(id: number, isWanted: boolean, fromStart?: boolean): void {
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) this.#pool.wantsDeltas(id, isWanted, fromStart);
    else waiting.wantsDeltas = isWanted;
  }

  cancel(id: number): void {
    if (this.#waiting.size === 0 || this.#waiting.remove(id) === undefined) {
      this.#pool.cancel(id);
      return;
    }
    this.#unsent.end(id, errorShape(new CancelledError('the model call was cancelled')));
    // The timer may have been set for this call. The next call may leave earlier, because it may need fewer tokens.
    this.#pump();
    this.#count();
  }

  forget(session: string): void {
    this.#models.delete(session);
    this.#lastInput.delete(session);
    this.#pool.forget(session);
  }

  resume(): void {
    this.#governor.resume();
    this.#noteStop();
    this.#pump();
    this.#count();
  }

  waitOf(id: number): CallWait | undefined {
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return undefined;
    const { refusal } = this.#governor;
    // If the governor itself does not hold this call back, the call waits behind others.
    const detail =
      this.#governor.explain(this.#clock.monotonic(), waiting.inputTokens, waiting.model) ??
      'other calls are before it';
    return refusal === undefined ? { detail } : { detail, refusal };
  }

  get stopped(): number {
    return this.#governor.refusal === undefined ? 0 : this.#waiting.size;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#endWaiting(() => closedShape());
    await this.#pool.close();
    await this.#unsent.reported();
  }

  #modelOf(session: string): string {
    return this.#models.get(session) ?? '';
  }

  /** The error that ends a call before it leaves, if there is one. */
  #refusalOf({ session, waitsForResume, fallbackAfterMs }: ModelCall): ErrorShape | undefined {
    if (fallbackAfterMs !== undefined && this.#governor.refusal !== undefined) return this.#governor.refusal;
    const isStopped = !waitsForResume && this.#governor.refusal !== undefined;
    return isStopped ? stoppedShape() : this.#governor.refusalOf(this.#modelOf(session));
  }

  /** The error for a call with `fallbackAfterMs` that would wait for too long (G7); undefined for any other call. */
  #tooLongFor(call: ModelCall): ErrorShape | undefined {
    const { fallbackAfterMs } = call;
    if (fallbackAfterMs === undefined) return undefined;
    const now = this.#clock.monotonic();
    const waitMs = this.#governor.opensAt(now, this.#inputOf(call), this.#modelOf(call.session)) - now;
    // A call whose wait is not known waits for the end of another call, except while the circuit is open.
    const isLong = Number.isFinite(waitMs) && waitMs > fallbackAfterMs;
    return isLong || (waitMs > 0 && this.#governor.isCircuitOpen) ? awayShape(waitMs) : undefined;
  }

  #completed(completions: readonly ModelCompletion[]): void {
    const now = this.#clock.monotonic();
    let isRefused = false;
    const isPaused = completions.some((completion) => 'error' in completion);
    if (this.#governor.countsInput) for (const completion of completions) this.#noteInput(completion);
    for (const trouble of this.#governor.ended(completions, now)) {
      isRefused ||= trouble.kind === 'credentials' || trouble.kind === 'model';
      this.#options.onTrouble?.(trouble);
    }
    this.#noteStop();
    if (this.#waiting.size > 0) {
      // The waiting calls are handled before the listener is notified. Calls that the owner then makes come after the
      // waiting ones (G2).
      if (isRefused) this.#endWaiting(({ call }) => this.#refusalOf(call));
      if (isPaused) this.#endWaiting(({ call }) => this.#tooLongFor(call));
      this.#pump();
      this.#count();
    }
    this.#listener.completed(completions);
  }

  /** Lets calls leave while the governor allows it. Sets the timer for the next call if only time holds it back. */
  #pump(): void {
    this.#clearTimer();
    let opensAt = 0;
    let now = 0;
    while (this.#waiting.size > 0) {
      now = this.#clock.monotonic();
      opensAt = Number.POSITIVE_INFINITY;
      for (const next of this.#waiting.firsts()) {
        opensAt = Math.min(opensAt, this.#governor.opensAt(now, next.inputTokens, next.model));
        if (opensAt > now) continue;
        this.#waiting.take(next.model);
        this.#leave(next, now);
        break;
      }
      if (opensAt > now) break;
    }
    const isTimed = this.#waiting.size > 0 && opensAt < Number.POSITIVE_INFINITY;
    if (isTimed) this.#timer = this.#clock.setTimer(this.#onTimer, opensAt - now);
  }

  #onTimer = (): void => {
    this.#timer = undefined;
    this.#pump();
    this.#count();
  };

  #leave(waiting: Waiting, now: number): void {
    const { call, whole, model, wantsDeltas, inputTokens } = waiting;
    this.#governor.started(call.id, model, now, inputTokens);
    if (this.#governor.countsInput) this.#sessions.set(call.id, call.session);
    const { epoch, keep } = call.context;
    const isHeld = keep === 0 || this.#pool.holds(call.session, epoch, keep);
    // Without `whole`, the inner pool refuses the delta with a retryable error.
    const context = isHeld ? call.context : (whole?.() ?? call.context);
    if (context.header !== undefined) this.#models.set(call.session, context.header.model);
    this.#pool.call({ ...call, context, wantsDeltas });
  }

  /** Ends the waiting calls for which `errorOf` gives an error. */
  #endWaiting(errorOf: (waiting: Waiting) => ErrorShape | undefined): void {
    for (const waiting of [...this.#waiting.items()]) {
      const error = errorOf(waiting);
      if (error === undefined) continue;
      this.#waiting.remove(waiting.id);
      this.#unsent.end(waiting.id, error);
    }
    if (this.#waiting.size === 0) this.#clearTimer();
    this.#count();
  }

  /**
   * The input tokens that the provider will count for a call: the new content, but at least the input of the session's
   * latest answer.
   */
  #inputOf(call: ModelCall): number {
    if (!this.#governor.countsInput) return 0;
    const { header, append } = call.context;
    let tokens = header === undefined ? 0 : estimateTokens(JSON.stringify(header));
    for (const message of append) tokens += estimateTokens(JSON.stringify(message));
    return Math.max(tokens, this.#lastInput.get(call.session) ?? 0);
  }

  #noteInput(completion: ModelCompletion): void {
    const session = this.#sessions.get(completion.id);
    this.#sessions.delete(completion.id);
    if (session === undefined || !('response' in completion)) return;
    const { usage } = completion.response;
    this.#lastInput.set(session, usage.input_tokens + (usage.cache_creation_input_tokens ?? 0));
  }

  #clearTimer(): void {
    if (this.#timer === undefined) return;
    this.#clock.clearTimer(this.#timer);
    this.#timer = undefined;
  }

  #noteStop(): void {
    const { isCircuitOpen, refusal } = this.#governor;
    const isRefused = refusal !== undefined;
    if (this.#stop?.isCircuitOpen === isCircuitOpen && this.#stop.isRefused === isRefused) return;
    this.#stop = { isCircuitOpen, isRefused };
    this.#options.onStop?.(this.#stop);
  }

  #count(): void {
    this.#options.onWaiting?.(this.#waiting.size);
  }
}

function closedShape(): ErrorShape {
  return errorShape(new CancelledError('the model pool is closed'));
}

/**
 * The error for a call that ends because refused credentials stop all calls. The refusal error itself would fail a
 * turn, and the provider did not refuse this call.
 */
function stoppedShape(): ErrorShape {
  return errorShape(new CancelledError('the provider refused the credentials before: the model call was not made'));
}

/** The error for a call that another model can make sooner. `waitMs`: the wait that was avoided, or `Infinity`. */
function awayShape(waitMs: number): ErrorShape {
  const message = 'the provider takes no call for now, and another model can answer';
  const retryAfter = Number.isFinite(waitMs) ? { retryAfterMs: Math.ceil(waitMs) } : {};
  return errorShape(modelErrorOf({ code: 'model_overloaded', message, ...retryAfter, data: { away: true } }));
}

function fullShape(): ErrorShape {
  const message = `${GOVERNED_CALLS_MAX} model calls wait for the provider's limits already`;
  return errorShape(modelErrorOf({ code: 'model_rate_limited', message, retryAfterMs: GOVERNOR_FULL_RETRY_MS }));
}
