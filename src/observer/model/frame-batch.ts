/**
 * Gathers what comes fast and hands it on once a frame.
 *
 * Owns: what waits. Does not own: when a frame is (`schedule`).
 *  B1  Items are handed on in the order they came, each once, in one call a frame.
 *  B2  At most `itemsMax` wait; beyond it the oldest are given up, and the next call says how many.
 */

/** A batch between one producer and one consumer. */
export interface FrameBatch<T> {
  add(item: T): void;
  /** Hands on what waits, at once. */
  flush(): void;
}

/**
 * A batch. `schedule` calls back once, later; `take` gets the items of a frame, oldest first, and the number of those given up
 * before them.
 */
export function frameBatch<T>(options: {
  readonly itemsMax: number;
  readonly schedule: (run: () => void) => void;
  readonly take: (items: readonly T[], lost: number) => void;
}): FrameBatch<T> {
  let waiting: T[] = [];
  let lost = 0;
  let isScheduled = false;
  const flush = (): void => {
    isScheduled = false;
    if (waiting.length === 0) return;
    const items = waiting;
    const before = lost;
    waiting = [];
    lost = 0;
    options.take(items, before);
  };
  return {
    flush,
    add(item) {
      waiting.push(item);
      if (waiting.length > options.itemsMax) {
        // Half at once: giving up one for each that comes would move all the others each time.
        const surplus = Math.ceil(options.itemsMax / 2);
        waiting = waiting.slice(surplus);
        lost += surplus;
      }
      if (isScheduled) return;
      isScheduled = true;
      options.schedule(flush);
    },
  };
}
