/**
 * Rows that were unpacked lately: the sessions that share a row are often read one after the other, as at an open.
 *
 * Owns: up to `ROW_CACHE_BYTES_MAX` of plain rows. Does not own: when they are read.
 *  C1 rows never change, and no number is given twice (E2), so what is here is right for as long as the environment is the same.
 */
import { ROW_CACHE_BYTES_MAX } from '../../base/bounds.ts';

/** See the head of the file. */
export class RowCache {
  /** By number, the one used longest ago first. */
  readonly #rows = new Map<number, Buffer>();
  #bytes = 0;

  get(number: number): Buffer | undefined {
    const row = this.#rows.get(number);
    if (row === undefined) return undefined;
    this.#rows.delete(number);
    this.#rows.set(number, row);
    return row;
  }

  /** Keeps a row that is not in it; one as large as all of it is not kept. */
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
