/**
 * Recently unpacked rows. Sessions that share a row are often read one after the other, for example when a store is
 * opened.
 *
 * Owns: up to `ROW_CACHE_BYTES_MAX` of plain rows. Does not own: the decision when rows are read.
 *
 * Invariants:
 *  C1 rows never change, and no number is given twice (E2). So a cached row is right for as long as the environment is
 *     the same.
 */
import { ROW_CACHE_BYTES_MAX } from '../../base/bounds.ts';

/** See the head of the file. */
export class RowCache {
  /** The cached rows by number, least recently used first. */
  readonly #rows = new Map<number, Buffer>();
  #bytes = 0;

  get(number: number): Buffer | undefined {
    const row = this.#rows.get(number);
    if (row === undefined) return undefined;
    this.#rows.delete(number);
    this.#rows.set(number, row);
    return row;
  }

  /** Adds a row that is not cached yet. A row larger than the whole cache is not kept. */
  add(number: number, row: Buffer): void {
    if (row.length > ROW_CACHE_BYTES_MAX) return;
    this.#rows.set(number, row);
    this.#bytes += row.length;
    for (const [oldest, { length }] of this.#rows) {
      if (this.#bytes <= ROW_CACHE_BYTES_MAX) return;
      this.#rows.delete(oldest);
      this.#bytes -= length;
    }
  }

  clear(): void {
    this.#rows.clear();
    this.#bytes = 0;
  }
}
