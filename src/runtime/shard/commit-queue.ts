/**
 * The queue of items that wait for the disk. The work of an item runs once everything journalled before the item is
 * durable (A2).
 *
 * Owns: the order of items and the one waiter on the journal's gate. Does not own: the journal, the work of an item.
 *  Q1 items are released in the order in which they were added;
 *  Q2 an item is released only after a flush that began after it was added;
 *  Q3 released items share the event loop fairly: after `RESUME_BUDGET_MS` the rest wait for the next tick;
 *  Q4 an item that throws is reported and stops no other item. Its records are durable anyway;
 *  Q5 an item that no caller waits for is deferrable: it starts no flush. The item waits for the next flush, which
 *     begins at most `FLUSH_PATIENCE_MS` later. So a turn that continues at once costs one flush, not one for each
 *     half-step.
 */
import { FLUSH_PATIENCE_MS, RESUME_BUDGET_MS } from '../../base/bounds.ts';
import type { Clock, Soon } from '../../base/clock.ts';
import { asError } from '../../base/errors.ts';

/** An item of the queue. */
export interface CommitItem {
  /** Called when the flush succeeded. */
  release(): void;
  /** Called when the flush failed, so that the item does not count as durable. Must not throw. */
  refuse(error: Error): void;
}

/** The functions that the queue needs from its owner. None of them may throw. */
export interface CommitPort {
  /** `Journal.flushed`. */
  flushed(): Promise<void>;
  /** Called once when a flush failed, before the items are refused. */
  failed(error: Error): void;
  /** Called when an item threw while it was released. */
  threw(thrown: unknown): void;
  /** Called when the queue is empty. */
  emptied(): void;
  /** Runs work in a later tick. */
  readonly soon: Soon;
  readonly clock: Clock;
}

/** See the head of the file. */
export class CommitQueue {
  readonly #port: CommitPort;
  #waiting: CommitItem[] = [];
  #released: CommitItem[] = [];
  #isFlushing = false;
  #isReleasing = false;
  /** True if a caller waits for one of the waiting items. */
  #isHurried = false;
  /** The timer that runs while all waiting items are deferrable. */
  #patience: unknown;

  constructor(port: CommitPort) {
    this.#port = port;
  }

  /** True if no item waits, is being flushed or is being released. */
  get isEmpty(): boolean {
    return this.#waiting.length === 0 && this.#released.length === 0 && !this.#isFlushing;
  }

  /** Adds an item. `isDeferrable`: true if no caller waits for the item (Q5). */
  add(item: CommitItem, isDeferrable = false): void {
    this.#waiting.push(item);
    if (!isDeferrable) this.#isHurried = true;
    this.#begin();
  }

  /** Starts a flush for all items that wait now, deferrable ones included. */
  hurry(): void {
    if (this.#waiting.length === 0) return;
    this.#isHurried = true;
    this.#begin();
  }

  /** Begins a flush, or sets the timer for one. Does nothing during a flush: its end checks the queue again. */
  #begin(): void {
    if (this.#isFlushing) return;
    if (!this.#isHurried) {
      this.#patience ??= this.#port.clock.setTimer(this.#outOfPatience, FLUSH_PATIENCE_MS);
      return;
    }
    if (this.#patience !== undefined) this.#port.clock.clearTimer(this.#patience);
    this.#patience = undefined;
    this.#isFlushing = true;
    // The flush begins in a microtask, so that other items added in this tick share it.
    queueMicrotask(() => void this.#flush());
  }

  #outOfPatience = (): void => {
    this.#patience = undefined;
    this.hurry();
  };

  async #flush(): Promise<void> {
    while (this.#isHurried) {
      const items = this.#waiting;
      this.#waiting = [];
      this.#isHurried = false;
      try {
        await this.#port.flushed();
      } catch (thrown) {
        this.#refuse(asError(thrown), items);
        continue;
      }
      this.#released.push(...items);
      if (!this.#isReleasing) this.#releaseSome();
    }
    this.#isFlushing = false;
    if (this.#waiting.length > 0) this.#begin();
    if (this.isEmpty) this.#port.emptied();
  }

  #refuse(error: Error, items: readonly CommitItem[]): void {
    const late = this.#waiting;
    this.#waiting = [];
    this.#isHurried = false;
    this.#port.failed(error);
    // Items added during the failing flush fail too, because they were journalled after the records that failed.
    for (const item of [...items, ...late]) item.refuse(error);
  }

  #releaseSome(): void {
    this.#isReleasing = true;
    const startedAt = this.#port.clock.monotonic();
    let index = 0;
    while (index < this.#released.length) {
      try {
        this.#released[index]?.release();
      } catch (thrown) {
        this.#port.threw(thrown);
      }
      index += 1;
      if ((index & 15) === 0 && this.#port.clock.monotonic() - startedAt > RESUME_BUDGET_MS) break;
    }
    this.#released.splice(0, index);
    if (this.#released.length > 0) {
      this.#port.soon(() => this.#releaseSome());
      return;
    }
    this.#isReleasing = false;
    if (this.isEmpty) this.#port.emptied();
  }
}
