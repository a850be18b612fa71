/**
 * The log in pieces, in its stored form, for a reader on another thread (the search). That thread unpacks the rows and
 * blobs (`shipped-rows.ts`). So handing over a piece costs this thread only a copy of its bytes. Rows and blobs of an
 * encrypted store are decrypted here, because no key leaves this thread.
 *
 * Owns: one large value that is being handed over. Does not own: the store.
 *
 * Invariants:
 *  D1 only what is durable is handed over. A durable row changes only where removed sessions or removed parts of logs
 *     are erased;
 *  D2 a piece has at most `SEARCH_PAGE_ROWS` rows and `SEARCH_PAGE_BYTES` bytes. It holds whole rows, or a part of one
 *     row that is larger than a piece.
 */
import { SEARCH_CHAIN_ROWS, SEARCH_PAGE_BYTES, SEARCH_PAGE_ROWS } from '../base/bounds.ts';
import { asError } from '../base/errors.ts';
import type { Engine } from './engine.ts';
import { located } from './log-reader.ts';
import type { SessionKey } from './position.ts';
import { corruptRow, previousRowOf, type Reveal, revealedRow } from './rows/row-codec.ts';
import { unpackRow, unpackTable } from './rows/row-packing.ts';

/** Rows as they are stored: several whole rows, or a part of one row. Plain data, cheap to send to a thread. */
export interface RowPiece {
  /** The numbers of the rows, in the order they were requested. */
  readonly rows: readonly number[];
  /** The number of bytes of each row in this piece. */
  readonly lengths: readonly number[];
  /** The rows one after the other, in a separate buffer. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The number of bytes of the whole last row. */
  readonly total: number;
  /** True when no requested row, and no part of one, is left for another piece. */
  readonly isLast: boolean;
  /** The number of writes so far that changed or removed stored rows. */
  readonly rewrites: number;
  /** The newest durable row of the log. */
  readonly end: number;
}

/** The rows of a session from new to old, and the row to continue with, 0 for none. */
export interface RowChain {
  readonly rows: readonly number[];
  readonly next: number;
}

/** A part of a stored blob. */
export interface BlobPiece {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Bytes of the whole blob. */
  readonly total: number;
}

/**
 * The part of a journal that is handed over in pieces. Methods throw `StoreCorruptError` for rows and blobs that cannot
 * be read.
 */
export interface StoredLog {
  /** Rows starting at a number; of the first row, only the bytes after `offset`. */
  rowsFrom(row: number, offset: number): RowPiece;
  /**
   * Rows by their numbers, as many as fit; of the first row, only the bytes after `offset`. Throws for a missing row.
   */
  rowsAt(rows: readonly number[], offset: number): RowPiece;
  /**
   * Rows above `until` with transitions of a session. `from` is the `next` of the previous answer; if it is missing,
   * the chain begins at the newest row.
   */
  chain(key: SessionKey, until: number, from?: number): RowChain;
  /** The bytes of a stored blob after `offset`; `undefined` if there is no such blob. */
  blob(address: string, offset: number): BlobPiece | undefined;
}

/** The parts of its journal that a stored log reads. */
export interface StoredLogParts {
  readonly engine: Engine;
  /** Newest row with transitions of a session, durable or not; 0: none. */
  readonly newestRow: (key: SessionKey) => number;
  /** The last row before the session's log begins; 0: none. */
  readonly rowBefore: (key: SessionKey) => number;
  /** The session's row before `row`; 0: none. `row` is a row of the session that is not durable yet. */
  readonly unwrittenBefore: (row: number, key: SessionKey) => number;
  /** A durable blob in its stored form, decrypted. */
  readonly storedBlob: (address: string) => Uint8Array | undefined;
  /** Decrypts the data of entries. Undefined if the store is not encrypted. */
  readonly reveal: Reveal | undefined;
}

/** Creates a stored log; see the head of the file. */
export function createStoredLog(parts: StoredLogParts): StoredLog {
  return new EngineStoredLog(parts);
}

class EngineStoredLog implements StoredLog {
  readonly #engine: Engine;
  readonly #parts: StoredLogParts;
  /** A value that is larger than a piece, while it is handed over. It is kept, so that it is read only once. */
  #large: { readonly place: string; readonly bytes: Uint8Array } | undefined;

  constructor(parts: StoredLogParts) {
    this.#parts = parts;
    this.#engine = parts.engine;
  }

  rowsFrom(row: number, offset: number): RowPiece {
    // Only durable rows are sent: a row that is being written may be readable before it is on the device (D1).
    const { lastRow } = this.#engine.state();
    const found = row > lastRow ? [] : this.#engine.rowNumbers(row, SEARCH_PAGE_ROWS + 1);
    const numbers = found.filter((number) => number <= lastRow);
    const piece = this.#pieceOf(numbers.slice(0, SEARCH_PAGE_ROWS), offset);
    return { ...piece, isLast: piece.isLast && numbers.length <= SEARCH_PAGE_ROWS };
  }

  rowsAt(rows: readonly number[], offset: number): RowPiece {
    const piece = this.#pieceOf(rows.slice(0, SEARCH_PAGE_ROWS), offset);
    return { ...piece, isLast: piece.isLast && rows.length <= SEARCH_PAGE_ROWS };
  }

  chain(key: SessionKey, until: number, from?: number): RowChain {
    const rows: number[] = [];
    const { lastRow } = this.#engine.state();
    let row = from ?? this.#parts.newestRow(key);
    while (row > lastRow) row = this.#parts.unwrittenBefore(row, key);
    const first = Math.max(until, this.#parts.rowBefore(key));
    for (; row > first; ) {
      if (rows.length >= SEARCH_CHAIN_ROWS) return { rows, next: row };
      rows.push(row);
      const stored = this.#engine.storedRow(row);
      const before = located(this.#engine, () =>
        stored === undefined ? undefined : previousRowOf(unpackTable(stored, row), row, key),
      );
      if (before === undefined || before >= row) throw this.#corrupt(row, `it has nothing of session key ${key}`);
      row = before;
    }
    return { rows, next: 0 };
  }

  blob(address: string, offset: number): BlobPiece | undefined {
    const place = `blob ${address}`;
    const bytes = this.#held(place) ?? this.#parts.storedBlob(address);
    if (bytes === undefined) return undefined;
    const part = new Uint8Array(bytes.subarray(offset, offset + SEARCH_PAGE_BYTES));
    this.#hold(place, bytes, offset + part.length);
    return { bytes: part, total: bytes.length };
  }

  #pieceOf(rows: readonly number[], offset: number): RowPiece {
    const numbers: number[] = [];
    const lengths: number[] = [];
    const bytes = Buffer.allocUnsafeSlow(SEARCH_PAGE_BYTES);
    let used = 0;
    let total = 0;
    for (const row of rows) {
      const place = `row ${row}`;
      const stored = this.#held(place) ?? this.#storedRow(row);
      if (stored === undefined) throw this.#corrupt(row, 'it is not there');
      const isFirst = numbers.length === 0;
      const rest = isFirst && offset > 0 ? stored.subarray(offset) : stored;
      if (!isFirst && rest.length > bytes.length - used) break;
      const part = rest.length > bytes.length ? rest.subarray(0, bytes.length) : rest;
      bytes.set(part, used);
      used += part.length;
      total = stored.length;
      numbers.push(row);
      lengths.push(part.length);
      this.#hold(place, stored, (isFirst ? offset : 0) + part.length);
      // The rest of a large row is sent by itself.
      if (part.length < rest.length || (isFirst && offset > 0)) break;
    }
    const isWhole = numbers.length !== 1 || offset + used >= total;
    const { rewrites, lastRow: end } = this.#engine.state();
    return {
      rows: numbers,
      lengths,
      // A copy, because sending a view to a thread sends its whole buffer.
      bytes: new Uint8Array(bytes.subarray(0, used)),
      total,
      isLast: numbers.length === rows.length && isWhole,
      rewrites,
      end,
    };
  }

  /** A row as it is stored. In an encrypted store the row is decrypted, because the receiver has no keys. */
  #storedRow(row: number): Buffer | undefined {
    const stored = this.#engine.storedRow(row);
    const { reveal } = this.#parts;
    if (stored === undefined || reveal === undefined) return stored;
    return located(this.#engine, () => revealedRow(unpackRow(stored, row), row, reveal));
  }

  #corrupt(row: number, reason: string): Error {
    try {
      return located(this.#engine, () => {
        throw corruptRow(row, reason);
      });
    } catch (error) {
      return asError(error);
    }
  }

  #held(place: string): Uint8Array | undefined {
    return this.#large?.place === place ? this.#large.bytes : undefined;
  }

  /** Keeps a large value until its last piece is handed over. Bytes that the engine lends are copied once. */
  #hold(place: string, bytes: Uint8Array, handed: number): void {
    if (handed >= bytes.length) {
      if (this.#large?.place === place) this.#large = undefined;
    } else if (this.#large?.place !== place) {
      this.#large = { place, bytes: new Uint8Array(bytes) };
    }
  }
}
