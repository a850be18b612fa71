/**
 * The rates that a provider reports, in memory that all session threads of a runtime share. The threads use the same
 * key, so the call of one thread uses up a rate of the others.
 *
 * Owns: the memory, which model has which row, and the lock. Does not own: what a row means (`provider-rates.ts`).
 *
 * - T1 A change is one step for all threads: `change` holds the lock, and other threads wait until it is released.
 * - T2 A thread that ended in the middle of a change stops the others for `RATE_LOCK_MS` at most. Later answers correct
 *   the numbers that it left half changed (H1).
 * - T3 A model has the same row in every thread. If all rows are taken, a new model has no row: nothing holds its
 *   calls back before the provider refuses them.
 */
import { GOVERNED_MODELS_MAX, RATE_LOCK_MS } from '../../base/bounds.ts';

/** The numbers of one row. */
export const RATE_ROW_NUMBERS = 16;
/** The lock, the number of rows, and the two halves of each row's name. */
const LOCK = 0;
const SIZE = 1;
const NAMES = 2;
const HEAD_BYTES = (NAMES + 2 * GOVERNED_MODELS_MAX) * Int32Array.BYTES_PER_ELEMENT;
const TABLE_BYTES = HEAD_BYTES + GOVERNED_MODELS_MAX * RATE_ROW_NUMBERS * Float64Array.BYTES_PER_ELEMENT;

/** The memory of a table without rows. The host makes it and gives it to each session thread. */
export function createRateMemory(): SharedArrayBuffer {
  return new SharedArrayBuffer(TABLE_BYTES);
}

/** One thread's side of the table; see the head of the file. */
export class RateTable {
  readonly #head: Int32Array;
  readonly #memory: SharedArrayBuffer;
  /** The rows that this thread has found. */
  readonly #rows = new Map<string, Float64Array>();

  constructor(memory: SharedArrayBuffer) {
    this.#memory = memory;
    this.#head = new Int32Array(memory, 0, NAMES + 2 * GOVERNED_MODELS_MAX);
  }

  /** The number of models with a row. */
  get size(): number {
    return Atomics.load(this.#head, SIZE);
  }

  /** The row of a model; undefined if no thread has made one. */
  find(model: string): Float64Array | undefined {
    const known = this.#rows.get(model);
    if (known !== undefined) return known;
    if (this.#rows.size === this.size) return undefined;
    return this.#keep(model, this.#indexOf(nameOf(model)));
  }

  /** The row of a model, made if there is none. Undefined if all rows are taken. */
  make(model: string): Float64Array | undefined {
    const found = this.find(model);
    if (found !== undefined) return found;
    const name = nameOf(model);
    const index = this.change(() => {
      const taken = this.#indexOf(name);
      const size = this.size;
      if (taken !== undefined || size >= GOVERNED_MODELS_MAX) return taken;
      this.#head[NAMES + 2 * size] = name[0];
      this.#head[NAMES + 2 * size + 1] = name[1];
      // The size is stored after the name, so that no thread finds a row whose name is not written.
      Atomics.store(this.#head, SIZE, size + 1);
      return size;
    });
    return this.#keep(model, index);
  }

  /** Runs a short change of rows that no other thread changes or reads meanwhile (T1). */
  change<T>(run: () => T): T {
    // After a full wait the change runs even if the lock was not released: its holder has ended (T2).
    if (Atomics.compareExchange(this.#head, LOCK, 0, 1) !== 0) this.#await();
    try {
      return run();
    } finally {
      Atomics.store(this.#head, LOCK, 0);
      Atomics.notify(this.#head, LOCK, 1);
    }
  }

  #await(): void {
    const until = performance.now() + RATE_LOCK_MS;
    for (let left = RATE_LOCK_MS; left > 0; left = until - performance.now()) {
      Atomics.wait(this.#head, LOCK, 1, left);
      if (Atomics.compareExchange(this.#head, LOCK, 0, 1) === 0) return;
    }
  }

  #indexOf([high, low]: readonly [number, number]): number | undefined {
    for (let index = 0; index < this.size; index += 1) {
      if (this.#head[NAMES + 2 * index] === high && this.#head[NAMES + 2 * index + 1] === low) return index;
    }
    return undefined;
  }

  #keep(model: string, index: number | undefined): Float64Array | undefined {
    if (index === undefined) return undefined;
    const offset = HEAD_BYTES + index * RATE_ROW_NUMBERS * Float64Array.BYTES_PER_ELEMENT;
    const row = new Float64Array(this.#memory, offset, RATE_ROW_NUMBERS);
    this.#rows.set(model, row);
    return row;
  }
}

/** Two hashes of a name (FNV-1a from two starts). Of a thousand models, two share both hashes once in 10^13 runs. */
function nameOf(model: string): readonly [number, number] {
  let [high, low] = [0x811c9dc5, 0x01000193];
  for (let index = 0; index < model.length; index += 1) {
    const unit = model.charCodeAt(index);
    high = Math.imul(high ^ unit, 0x01000193);
    low = Math.imul(low ^ unit, 0x85ebca6b);
  }
  return [high | 0, low | 0];
}
