/** Time, randomness and the next tick as ports, so that the simulator and tests control them. */

/** Wall time, monotonic time and timers. A timer fires at most once. */
export interface Clock {
  /** Epoch ms. */
  now(): number;
  /** Monotonic ms, for durations and deadlines: it never jumps, and is the same in all threads of a process. */
  monotonic(): number;
  /** Calls `run` once after `delayMs`; returns the handle for `clearTimer`. A pending timer keeps the process alive. */
  setTimer(run: () => void, delayMs: number): unknown;
  /** Cancels a timer. Unknown and fired timers are ignored. */
  clearTimer(timer: unknown): void;
}

/** A number in [0, 1). */
export type Random = () => number;

/**
 * Calls `run` once in a later tick, in the order given, never synchronously. This is a port like the clock: a simulator
 * decides when that tick is.
 */
export type Soon = (run: () => void) => void;

/** Longest delay that Node's timers accept (24.8 days): a timer with a longer delay fires at once. */
const TIMER_DELAY_MS_MAX = 2 ** 31 - 1;

/** A timer of any delay: if Node's timers do not accept the delay, several timers run one after the other. */
class LongTimer {
  readonly #run: () => void;
  #step: NodeJS.Timeout;

  constructor(run: () => void, delayMs: number) {
    this.#run = run;
    this.#step = this.#wait(delayMs);
  }

  clear(): void {
    clearTimeout(this.#step);
  }

  #wait(leftMs: number): NodeJS.Timeout {
    if (leftMs <= TIMER_DELAY_MS_MAX) return setTimeout(this.#run, leftMs);
    return setTimeout(() => {
      this.#step = this.#wait(leftMs - TIMER_DELAY_MS_MAX);
    }, TIMER_DELAY_MS_MAX);
  }
}

/** The zero of this thread's `performance.now()`, in ms of the clock that all threads share. */
const THREAD_START_MS = Number(process.hrtime.bigint()) / 1e6 - performance.now();

/** The machine's clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => THREAD_START_MS + performance.now(),
  setTimer: (run, delayMs) =>
    delayMs > TIMER_DELAY_MS_MAX ? new LongTimer(run, delayMs) : setTimeout(run, Math.max(0, delayMs)),
  clearTimer: (timer) => (timer instanceof LongTimer ? timer.clear() : clearTimeout(timer as NodeJS.Timeout)),
};

/** Sets a timer like `clock.setTimer`. On the machine's clock, this pending timer does not keep the process alive. */
export function setIdleTimer(clock: Clock, run: () => void, delayMs: number): unknown {
  const timer = clock.setTimer(run, delayMs);
  if (typeof timer === 'object' && timer !== null && 'unref' in timer && typeof timer.unref === 'function')
    timer.unref();
  return timer;
}

/**
 * Schedules work for the next tick of the event loop, after everything that is ready now. Microtasks would keep sockets
 * and timers waiting.
 */
export const soon: Soon = (run) => void setImmediate(run);

/** The machine's randomness. */
export const randomNumber: Random = () => Math.random();
