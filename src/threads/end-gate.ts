/**
 * A gate between a thread that now and then does what must not be torn, and whoever ends the thread. A thread that is ended loses
 * its script wherever it stands, no `finally` runs; what an addon holds open for that script stays held, and the addon's own
 * clean-up on that thread may then wait for it for ever: neither the thread nor the process ends.
 *
 * Owns: a word of shared memory. Does not own: the thread, what is done inside.
 *
 *  N1 inside and closed exclude each other: `close` waits for whoever is inside, for a bounded time, and lets nobody in again;
 *  N2 the gates of living threads are closed when the process exits by `process.exit`, an error that nobody catches, or because
 *     nothing is left to do: the process ends all its threads then, and asks nobody.
 */
import { isMainThread } from 'node:worker_threads';
import { GATE_CLOSE_MS } from '../base/bounds.ts';

/** Places of the memory. */
const STATE = 0;
const TOLD = 1;
const PLACES = 2;

/** States of a gate. */
const OPEN = 0;
const INSIDE = 1;
/** Somebody is inside, and somebody waits for his leaving. */
const CLOSING = 2;
const CLOSED = 3;

/** See the head of the file. Made by the thread that starts the other one, which makes its own side over the same memory. */
export class EndGate {
  /** For the other thread. */
  readonly memory: SharedArrayBuffer;
  readonly #places: Int32Array;

  /** `memory`: that of a gate which was made on another thread. */
  constructor(memory?: SharedArrayBuffer) {
    this.memory = memory ?? new SharedArrayBuffer(PLACES * Int32Array.BYTES_PER_ELEMENT);
    this.#places = new Int32Array(this.memory);
    // A thread that is not the main one may be ended by whoever started it, and the threads below it with it, all unasked.
    if (memory === undefined && isMainThread) this.#places[TOLD] = 1;
  }

  /** Whoever ends the thread closes the gate first. False: it may also be ended unasked. */
  get isTold(): boolean {
    return this.#places[TOLD] === 1;
  }

  /** Goes inside. False: the thread is about to end. */
  enter(): boolean {
    return Atomics.compareExchange(this.#places, STATE, OPEN, INSIDE) === OPEN;
  }

  /** Leaves; only after an `enter` that was let in. */
  leave(): void {
    if (Atomics.compareExchange(this.#places, STATE, INSIDE, OPEN) === INSIDE) return;
    Atomics.store(this.#places, STATE, CLOSED);
    Atomics.notify(this.#places, STATE);
  }

  /** Lets nobody in from now on; blocks until nobody is inside, or for `waitMs`. Safe to call again. */
  close(waitMs: number = GATE_CLOSE_MS): void {
    const until = performance.now() + waitMs;
    for (;;) {
      const state = Atomics.compareExchange(this.#places, STATE, OPEN, CLOSED);
      if (state === OPEN || state === CLOSED) return;
      // He may have left in between.
      if (state === INSIDE && Atomics.compareExchange(this.#places, STATE, INSIDE, CLOSING) !== INSIDE) continue;
      const leftMs = until - performance.now();
      if (leftMs <= 0 || Atomics.wait(this.#places, STATE, CLOSING, leftMs) === 'timed-out') return;
    }
  }
}

const living = new Set<EndGate>();

/** Closes a gate when the process exits (N2). Returns what is called once its thread is gone. */
export function closeAtExit(gate: EndGate): () => void {
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
