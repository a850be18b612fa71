/**
 * A watch over a thread's own event loop: it says so when the loop did not turn for a while (a turn that computes too long, a
 * provider that spins, a long collection). It can only say so afterwards, as the loop is what it speaks with; a loop that
 * never turns again is for the other side of the thread to notice.
 *
 * O1 each stall is told once, with the time the loop stood still at least. O2 the watch keeps no thread and no process alive.
 */
import { LOOP_STALL_MS, LOOP_WATCH_INTERVAL_MS } from '../base/bounds.ts';

/**
 * Watches the loop of the thread it is called on. `onStall` is given milliseconds, on the same thread, and must not throw.
 * Returns what ends the watch.
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
