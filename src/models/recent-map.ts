/**
 * A bounded map: the value whose last put is oldest is dropped first.
 *
 * Owns: the values, and the order in which they were last put. Does not own: their meaning.
 *
 * - O1 There are at most `sizeMax` values. Only the order of puts and deletes decides which value is dropped.
 * - O2 A `put` of an existing key does not move its entry in the map: constant deletes and adds make the engine copy a
 *   map repeatedly. A linked list keeps the order instead.
 */

interface Entry<T> {
  readonly key: string;
  value: T;
  /** The entries that were put just before this one and just after it. */
  older: Entry<T> | undefined;
  newer: Entry<T> | undefined;
}

/** See the head of the file. */
export class RecentMap<T> {
  readonly #entries = new Map<string, Entry<T>>();
  readonly #sizeMax: number;
  #oldest: Entry<T> | undefined;
  #newest: Entry<T> | undefined;

  /** `sizeMax`: at least 1. */
  constructor(sizeMax: number) {
    this.#sizeMax = sizeMax;
  }

  /** The number of values held. */
  get size(): number {
    return this.#entries.size;
  }

  /** The value of a key; its position in the order does not change. */
  get(key: string): T | undefined {
    return this.#entries.get(key)?.value;
  }

  /** Sets a value and makes its key the newest; drops the oldest if there are too many. */
  put(key: string, value: T): void {
    const known = this.#entries.get(key);
    if (known !== undefined) {
      known.value = value;
      if (known === this.#newest) return;
      this.#unchain(known);
      this.#chain(known);
      return;
    }
    const entry: Entry<T> = { key, value, older: undefined, newer: undefined };
    this.#entries.set(key, entry);
    this.#chain(entry);
    if (this.#entries.size > this.#sizeMax && this.#oldest !== undefined) this.delete(this.#oldest.key);
  }

  /** Drops a value, if there is one. */
  delete(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    this.#unchain(entry);
  }

  /** Drops every value. */
  clear(): void {
    this.#entries.clear();
    this.#oldest = undefined;
    this.#newest = undefined;
  }

  #chain(entry: Entry<T>): void {
    entry.older = this.#newest;
    if (this.#newest === undefined) this.#oldest = entry;
    else this.#newest.newer = entry;
    this.#newest = entry;
  }

  #unchain(entry: Entry<T>): void {
    if (entry.older === undefined) this.#oldest = entry.newer;
    else entry.older.newer = entry.newer;
    if (entry.newer === undefined) this.#newest = entry.older;
    else entry.newer.older = entry.older;
    entry.older = undefined;
    entry.newer = undefined;
  }
}
