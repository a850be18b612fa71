/**
 * Values by key, bounded: the one that was put longest ago goes first.
 *
 * Owns: the values, and the order in which they were put last. Does not own: what they are.
 *
 * - O1 At most `sizeMax` values. What is dropped is a function of the puts and deletes alone.
 * - O2 Putting a key that is there again costs no entry of a map: a map that is deleted from and added to all the time is copied
 *   again and again. Hence a chain for the order.
 */

interface Entry<T> {
  readonly key: string;
  value: T;
  /** The entry that was put before this one, and the one that was put after it. */
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

  /** Values held. */
  get size(): number {
    return this.#entries.size;
  }

  /** The value of a key; its place in the order stays. */
  get(key: string): T | undefined {
    return this.#entries.get(key)?.value;
  }

  /** Sets a value; its key is the newest now, and the oldest goes where there are too many. */
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
