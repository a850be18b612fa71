/**
 * Collects frequent items and hands them over once per frame.
 *
 * Owns: the waiting items. Does not own: the times of frames (`schedule`).
 *  B1 Items are handed over in order of arrival, each once, in one call per frame.
 *  B2 At most `itemsMax` items wait. Beyond this number the oldest items are dropped, and the next call reports how
 *     many.
 */

/** A batch between one producer and one consumer. */
export interface FrameBatch<T> {
  add(item: T): void;
  /** Hands over the waiting items at once. */
  flush(): void;
}

/**
 * Creates a batch. `schedule` must call `run` once, later. `take` receives the items of a frame, oldest first, and the
 * number of items that were dropped before them.
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
        // Half of the items are dropped at once, because dropping one item per new item would move all other items each
        // time.
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
