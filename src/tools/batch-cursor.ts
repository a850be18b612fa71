/**
 * Counts how far a thread is with the calls it was handed, in memory that both sides share. The thread claims the calls
 * one by one. The pool takes back unclaimed calls without asking the thread, since a thread in a busy loop would not
 * answer and a killed one cannot.
 *
 * Owns: the line between calls that have begun and calls that have not. Does not own: the calls, their results.
 *
 * C1 A call is either claimed by the thread or taken back by the pool, never both, and only once.
 * C2 Calls are claimed from the first on and taken back from the last on.
 */
import { strict as assert } from 'node:assert';

/**
 * The most calls of one batch. The cursor's two numbers share one 32-bit word, so that one atomic operation can change
 * either.
 */
export const BATCH_CALLS_MAX = 64;

const HALF_BITS = 16;
const LOW_HALF = 0xffff;

/** See the head of the file. */
export class BatchCursor {
  /** The memory that is sent to the thread, which makes its own cursor from it. */
  readonly memory: SharedArrayBuffer;
  /** The number of claimed calls in the low half, the number of calls not taken back in the high half. */
  readonly #word: Int32Array;

  constructor(memory: SharedArrayBuffer) {
    this.memory = memory;
    this.#word = new Int32Array(memory);
  }

  /** A cursor before the first of `calls` calls. */
  static before(calls: number): BatchCursor {
    assert(calls > 0 && calls <= BATCH_CALLS_MAX, 'a batch has at least one call, and a bound');
    const cursor = new BatchCursor(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    Atomics.store(cursor.#word, 0, calls << HALF_BITS);
    return cursor;
  }

  /** The number of calls claimed so far. */
  get claimed(): number {
    return Atomics.load(this.#word, 0) & LOW_HALF;
  }

  /** The number of calls that were not taken back, claimed or not. */
  get end(): number {
    return Atomics.load(this.#word, 0) >>> HALF_BITS;
  }

  /** Begins the next call and returns its index; `undefined` when there is none. */
  claim(): number | undefined {
    for (;;) {
      const word = Atomics.load(this.#word, 0);
      const next = word & LOW_HALF;
      if (next >= word >>> HALF_BITS) return undefined;
      if (Atomics.compareExchange(this.#word, 0, word, word + 1) === word) return next;
    }
  }

  /**
   * Takes back the unclaimed calls from index `from` on, for the pool. Returns the index of the first one taken back.
   */
  takeBack(from: number): number {
    for (;;) {
      const word = Atomics.load(this.#word, 0);
      const claimed = word & LOW_HALF;
      const end = Math.min(Math.max(from, claimed), word >>> HALF_BITS);
      if (Atomics.compareExchange(this.#word, 0, word, (end << HALF_BITS) | claimed) === word) return end;
    }
  }
}
