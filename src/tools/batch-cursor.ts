/**
 * Shows how far a thread is with the calls that its pool handed to it. Pool and thread share the memory. The thread
 * claims the calls one by one and marks the state of each. The pool takes back unclaimed calls and reads the marks
 * without asking the thread. A thread whose event loop is blocked would not answer, and a killed thread cannot answer.
 *
 * Owns: which calls have begun, and the marks. Does not own: the calls, their results.
 *
 * C1 A call is either claimed by the thread or taken back by the pool, never both, and only once.
 * C2 Calls are claimed from the first to the last, and taken back from the last to the first.
 * C3 The thread writes the marks, and the pool reads them. The pool writes only what it takes back (C2), and its wish
 *    for a note: a message from the thread once every call has begun. If calls are left to begin when the pool writes
 *    the wish, the thread sees the wish after it has begun the last call.
 */
import { strict as assert } from 'node:assert';

/**
 * The most calls of one batch. The number equals `TOOL_CONCURRENCY`, the calls of one tool that a thread runs at a
 * time. It must fit into half a cell of the cursor, which is 16 bits.
 */
export const BATCH_CALLS_MAX = 64;

/**
 * The state of one call. `ms`: milliseconds from the handover of the batch to the beginning of the state. `order`: 1
 * for the call that ended first.
 */
export type CallMark =
  | { readonly state: 'unbegun' }
  | { readonly state: 'loading' | 'running'; readonly ms: number }
  | { readonly state: 'ended'; readonly order: number };

const HALF_BITS = 16;
const LOW_HALF = 0xffff;

/**
 * The cells of the memory. The first four are the claims, the call that holds the thread's event loop, the pool's wish,
 * and the mark that the thread takes no further batch. Then two cells follow for each call.
 */
const CLAIMS = 0;
const HOLDER = 1;
const WISH = 2;
const OVER = 3;
const CALLS = 4;
const CELLS_OF_A_CALL = 2;

/**
 * The first cell of a call is 0 before the call begins. It is a negative time while the call's module loads, and a
 * positive time while the tool runs. After the call's end it is below `-ENDED`, and gives the order of the end. The
 * second cell is 1 once the call's signal was aborted.
 */
const ENDED = 2 ** 30;
/** The latest time that a mark can carry, about twelve days. A later beginning is marked with this time. */
const MARK_MS_MAX: number = ENDED - 2;

/** See the head of the file. */
export class BatchCursor {
  /** The memory that is sent to the thread, which makes its own cursor from it. */
  readonly memory: SharedArrayBuffer;
  /**
   * The cells. The low half of the first cell is the number of claimed calls. The high half is the number of calls that
   * were not taken back. Both are in one cell, so that one atomic operation can compare both and change one of them
   * (C1).
   */
  readonly #cells: Int32Array;

  constructor(memory: SharedArrayBuffer) {
    this.memory = memory;
    this.#cells = new Int32Array(memory);
  }

  /** A cursor before the first of `calls` calls. */
  static before(calls: number): BatchCursor {
    assert(calls > 0 && calls <= BATCH_CALLS_MAX, 'a batch has at least one call, and a bound');
    const cells = CALLS + calls * CELLS_OF_A_CALL;
    const cursor = new BatchCursor(new SharedArrayBuffer(cells * Int32Array.BYTES_PER_ELEMENT));
    Atomics.store(cursor.#cells, CLAIMS, calls << HALF_BITS);
    return cursor;
  }

  /** The number of calls claimed so far. */
  get claimed(): number {
    return Atomics.load(this.#cells, CLAIMS) & LOW_HALF;
  }

  /** The number of calls that were not taken back, claimed or not. */
  get end(): number {
    return Atomics.load(this.#cells, CLAIMS) >>> HALF_BITS;
  }

  /**
   * True if the thread has begun every call that was not taken back, and none of these calls holds the thread's loop.
   */
  get isLoopFree(): boolean {
    return this.claimed >= this.end && Atomics.load(this.#cells, HOLDER) === 0;
  }

  /** The index of the call that is known to hold the thread's loop. */
  get holder(): number | undefined {
    const held = Atomics.load(this.#cells, HOLDER);
    return held === 0 ? undefined : held - 1;
  }

  /** Begins the next call and returns its index; `undefined` when there is none. */
  claim(): number | undefined {
    for (;;) {
      const word = Atomics.load(this.#cells, CLAIMS);
      const next = word & LOW_HALF;
      if (next >= word >>> HALF_BITS) return undefined;
      if (Atomics.compareExchange(this.#cells, CLAIMS, word, word + 1) === word) return next;
    }
  }

  /**
   * Takes back the unclaimed calls from index `from` on, for the pool. Returns the index of the first call that was
   * taken back.
   */
  takeBack(from: number): number {
    for (;;) {
      const word = Atomics.load(this.#cells, CLAIMS);
      const claimed = word & LOW_HALF;
      const end = Math.min(Math.max(from, claimed), word >>> HALF_BITS);
      if (Atomics.compareExchange(this.#cells, CLAIMS, word, (end << HALF_BITS) | claimed) === word) return end;
    }
  }

  /** Marks that a call waits for its module, since `ms` after the handover. */
  markLoading(at: number, ms: number): void {
    Atomics.store(this.#cells, cellOf(at), -markOf(ms));
  }

  /** Marks that a call's tool runs, since `ms` after the handover. */
  markRunning(at: number, ms: number): void {
    Atomics.store(this.#cells, cellOf(at), markOf(ms));
  }

  /** Marks that a call has ended, as the `order`th of the batch, from 1. */
  markEnded(at: number, order: number): void {
    Atomics.store(this.#cells, cellOf(at), -ENDED - order);
  }

  /** The state of a call. */
  markOf(at: number): CallMark {
    const cell = Atomics.load(this.#cells, cellOf(at));
    if (cell === 0) return { state: 'unbegun' };
    if (cell < -ENDED) return { state: 'ended', order: -ENDED - cell };
    return cell < 0 ? { state: 'loading', ms: -cell - 1 } : { state: 'running', ms: cell - 1 };
  }

  /** The order of a call's end, from 1; 0 before its end. */
  endOf(at: number): number {
    return Math.max(0, -ENDED - Atomics.load(this.#cells, cellOf(at)));
  }

  /** Marks that a call holds the loop. Until it releases the loop, no other call of the thread can run. */
  hold(at: number): void {
    Atomics.store(this.#cells, HOLDER, at + 1);
  }

  /** Marks that the loop is free. */
  letGo(): void {
    Atomics.store(this.#cells, HOLDER, 0);
  }

  /** Marks that the thread takes no further batch, because every call has ended. */
  markOver(): void {
    Atomics.store(this.#cells, OVER, 1);
  }

  /** True if the thread takes no further batch. */
  get isOver(): boolean {
    return Atomics.load(this.#cells, OVER) === 1;
  }

  /** Marks that a call's signal was aborted. The mark shows that the thread's loop answers. */
  markAborted(at: number): void {
    Atomics.store(this.#cells, cellOf(at) + 1, 1);
  }

  /** True if a call's signal was aborted. */
  isAborted(at: number): boolean {
    return Atomics.load(this.#cells, cellOf(at) + 1) === 1;
  }

  /** Records the pool's wish for a note once the thread has begun every call. */
  wish(): void {
    Atomics.store(this.#cells, WISH, 1);
  }

  /** True if the pool wishes for a note. Clears the wish. */
  takeWish(): boolean {
    return Atomics.exchange(this.#cells, WISH, 0) === 1;
  }
}

function cellOf(at: number): number {
  return CALLS + at * CELLS_OF_A_CALL;
}

function markOf(ms: number): number {
  return 1 + Math.min(MARK_MS_MAX, Math.max(0, Math.round(ms)));
}
