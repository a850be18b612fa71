/** Calls back at the next frame. */
import { HIDDEN_FLUSH_MS } from '../bounds.ts';

/** Calls `run` once: before the next frame, or a little later when no frame is drawn, as in a hidden tab. */
export function nextFrame(run: () => void): void {
  let isDone = false;
  const once = (): void => {
    if (isDone) return;
    isDone = true;
    clearTimeout(timer);
    cancelAnimationFrame(frame);
    run();
  };
  const timer = setTimeout(once, HIDDEN_FLUSH_MS);
  const frame = requestAnimationFrame(once);
}
