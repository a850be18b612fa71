/** Time, randomness and ids as ports, so that the simulator and tests control them. */

/** Wall time and timers. Times are epoch ms; a timer fires at most once. */
export interface Clock {
  /** Epoch ms. */
  now(): number;
  /** Monotonic ms, for durations and deadlines: it never jumps. */
  monotonic(): number;
  /** Calls `run` once after `delayMs`; returns the handle for `clearTimer`. A pending timer keeps the process alive. */
  setTimer(run: () => void, delayMs: number): unknown;
  /** Cancels a timer. Unknown and fired timers are ignored. */
  clearTimer(timer: unknown): void;
}

/** A number in [0, 1). */
export type Random = () => number;

/**
 * Calls `run` once in a later tick, in the order given, never synchronously. A port like the clock: a simulator decides
 * when that is.
 */
export type Soon = (run: () => void) => void;

/** Longest delay Node's timers take (24.8 days): a longer one fires at this bound. */
const TIMER_DELAY_MS_MAX = 2 ** 31 - 1;

/** The machine's clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimer: (run, delayMs) => setTimeout(run, Math.min(Math.max(0, delayMs), TIMER_DELAY_MS_MAX)),
  clearTimer: (timer) => clearTimeout(timer as NodeJS.Timeout),
};

/**
 * The next tick of the event loop: it comes after everything that is ready now. A microtask would starve everything
 * else.
 */
export const soon: Soon = (run) => void setImmediate(run);

/** The machine's randomness. */
export const randomNumber: Random = () => Math.random();
