/**
 * What waits for the disk: each item's work is done once everything journalled before it is durable (A2).
 *
 * Owns: the order of items and the one waiter on the journal's gate. Does not own: the journal, what an item does.
 *  Q1 items are released in the order they were added;
 *  Q2 an item is released only after a flush that began after it was added;
 *  Q3 released items share the loop fairly: after `RESUME_BUDGET_MS` the rest wait for the next turn of it;
 *  Q4 an item that throws is told of and stops no other: what is durable is durable.
 */
import { RESUME_BUDGET_MS } from '../base/bounds.ts';
import type { Soon } from '../base/clock.ts';
import { asError } from '../base/errors.ts';

/** One thing that waits. */
export interface CommitItem {
  /** The flush succeeded. */
  release(): void;
  /** The flush failed: nothing of it is durable. Must not throw. */
  refuse(error: Error): void;
}

/** What the queue needs of its owner. None of them may throw. */
export interface CommitPort {
  /** `Journal.flushed`. */
  flushed(): Promise<void>;
  /** A flush failed; runs once, before the items are refused. */
  failed(error: Error): void;
  /** An item threw when it was released. */
  threw(thrown: unknown): void;
  /** Nothing waits any more. */
  emptied(): void;
  /** A later turn of the loop. */
  readonly soon: Soon;
  /** Monotonic ms. */
  monotonic(): number;
}

/** See the head of the file. */
export class CommitQueue {
  readonly #port: CommitPort;
  #waiting: CommitItem[] = [];
  #released: CommitItem[] = [];
  #isFlushing = false;
  #isReleasing = false;

  constructor(port: CommitPort) {
    this.#port = port;
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
        await this.#port.flushed();
      } catch (thrown) {
        this.#refuse(asError(thrown), items);
        continue;
      }
      this.#released.push(...items);
      if (!this.#isReleasing) this.#releaseSome();
    }
    this.#isFlushing = false;
    if (this.isEmpty) this.#port.emptied();
  }

  #refuse(error: Error, items: readonly CommitItem[]): void {
    const late = this.#waiting;
    this.#waiting = [];
    this.#port.failed(error);
    // What was added while the flush was failing is of the same fate: it was journalled behind what failed.
    for (const item of [...items, ...late]) item.refuse(error);
  }

  #releaseSome(): void {
    this.#isReleasing = true;
    const startedAt = this.#port.monotonic();
    let index = 0;
    while (index < this.#released.length) {
      try {
        this.#released[index]?.release();
      } catch (thrown) {
        this.#port.threw(thrown);
      }
      index += 1;
      if ((index & 15) === 0 && this.#port.monotonic() - startedAt > RESUME_BUDGET_MS) break;
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
