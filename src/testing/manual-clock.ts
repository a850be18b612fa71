/**
 * A clock that moves only on request.
 * Owns: the current time and the waiting timers. Does not own: real time. The duration of real I/O does not move the
 * clock.
 *
 * - V1 Timers fire in the order of their due times. Timers that are due together fire in the order they were set.
 * - V2 While a timer runs, the clock shows the timer's due time. If the timer sets other timers, their delays count
 *   from that time.
 * - V3 Between two timers microtasks and immediates settle, so the effects of one timer are complete before the next
 *   fires.
 */
import type { Clock } from '../base/clock.ts';

/** Epoch ms at which a manual clock starts: 2026-01-01, 00:00 UTC. */
const START_MS = 1_767_225_600_000;
/** The ticks that `settle` waits: a chain of this many immediates has run by then. */
const SETTLE_TURNS = 8;
/**
 * Maximum number of timers that one `runAll` fires. If there are more, the timers probably set each other endlessly.
 */
const RUN_ALL_TIMERS_MAX = 100_000;

/** A clock moved by hand. */
export interface ManualClock extends Clock {
  /**
   * Moves time by `ms` and fires due timers in order, including timers set on the way. Resolves when all work has
   * settled. Rejects with an error that a timer throws.
   */
  advance(ms: number): Promise<void>;
  /** Moves time from timer to timer until none waits. Rejects after 100,000 timers. */
  runAll(): Promise<void>;
  /** Number of waiting timers. */
  readonly pending: number;
}

interface Timer {
  readonly at: number;
  readonly run: () => void;
}

/** A clock that starts at `startMs` (epoch ms). `advance` must not be called while another `advance` runs. */
export function manualClock(startMs: number = START_MS): ManualClock {
  return new HandClock(startMs);
}

class HandClock implements ManualClock {
  readonly #startMs: number;
  #nowMs: number;
  /** Ascending by due time; timers that are due together are in the order in which they were set. */
  readonly #timers: Timer[] = [];

  constructor(startMs: number) {
    this.#startMs = startMs;
    this.#nowMs = startMs;
  }

  get pending(): number {
    return this.#timers.length;
  }

  now(): number {
    return this.#nowMs;
  }

  monotonic(): number {
    return this.#nowMs - this.#startMs;
  }

  setTimer(run: () => void, delayMs: number): unknown {
    const timer: Timer = { at: this.#nowMs + Math.max(0, delayMs), run };
    this.#timers.splice(this.#placeAfter(timer.at), 0, timer);
    return timer;
  }

  clearTimer(timer: unknown): void {
    const place = this.#timers.indexOf(timer as Timer);
    if (place !== -1) this.#timers.splice(place, 1);
  }

  async advance(ms: number): Promise<void> {
    const target = this.#nowMs + ms;
    await settle();
    for (let next = this.#due(target); next !== undefined; next = this.#due(target)) {
      await this.#fire(next);
    }
    this.#nowMs = target;
    await settle();
  }

  async runAll(): Promise<void> {
    await settle();
    for (let fired = 0; this.#timers[0] !== undefined; fired += 1) {
      if (fired === RUN_ALL_TIMERS_MAX) throw new Error(`${fired} timers fired and one still waits`);
      const next = this.#due(Number.POSITIVE_INFINITY);
      if (next !== undefined) await this.#fire(next);
    }
  }

  /** Removes and returns the first timer due by `target`. */
  #due(target: number): Timer | undefined {
    const first = this.#timers[0];
    if (first === undefined || first.at > target) return undefined;
    this.#timers.shift();
    return first;
  }

  async #fire(timer: Timer): Promise<void> {
    this.#nowMs = Math.max(this.#nowMs, timer.at);
    timer.run();
    await settle();
  }

  #placeAfter(at: number): number {
    let low = 0;
    let high = this.#timers.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#timers[middle]?.at ?? 0) <= at) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/**
 * Waits until chains of work have run. All microtasks run between two immediates, so each tick runs one more link of a
 * chain.
 */
async function settle(): Promise<void> {
  for (let turn = 0; turn < SETTLE_TURNS; turn += 1) {
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
  }
}
