/**
 * A latch that keeps a thread from being ended in the middle of work that must not be interrupted. Ending a thread
 * stops its script at any point, and no `finally` runs. Resources that the script holds in a native addon then stay
 * open. The addon's clean-up on that thread may wait for them forever, so neither the thread nor the process ends.
 *
 * Owns: two 32-bit words of shared memory. Does not own: the thread, and the work that enters the latch.
 *
 * Invariants:
 *  N1 a thread inside the latch is ended only when it has left, or after a bounded time: `close` waits for that. From
 *     `close` on, every `enter` fails;
 *  N2 the latches of living threads are closed when the process exits: by `process.exit`, by an uncaught error, or
 *     because nothing is left to do. They must be closed first, because an exit ends all threads without notice.
 */
import { isMainThread } from 'node:worker_threads';
import { GATE_CLOSE_MS } from '../base/bounds.ts';

/** Indexes into the memory. */
const STATE = 0;
const CLOSED_BEFORE_END = 1;
const PLACES = 2;

/** States of a latch. */
const OPEN = 0;
const INSIDE = 1;
/** The thread is inside, and the closer waits until it leaves. */
const CLOSING = 2;
const CLOSED = 3;

/**
 * A latch, as the head of the file describes it. The starting thread makes the latch; the started thread makes its own
 * side over the same memory.
 */
export class ExitLatch {
  /** The shared memory, for the other thread. */
  readonly memory: SharedArrayBuffer;
  readonly #places: Int32Array;

  /** `memory`: the memory of a latch that another thread made; missing for a new latch. */
  constructor(memory?: SharedArrayBuffer) {
    this.memory = memory ?? new SharedArrayBuffer(PLACES * Int32Array.BYTES_PER_ELEMENT);
    this.#places = new Int32Array(this.memory);
    // Only the main thread can guarantee that it closes the latch before the thread ends. Any other thread may be ended
    // without notice, and its own threads end with it.
    if (memory === undefined && isMainThread) this.#places[CLOSED_BEFORE_END] = 1;
  }

  /** True if the thread is ended only after the latch is closed. False if the thread may end before that. */
  get isClosedBeforeEnd(): boolean {
    return this.#places[CLOSED_BEFORE_END] === 1;
  }

  /** Enters the latch. Returns false if the thread is about to end. */
  enter(): boolean {
    return Atomics.compareExchange(this.#places, STATE, OPEN, INSIDE) === OPEN;
  }

  /** Leaves the latch. Call it only after `enter` returned true. */
  leave(): void {
    if (Atomics.compareExchange(this.#places, STATE, INSIDE, OPEN) === INSIDE) return;
    Atomics.store(this.#places, STATE, CLOSED);
    Atomics.notify(this.#places, STATE);
  }

  /** Makes every later `enter` fail. Blocks until the thread has left, or for `waitMs`. A second call is harmless. */
  close(waitMs: number = GATE_CLOSE_MS): void {
    const until = performance.now() + waitMs;
    for (;;) {
      const state = Atomics.compareExchange(this.#places, STATE, OPEN, CLOSED);
      if (state === OPEN || state === CLOSED) return;
      // The thread may have left the latch since the state was read.
      if (state === INSIDE && Atomics.compareExchange(this.#places, STATE, INSIDE, CLOSING) !== INSIDE) continue;
      const leftMs = until - performance.now();
      if (leftMs <= 0 || Atomics.wait(this.#places, STATE, CLOSING, leftMs) === 'timed-out') return;
    }
  }
}

const living = new Set<ExitLatch>();

/** Closes a latch when the process exits (N2). Call the returned function once the latch's thread is gone. */
export function closeAtExit(gate: ExitLatch): () => void {
  if (living.size === 0) process.on('exit', closeAll);
  living.add(gate);
  return () => {
    if (living.delete(gate) && living.size === 0) process.off('exit', closeAll);
  };
}

function closeAll(): void {
  const until = performance.now() + GATE_CLOSE_MS;
  for (const gate of living) gate.close(Math.max(0, until - performance.now()));
}
