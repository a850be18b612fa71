/**
 * How far a thread is with the calls it was handed, in memory that both sides see. The thread claims them one by one; the pool
 * takes back what is not claimed, without asking: a thread that spins would not answer, one that is killed cannot.
 *
 * Owns: the line between calls that have begun and calls that have not. Does not own: the calls, their results.
 *
 * C1 a call is claimed by the thread or taken back by the pool, never both, and once.
 * C2 calls are claimed from the first on and taken back from the last on.
 */
import { strict as assert } from 'node:assert';

/** Calls of one batch at most: both numbers of the cursor share one word, so that one atomic step moves either. */
export const BATCH_CALLS_MAX = 64;

const HALF_BITS = 16;
const LOW_HALF = 0xffff;

/** See the head of the file. */
export class BatchCursor {
  /** What crosses to the thread, which makes its own cursor of it. */
  readonly memory: SharedArrayBuffer;
  /** The calls claimed in the low half, the calls not taken back in the high one. */
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

  /** Calls claimed so far. */
  get claimed(): number {
    return Atomics.load(this.#word, 0) & LOW_HALF;
  }

  /** Calls that were not taken back, claimed or not. */
  get end(): number {
    return Atomics.load(this.#word, 0) >>> HALF_BITS;
  }

  /** The thread's side: the index of the next call, which is now begun; `undefined` when there is none. */
  claim(): number | undefined {
    for (;;) {
      const word = Atomics.load(this.#word, 0);
      const next = word & LOW_HALF;
      if (next >= word >>> HALF_BITS) return undefined;
      if (Atomics.compareExchange(this.#word, 0, word, word + 1) === word) return next;
    }
  }

  /** The pool's side: takes back the calls from `from` on that are not claimed. Returns the index of the first taken back. */
  takeBack(from: number): number {
    for (;;) {
      const word = Atomics.load(this.#word, 0);
      const claimed = word & LOW_HALF;
      const end = Math.min(Math.max(from, claimed), word >>> HALF_BITS);
      if (Atomics.compareExchange(this.#word, 0, word, (end << HALF_BITS) | claimed) === word) return end;
    }
  }
}
