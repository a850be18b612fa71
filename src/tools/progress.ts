/**
 * Limits the rate of progress updates, so that subscribers can follow. A newer update replaces an update that has not
 * been sent yet.
 */
import { PROGRESS_COALESCE_MS } from '../base/bounds.ts';
import type { Clock } from '../base/clock.ts';

/** Takes progress updates and their end. */
export interface ProgressPublisher {
  readonly publish: (data: unknown) => void;
  /** Sends the held update and nothing more. */
  readonly end: () => void;
}

/**
 * Limits the rate of updates. The first update is sent at once. Then the newest update is sent, at most every
 * `PROGRESS_COALESCE_MS`. The last update is sent before the end.
 */
export function coalesceProgress(send: (data: unknown) => void, clock: Clock): ProgressPublisher {
  let timer: unknown;
  let held: { readonly data: unknown } | undefined;
  let open = true;
  const flush = (): void => {
    timer = undefined;
    if (held === undefined) return;
    send(held.data);
    held = undefined;
    timer = clock.setTimer(flush, PROGRESS_COALESCE_MS);
  };
  return {
    publish: (data) => {
      if (!open) return;
      held = { data };
      if (timer === undefined) flush();
    },
    end: () => {
      open = false;
      if (timer !== undefined) clock.clearTimer(timer);
      if (held !== undefined) send(held.data);
      held = undefined;
    },
  };
}
