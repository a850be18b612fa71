/**
 * Watches a thread's event loop, and reports when the loop stood still for a while: a tick that computes too long, a
 * provider that spins, a long garbage collection. It can report only afterwards, because the report needs the same
 * loop. The other side of the thread must notice a loop that never turns again.
 *
 * Invariants:
 * O1 each stall is reported once, with the least time that the loop stood still.
 * O2 the watch keeps no thread and no process alive.
 */
import { LOOP_STALL_MS, LOOP_WATCH_INTERVAL_MS } from '../base/bounds.ts';

/** A watch of an event loop. */
export interface LoopWatch {
  /** Looks now, as the watch does at each interval: the work after a stall may end the watch before its next look. */
  look(): void;
  /** Takes the time until now as used, whatever happened in it. */
  forget(): void;
  end(): void;
}

/** Bounds of a watch, in milliseconds. */
export interface LoopWatchOptions {
  /** By how much a look is late when it reports a stall; default `LOOP_STALL_MS`. */
  readonly stallMs?: number;
  /** Between two looks; default `LOOP_WATCH_INTERVAL_MS`. */
  readonly intervalMs?: number;
}

/**
 * Watches the event loop of the calling thread. `onStall` receives milliseconds, on the same thread, and must not
 * throw.
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
