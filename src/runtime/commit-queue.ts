/**
 * What waits for the disk: each item's work is done once everything journalled before it is durable (A2).
 *
 * Owns: the order of items and the one waiter on the journal's gate. Does not own: the journal, what an item does.
 *  Q1 items are released in the order they were added;
 *  Q2 an item is released only after a flush that began after it was added;
 *  Q3 released items share the loop fairly: after `RESUME_BUDGET_MS` the rest wait for the next turn of it.
 */
import { RESUME_BUDGET_MS } from '../base/bounds.ts';
import { asError } from '../base/errors.ts';

/** One thing that waits. */
export interface CommitItem {
  /** The flush succeeded. Must not throw. */
  release(): void;
  /** The flush failed: nothing of it is durable. Must not throw. */
  refuse(error: Error): void;
}

/** See the head of the file. */
export class CommitQueue {
  readonly #flushed: () => Promise<void>;
  readonly #onFailure: (error: Error) => void;
  #waiting: CommitItem[] = [];
  #released: CommitItem[] = [];
  #isFlushing = false;
  #isReleasing = false;

  /** `onFailure` runs once a failed flush, before the items are refused. */
  constructor(flushed: () => Promise<void>, onFailure: (error: Error) => void) {
    this.#flushed = flushed;
    this.#onFailure = onFailure;
  }

  /** Nothing waits and nothing is being released. */
  get isEmpty(): boolean {
    return this.#waiting.length === 0 && this.#released.length === 0 && !this.#isFlushing;
  }

  add(item: CommitItem): void {
    this.#waiting.push(item);
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    // A microtask: what else happens in this turn of the loop rides the same flush.
    queueMicrotask(() => void this.#flush());
  }

  async #flush(): Promise<void> {
    while (this.#waiting.length > 0) {
      const items = this.#waiting;
      this.#waiting = [];
      try {
        await this.#flushed();
        this.#released.push(...items);
        this.#release();
      } catch (thrown) {
        const error = asError(thrown);
        const late = this.#waiting;
        this.#waiting = [];
        this.#onFailure(error);
        // What was added while the flush was failing is of the same fate: it was journalled behind what failed.
        for (const item of [...items, ...late]) item.refuse(error);
      }
    }
    this.#isFlushing = false;
  }

  #release(): void {
    if (this.#isReleasing) return;
    this.#isReleasing = true;
    this.#releaseSome();
  }

  #releaseSome(): void {
    const startedAt = performance.now();
    let index = 0;
    while (index < this.#released.length) {
      this.#released[index]?.release();
      index += 1;
      if ((index & 15) === 0 && performance.now() - startedAt > RESUME_BUDGET_MS) break;
    }
    this.#released.splice(0, index);
    if (this.#released.length === 0) {
      this.#isReleasing = false;
      return;
    }
    setImmediate(() => this.#releaseSome());
  }
}
