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

/**
 * Watches the event loop of the calling thread. `onStall` receives milliseconds, on the same thread, and must not
 * throw. Returns a function that ends the watch.
 */
export function watchLoop(onStall: (ms: number) => void): () => void {
  let dueAt = performance.now() + LOOP_WATCH_INTERVAL_MS;
  const timer = setInterval(() => {
    const now = performance.now();
    const lateMs = now - dueAt;
    dueAt = now + LOOP_WATCH_INTERVAL_MS;
    if (lateMs >= LOOP_STALL_MS) onStall(Math.round(lateMs));
  }, LOOP_WATCH_INTERVAL_MS);
  timer.unref();
  return () => clearInterval(timer);
}
