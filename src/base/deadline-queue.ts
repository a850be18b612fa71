/**
 * Many deadlines on one timer. Most work ends long before its deadline, and a timer for each would cost more than the
 * work.
 *
 * Owns: the waiting deadlines, in a heap, and the one timer. Does not own: the action at a deadline.
 *
 * Invariants:
 * - D1 `onDue` receives an item at most once, never before its time, and never after it was removed.
 * - D2 Items due together come in the order of their deadlines, equal ones in the order they were added.
 * - D3 No timer runs while no deadline waits. While deadlines wait, the timer may be set for a removed deadline; it
 *   then fires without effect and is set again. So `add` sets the timer only for a new earliest deadline, and `remove`
 *   clears it only with the last deadline.
 */
import type { Clock } from './clock.ts';

/** A waiting deadline, for `remove`. */
export interface Deadline<T> {
  readonly item: T;
  /** Monotonic ms at which the item is due. */
  readonly at: number;
  /** The number of this item among all items ever added. */
  readonly order: number;
  /** Index in the heap; -1 once the item has left the heap. Only the queue writes it. */
  place: number;
}

/** See the head of the file. */
export class DeadlineQueue<T> {
  readonly #clock: Clock;
  readonly #onDue: (item: T) => void;
  /** A binary heap: no deadline is earlier than the deadline at half its index. */
  readonly #heap: Deadline<T>[] = [];
  #added = 0;
  #timer: unknown;
  #timerAt: number = Number.POSITIVE_INFINITY;

  /**
   * `onDue` receives each item at its deadline, from a timer of `clock`. `onDue` may add and remove items, and must not
   * throw.
   */
  constructor(clock: Clock, onDue: (item: T) => void) {
    this.#clock = clock;
    this.#onDue = onDue;
  }

  /** The number of waiting deadlines. */
  get size(): number {
    return this.#heap.length;
  }

  /** Adds a deadline `delayMs` after `now`, which is the clock's monotonic time. */
  add(item: T, now: number, delayMs: number): Deadline<T> {
    const at = now + delayMs;
    this.#added += 1;
    const deadline: Deadline<T> = { item, at, order: this.#added, place: this.#heap.length };
    this.#heap.push(deadline);
    this.#rise(deadline);
    if (at < this.#timerAt) this.#setTimer(at, delayMs);
    return deadline;
  }

  /** Removes a deadline. Does nothing if the deadline came due or was removed before. */
  remove(deadline: Deadline<T>): void {
    if (deadline.place < 0) return;
    this.#takeOut(deadline);
    if (this.#heap.length === 0) this.#clearTimer();
  }

  #onTimer = (): void => {
    this.#timer = undefined;
    this.#timerAt = Number.POSITIVE_INFINITY;
    const now = this.#clock.monotonic();
    for (let first = this.#heap[0]; first !== undefined && first.at <= now; first = this.#heap[0]) {
      this.#takeOut(first);
      this.#onDue(first.item);
    }
    const next = this.#heap[0];
    if (next === undefined) this.#clearTimer();
    else if (next.at < this.#timerAt) this.#setTimer(next.at, next.at - now);
  };

  #setTimer(at: number, delayMs: number): void {
    this.#clearTimer();
    this.#timerAt = at;
    // The delay is at least one whole millisecond: timers cut fractions off and would repeatedly fire too early.
    this.#timer = this.#clock.setTimer(this.#onTimer, Math.max(1, Math.ceil(delayMs)));
  }

  #clearTimer(): void {
    if (this.#timer === undefined) return;
    this.#clock.clearTimer(this.#timer);
    this.#timer = undefined;
    this.#timerAt = Number.POSITIVE_INFINITY;
  }

  /** Removes an item from the heap. The last item moves to the free index, and rises or sinks from there. */
  #takeOut(deadline: Deadline<T>): void {
    const last = this.#heap.pop();
    if (last !== undefined && last !== deadline) {
      last.place = deadline.place;
      this.#heap[last.place] = last;
      this.#rise(last);
      this.#sink(last);
    }
    deadline.place = -1;
  }

  #rise(deadline: Deadline<T>): void {
    let place = deadline.place;
    while (place > 0) {
      const half = (place - 1) >>> 1;
      const above = this.#heap[half];
      if (above === undefined || !isBefore(deadline, above)) break;
      this.#put(above, place);
      place = half;
    }
    this.#put(deadline, place);
  }

  #sink(deadline: Deadline<T>): void {
    let place = deadline.place;
    for (;;) {
      const left = this.#heap[2 * place + 1];
      const right = this.#heap[2 * place + 2];
      const below = left !== undefined && right !== undefined && isBefore(right, left) ? right : left;
      if (below === undefined || !isBefore(below, deadline)) break;
      const free = below.place;
      this.#put(below, place);
      place = free;
    }
    this.#put(deadline, place);
  }

  #put(deadline: Deadline<T>, place: number): void {
    this.#heap[place] = deadline;
    deadline.place = place;
  }
}

function isBefore(one: Deadline<unknown>, other: Deadline<unknown>): boolean {
  return one.at < other.at || (one.at === other.at && one.order < other.order);
}
