/**
 * What waits for the disk: each item's work is done once everything journalled before it is durable (A2).
 *
 * Owns: the order of items and the one waiter on the journal's gate. Does not own: the journal, what an item does.
 *  Q1 items are released in the order they were added;
 *  Q2 an item is released only after a flush that began after it was added;
 *  Q3 released items share the loop fairly: after `RESUME_BUDGET_MS` the rest wait for the next turn of it;
 *  Q4 an item that throws is told of and stops no other: what is durable is durable;
 *  Q5 an item that nobody waits for starts no flush of its own: it rides the next one, which begins `PATIENCE_MS` later at the
 *     latest, so that a turn that goes on at once costs one flush and not one a step.
 */
import { PATIENCE_MS, RESUME_BUDGET_MS } from '../../base/bounds.ts';
import type { Clock, Soon } from '../../base/clock.ts';
import { asError } from '../../base/errors.ts';

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
  readonly clock: Clock;
}

/** See the head of the file. */
export class CommitQueue {
  readonly #port: CommitPort;
  #waiting: CommitItem[] = [];
  #released: CommitItem[] = [];
  #isFlushing = false;
  #isReleasing = false;
  /** Somebody waits for one of those that wait. */
  #isHurried = false;
  /** Runs while there are items, and none that somebody waits for. */
  #patience: unknown;

  constructor(port: CommitPort) {
    this.#port = port;
  }

  /** Nothing waits and nothing is being released. */
  get isEmpty(): boolean {
    return this.#waiting.length === 0 && this.#released.length === 0 && !this.#isFlushing;
  }

  /** `isPatient`: nobody waits for it (Q5). */
  add(item: CommitItem, isPatient = false): void {
    this.#waiting.push(item);
    if (!isPatient) this.#isHurried = true;
    this.#begin();
  }

  /** Lets nobody be patient who waits now. */
  hurry(): void {
    if (this.#waiting.length === 0) return;
    this.#isHurried = true;
    this.#begin();
  }

  /** Begins a flush, or waits for one to be due; nothing where one is under way, which looks again behind itself. */
  #begin(): void {
    if (this.#isFlushing) return;
    if (!this.#isHurried) {
      this.#patience ??= this.#port.clock.setTimer(this.#outOfPatience, PATIENCE_MS);
      return;
    }
    if (this.#patience !== undefined) this.#port.clock.clearTimer(this.#patience);
    this.#patience = undefined;
    this.#isFlushing = true;
    // A microtask: what else happens in this turn of the loop rides the same flush.
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
    // What was added while the flush was failing is of the same fate: it was journalled behind what failed.
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
