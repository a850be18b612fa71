/**
 * The memory that all readers of a process hold, in approximate bytes: buffers, pages of the log, answers their sockets have not taken.
 *
 * Owns: the sum, and who holds more than a little. Does not own: what is held. Belongs to the thread that reads.
 *
 *  M1  Whenever the sum passes the bound, readers give up what they hold, those that hold the most first and of these the one that
 *      held it longest, until a quarter of the bound is free or nobody holds more than a little.
 *  M2  What many readers share is counted once.
 *  M3  A reader that gives up loses nothing durable: it reads it again from the log, or ends where its client can resume.
 */
import { READERS_BYTES_MAX } from '../../base/bounds.ts';

/** One reader, as the budget knows it. */
export interface BudgetedReader {
  /** Approximate bytes it holds. */
  readonly held: number;
  /** Lets go of all of it, at once. Must not throw. */
  giveUp(): void;
}

/** Bytes below which a reader is not asked to give up: most hold one small event for the length of a tick. */
const LITTLE_BYTES = 4_096;
/** Part of the bound that is in use when readers stop giving up: without it each further event would look for the next one. */
const KEPT_SHARE = 0.75;

/** See the head of the file. */
export class ReaderBudget {
  readonly #bytesMax: number;
  /** Those that hold more than a little, the one that has done so longest first. */
  readonly #holders = new Set<BudgetedReader>();
  /** How often a shared thing is held. */
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

  /** What a reader holds went from `before` to `after`, the `held` it shows now. May ask readers to give up, this one too. */
  changed(reader: BudgetedReader, before: number, after: number): void {
    this.#held += after - before;
    this.#note(reader, before, after);
  }

  /** The same for a reader that took hold of something others may hold as well. */
  hold(reader: BudgetedReader, thing: object, bytes: number): void {
    const holders = this.#shared.get(thing) ?? 0;
    this.#shared.set(thing, holders + 1);
    if (holders === 0) this.#held += bytes;
    this.#note(reader, 0, bytes);
  }

  /** The reader let go of what it held by `hold`. */
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
      // The sort is stable: of equals the one that held longest is first.
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
