/**
 * Keeps recently read values for the next reader: unpacked rows, which sessions of one tick share; media, which the
 * entries of one session share; and the unwrapped data keys of sessions.
 *
 * Owns: values up to a number of bytes. Does not own: the decision when values are read.
 *
 * Invariants:
 *  C1 the value of a key stays valid until the store of the shard is opened again: no row number is given out twice
 *     (E2), a rewritten row is deleted here, and the address of a medium is computed from its bytes. A data key is
 *     deleted here with its session, and after a refused write.
 */

/** A value whose `length` is its number of bytes: a buffer, or a text of ASCII characters. */
type Sized = { readonly length: number };

/** See the head of the file. */
export class RecentValues<Key, Value extends Sized> {
  /** The values by key, least recently used first. */
  readonly #values = new Map<Key, Value>();
  readonly #bytesMax: number;
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get(key: Key): Value | undefined {
    const value = this.#values.get(key);
    if (value === undefined) return undefined;
    this.#values.delete(key);
    this.#values.set(key, value);
    return value;
  }

  /** Adds a value whose key has none yet. A value larger than the bound is not kept. */
  add(key: Key, value: Value): void {
    if (value.length > this.#bytesMax) return;
    this.#values.set(key, value);
    this.#bytes += value.length;
    for (const [oldest, { length }] of this.#values) {
      if (this.#bytes <= this.#bytesMax) return;
      this.#values.delete(oldest);
      this.#bytes -= length;
    }
  }

  delete(key: Key): void {
    const value = this.#values.get(key);
    if (value === undefined) return;
    this.#values.delete(key);
    this.#bytes -= value.length;
  }

  clear(): void {
    this.#values.clear();
    this.#bytes = 0;
  }
}
