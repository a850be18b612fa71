/**
 * The deadlines of one model call over the wire: until its first byte, between any two bytes, and in all.
 * Owns: one timer. Does not own: the call.
 *
 * - D1 `expired` is called once at most, and never after `end`.
 * - D2 Whatever comes from the server counts as life, pings too: a model that thinks long is not silent.
 * - D3 One timer whatever the number of chunks: a chunk costs a look at the clock.
 */
import type { Clock } from '../base/clock.ts';

/** What did not come in time: the first byte, the next one, the end. */
export type DeadlinePhase = 'ttfb' | 'idle' | 'total';

/** Milliseconds of each phase. */
export interface DeadlineLimits {
  readonly firstByteMs: number;
  readonly idleMs: number;
  readonly totalMs: number;
}

/** See the head of the file. Runs from its making. */
export class CallDeadline {
  readonly #clock: Clock;
  readonly #limits: DeadlineLimits;
  readonly #expired: (phase: DeadlinePhase, limitMs: number) => void;
  readonly #startMs: number;
  #idleMs: number;
  /** When the last byte came; undefined before the first. */
  #heardMs: number | undefined;
  #timer: unknown;

  /** `expired` runs on this thread; it may end the deadline, and must not throw. */
  constructor(clock: Clock, limits: DeadlineLimits, expired: (phase: DeadlinePhase, limitMs: number) => void) {
    this.#clock = clock;
    this.#limits = limits;
    this.#idleMs = limits.idleMs;
    this.#expired = expired;
    this.#startMs = clock.monotonic();
    this.#arm(this.#startMs);
  }

  /** Something came from the server. */
  heard(): void {
    const isFirst = this.#heardMs === undefined;
    this.#heardMs = this.#clock.monotonic();
    // The timer that runs is that of the first byte; silence may be over sooner.
    if (isFirst) this.#rearm(this.#heardMs);
  }

  /** All that is needed has come: from now on silence is over after `idleMs`. */
  ending(idleMs: number): void {
    if (idleMs >= this.#idleMs) return;
    this.#idleMs = idleMs;
    this.#heardMs = this.#clock.monotonic();
    this.#rearm(this.#heardMs);
  }

  /** The call is over. */
  end(): void {
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer);
    this.#timer = undefined;
  }

  #rearm(nowMs: number): void {
    if (this.#timer === undefined) return;
    this.#clock.clearTimer(this.#timer);
    this.#arm(nowMs);
  }

  #arm(nowMs: number): void {
    const [, , dueMs] = this.#next();
    this.#timer = this.#clock.setTimer(() => this.#look(), Math.max(0, Math.ceil(dueMs - nowMs)));
  }

  #look(): void {
    const nowMs = this.#clock.monotonic();
    const [phase, limitMs, dueMs] = this.#next();
    if (nowMs < dueMs) {
      this.#arm(nowMs);
      return;
    }
    this.#timer = undefined;
    this.#expired(phase, limitMs);
  }

  /** The deadline that is due next, and when. */
  #next(): readonly [phase: DeadlinePhase, limitMs: number, dueMs: number] {
    const { firstByteMs, totalMs } = this.#limits;
    const idleMs = this.#idleMs;
    const endMs = this.#startMs + totalMs;
    const silentMs = this.#heardMs === undefined ? this.#startMs + firstByteMs : this.#heardMs + idleMs;
    if (endMs <= silentMs) return ['total', totalMs, endMs];
    return this.#heardMs === undefined ? ['ttfb', firstByteMs, silentMs] : ['idle', idleMs, silentMs];
  }
}
