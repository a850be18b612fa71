/**
 * A gate between a thread, some of whose work must not be interrupted, and the thread that ends it. A thread that is
 * ended loses its script at any point, and no `finally` runs. An addon keeps the resources it holds open for that
 * script. The addon's own clean-up on that thread may then wait for them forever: neither the thread nor the process
 * ends.
 *
 * Owns: one 32-bit word of shared memory. Does not own: the thread, the work inside the gate.
 *
 * Invariants:
 *  N1 inside and closed exclude each other: `close` waits for a bounded time until the thread has left, and every later
 *     `enter` fails;
 *  N2 the gates of living threads are closed when the process exits: by `process.exit`, by an uncaught error, or
 *     because nothing is left to do. The process then ends all its threads without notice.
 */
import { isMainThread } from 'node:worker_threads';
import { GATE_CLOSE_MS } from '../base/bounds.ts';

/** Indexes into the memory. */
const STATE = 0;
const CLOSED_BEFORE_END = 1;
const PLACES = 2;

/** States of a gate. */
const OPEN = 0;
const INSIDE = 1;
/** The thread is inside, and the closer waits until it leaves. */
const CLOSING = 2;
const CLOSED = 3;

/**
 * See the head of the file. The thread that starts the other one makes the gate; the other makes its own side over the
 * same memory.
 */
export class ExitLatch {
  /** The shared memory, for the other thread. */
  readonly memory: SharedArrayBuffer;
  readonly #places: Int32Array;

  /** `memory`: the memory of a gate that another thread made; missing for a new gate. */
  constructor(memory?: SharedArrayBuffer) {
    this.memory = memory ?? new SharedArrayBuffer(PLACES * Int32Array.BYTES_PER_ELEMENT);
    this.#places = new Int32Array(this.memory);
    // A thread other than the main one may be ended by the thread that started it, together with the threads below it,
    // without notice.
    if (memory === undefined && isMainThread) this.#places[CLOSED_BEFORE_END] = 1;
  }

  /** True if the thread is ended only after the gate is closed. False if it may also end without that. */
  get isClosedBeforeEnd(): boolean {
    return this.#places[CLOSED_BEFORE_END] === 1;
  }

  /** Enters the gate. Returns false if the thread is about to end. */
  enter(): boolean {
    return Atomics.compareExchange(this.#places, STATE, OPEN, INSIDE) === OPEN;
  }

  /** Leaves the gate. Call it only after `enter` returned true. */
  leave(): void {
    if (Atomics.compareExchange(this.#places, STATE, INSIDE, OPEN) === INSIDE) return;
    Atomics.store(this.#places, STATE, CLOSED);
    Atomics.notify(this.#places, STATE);
  }

  /** Makes every later `enter` fail; blocks until the thread has left, or for `waitMs`. A second call is harmless. */
  close(waitMs: number = GATE_CLOSE_MS): void {
    const until = performance.now() + waitMs;
    for (;;) {
      const state = Atomics.compareExchange(this.#places, STATE, OPEN, CLOSED);
      if (state === OPEN || state === CLOSED) return;
      // The thread may have left the gate since the state was read.
      if (state === INSIDE && Atomics.compareExchange(this.#places, STATE, INSIDE, CLOSING) !== INSIDE) continue;
      const leftMs = until - performance.now();
      if (leftMs <= 0 || Atomics.wait(this.#places, STATE, CLOSING, leftMs) === 'timed-out') return;
    }
  }
}

const living = new Set<ExitLatch>();

/** Closes a gate when the process exits (N2). Returns a function to call once its thread is gone. */
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
