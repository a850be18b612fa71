/**
 * Watches a thread's event loop, and reports when the loop stood still for a while. Causes are a tick that computes too
 * long, a provider that spins, or a long garbage collection. The report comes only after the stall, because the watch
 * runs on the same loop. If the loop never runs again, only another thread can notice.
 *
 * Invariants:
 * O1 each stall is reported once, with a lower bound of the time that the loop stood still.
 * O2 the watch keeps no thread and no process alive.
 */
import { LOOP_STALL_MS, LOOP_WATCH_INTERVAL_MS } from '../base/bounds.ts';

/** A watch of an event loop. */
export interface LoopWatch {
  /** Checks now, as the watch does at each interval. Call it before `end`, so that a stall just before is reported. */
  look(): void;
  /** Restarts the measurement: the time until now is never reported as a stall. */
  forget(): void;
  end(): void;
}

/** Bounds of a watch, in milliseconds. */
export interface LoopWatchOptions {
  /** A check that is late by this time or more reports a stall; default `LOOP_STALL_MS`. */
  readonly stallMs?: number;
  /** Time between two checks; default `LOOP_WATCH_INTERVAL_MS`. */
  readonly intervalMs?: number;
}

/**
 * Watches the event loop of the calling thread. `onStall` receives the length of a stall in milliseconds. It runs on
 * the same thread and must not throw.
 */
export function watchLoop(onStall: (ms: number) => void, options: LoopWatchOptions = {}): LoopWatch {
  const { stallMs = LOOP_STALL_MS, intervalMs = LOOP_WATCH_INTERVAL_MS } = options;
  let dueAt = performance.now() + intervalMs;
  const forget = (): void => {
    dueAt = performance.now() + intervalMs;
  };
  const look = (): void => {
    const lateMs = performance.now() - dueAt;
    forget();
    if (lateMs >= stallMs) onStall(Math.round(lateMs));
  };
  const timer = setInterval(look, intervalMs);
  timer.unref();
  return { look, forget, end: () => clearInterval(timer) };
}
