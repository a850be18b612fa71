/**
 * `ReaderBudget`: bounds the memory that all readers of a process hold, in approximate bytes. The memory is in buffers,
 * pages of the log, and answers that wait for their sockets.
 *
 * Owns: the sum, and the set of readers that hold more than a little. Does not own: the held data. Belongs to the
 * thread that reads.
 *
 * M1 When the sum exceeds the bound, the budget asks readers to give up the data that they hold, the largest holders
 *    first. Among equal holders, the budget first asks the holder that has been large for the longest time. The budget
 *    stops asking when a quarter of the bound is free, or when only small holders are left.
 * M2 Data that many readers share is counted once.
 * M3 A reader that gives up its data loses no durable event: it reads the data again from the log, or it ends so that
 *    its client can resume.
 */
import { READERS_BYTES_MAX } from '../../base/bounds.ts';

/** One reader, as the budget sees it. */
export interface BudgetedReader {
  /** Approximate bytes that the reader holds; a UTF-16 unit of text counts as one byte. */
  readonly held: number;
  /** Drops all data that the reader holds, at once. Must not throw. */
  giveUp(): void;
}

/**
 * A reader that holds at most this many bytes is never asked to give up its data. Most readers hold only one small
 * event for one tick.
 */
const LITTLE_BYTES = 4_096;
/**
 * Share of the bound in use at which the budget stops asking. Without this margin, each further event would exceed the
 * bound again.
 */
const KEPT_SHARE = 0.75;

/** See the head of the file. */
export class ReaderBudget {
  readonly #bytesMax: number;
  /** The readers that hold more than `LITTLE_BYTES`, in the order in which they passed that size. */
  readonly #holders = new Set<BudgetedReader>();
  /** The number of holders of each shared object. */
  readonly #shared = new Map<object, number>();
  #held = 0;
  #isShrinking = false;

  constructor(bytesMax: number = READERS_BYTES_MAX) {
    this.#bytesMax = bytesMax;
  }

  /** Approximate bytes held by all readers. */
  get held(): number {
    return this.#held;
  }

  /**
   * Notes that a reader's bytes changed from `before` to `after`. Its `held` already returns `after`. May ask readers
   * to give up their data, including this reader.
   */
  changed(reader: BudgetedReader, before: number, after: number): void {
    this.#held += after - before;
    this.#note(reader, before, after);
  }

  /** Does the same as `changed` for a reader that now holds an object that other readers may also hold. */
  hold(reader: BudgetedReader, thing: object, bytes: number): void {
    const holders = this.#shared.get(thing) ?? 0;
    this.#shared.set(thing, holders + 1);
    if (holders === 0) this.#held += bytes;
    this.#note(reader, 0, bytes);
  }

  /** Notes that the reader no longer holds an object that was noted by `hold`. */
  release(reader: BudgetedReader, thing: object, bytes: number): void {
    const holders = this.#shared.get(thing) ?? 0;
    if (holders > 1) this.#shared.set(thing, holders - 1);
    else if (this.#shared.delete(thing)) this.#held -= bytes;
    this.#note(reader, bytes, 0);
  }

  #note(reader: BudgetedReader, before: number, after: number): void {
    if (after > LITTLE_BYTES) {
      if (before <= LITTLE_BYTES) this.#holders.add(reader);
    } else if (before > LITTLE_BYTES) this.#holders.delete(reader);
    if (after > before && this.#held > this.#bytesMax) this.#shrink();
  }

  #shrink(): void {
    if (this.#isShrinking) return;
    this.#isShrinking = true;
    try {
      // The sort is stable, so among equal holders the one that has been large for the longest time comes first.
      for (const reader of [...this.#holders].sort((a, b) => b.held - a.held)) {
        if (this.#held <= this.#bytesMax * KEPT_SHARE) break;
        reader.giveUp();
      }
    } finally {
      this.#isShrinking = false;
    }
  }
}

/** The budget of this process. */
export const READERS: ReaderBudget = new ReaderBudget();
