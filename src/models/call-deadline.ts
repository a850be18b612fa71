/**
 * The deadlines of one model call over the network: until its first byte, between any two bytes, and in total.
 * Owns: one timer. Does not own: the call.
 *
 * - D1 `expired` is called at most once, and never after `end`.
 * - D2 Any byte from the server ends a silence, also the byte of a ping. The Messages API sends pings while a model
 *   thinks.
 * - D3 There is one timer for all chunks. A chunk costs one read of the clock.
 */
import type { Clock } from '../base/clock.ts';

/** The part that was late: the first byte, the next byte, or the end. */
export type DeadlinePhase = 'ttfb' | 'idle' | 'total';

/** The milliseconds of each phase. */
export interface DeadlineLimits {
  readonly firstByteMs: number;
  readonly idleMs: number;
  readonly totalMs: number;
}

/** See the head of the file. Runs from its construction. */
export class CallDeadline {
  readonly #clock: Clock;
  readonly #limits: DeadlineLimits;
  readonly #expired: (phase: DeadlinePhase, limitMs: number) => void;
  readonly #startMs: number;
  #idleMs: number;
  /** Monotonic ms at which the last byte came; undefined before the first. */
  #heardMs: number | undefined;
  #timer: unknown;

  /** `expired` runs on this thread. It may end the deadline and must not throw. */
  constructor(clock: Clock, limits: DeadlineLimits, expired: (phase: DeadlinePhase, limitMs: number) => void) {
    this.#clock = clock;
    this.#limits = limits;
    this.#idleMs = limits.idleMs;
    this.#expired = expired;
    this.#startMs = clock.monotonic();
    this.#arm(this.#startMs);
  }

  /** Notes that bytes came from the server. */
  heard(): void {
    const isFirst = this.#heardMs === undefined;
    this.#heardMs = this.#clock.monotonic();
    // The running timer is for the first byte; the idle deadline may be earlier.
    if (isFirst) this.#rearm(this.#heardMs);
  }

  /** The answer is complete: from now on the call expires after `idleMs` of silence. */
  ending(idleMs: number): void {
    if (idleMs >= this.#idleMs) return;
    this.#idleMs = idleMs;
    this.#heardMs = this.#clock.monotonic();
    this.#rearm(this.#heardMs);
  }

  /** Ends the deadline with its call. */
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

  /** The next deadline, and when it is due. */
  #next(): readonly [phase: DeadlinePhase, limitMs: number, dueMs: number] {
    const { firstByteMs, totalMs } = this.#limits;
    const idleMs = this.#idleMs;
    const endMs = this.#startMs + totalMs;
    const silentMs = this.#heardMs === undefined ? this.#startMs + firstByteMs : this.#heardMs + idleMs;
    if (endMs <= silentMs) return ['total', totalMs, endMs];
    return this.#heardMs === undefined ? ['ttfb', firstByteMs, silentMs] : ['idle', idleMs, silentMs];
  }
}
