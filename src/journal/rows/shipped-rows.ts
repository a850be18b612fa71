/** Fetches stored rows and blobs from a shard, and unpacks them on the thread that asks. */
import { StoreCorruptError } from '../../base/errors.ts';
import type { SessionKey } from '../position.ts';
import type { BlobPiece, RowPiece } from '../stored-log.ts';
import { decodeRow, type RowEntry, sliceRow } from './row-codec.ts';
import { unpackRow } from './row-packing.ts';
import { decodeBlob, isBlobOf } from './stored-text.ts';

/** A whole stored row. */
export interface ShippedRow {
  readonly row: number;
  readonly bytes: Buffer;
}

/** The rows of one fetch. `isLast` is true if no requested row is left for another fetch. */
export interface ShippedRows {
  readonly rows: readonly ShippedRow[];
  readonly isLast: boolean;
  /** See `RowPiece`. */
  readonly rewrites: number;
  /** The newest durable row of the log when the fetch began. */
  readonly end: number;
}

/**
 * Fetches rows with `ask`: as many whole rows as fit into one piece, or one row that is larger than a piece. A larger
 * row comes in several pieces; `ask` receives the offset in the row at which the next piece begins. Rejects with
 * `StoreCorruptError` for a row that ends too soon.
 */
export async function shippedRows(ask: (offset: number) => Promise<RowPiece>): Promise<ShippedRows> {
  const piece = await ask(0);
  const [row] = piece.rows;
  if (row === undefined || piece.bytes.length >= piece.total) {
    const { isLast, rewrites, end } = piece;
    return { rows: rowsOf(piece), isLast, rewrites, end };
  }
  const bytes = Buffer.allocUnsafeSlow(piece.total);
  bytes.set(piece.bytes);
  let isLast = false;
  for (let at = piece.bytes.length; at < bytes.length; ) {
    const next = await ask(at);
    const length = next.lengths[0] ?? 0;
    if (next.rows[0] !== row || length === 0) throw new StoreCorruptError(`row ${row} of the journal ends too soon`);
    bytes.set(next.bytes.subarray(0, length), at);
    at += length;
    isLast = next.isLast;
  }
  return { rows: [{ row, bytes }], isLast, rewrites: piece.rewrites, end: piece.end };
}

function rowsOf({ rows, lengths, bytes }: RowPiece): readonly ShippedRow[] {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  let at = 0;
  return rows.map((row, index) => {
    const from = at;
    at += lengths[index] ?? 0;
    return { row, bytes: all.subarray(from, at) };
  });
}

/** The entries of a row. Throws `StoreCorruptError` when the row is not what was written. */
export function entriesOf({ row, bytes }: ShippedRow): readonly RowEntry[] {
  return decodeRow(unpackRow(bytes, row), row);
}

/** The transitions of one session in a row, in order. Throws like `entriesOf`. */
export function transitionsOf({ row, bytes }: ShippedRow, key: SessionKey): readonly string[] {
  return (sliceRow(unpackRow(bytes, row), row, key)?.entries ?? []).map(({ data }) => data);
}

/**
 * Fetches a blob until it is whole; `undefined` if there is none, or if it was removed during the fetch. Rejects with
 * `StoreCorruptError` for a damaged blob.
 */
export async function shippedBlob(
  address: string,
  ask: (offset: number) => Promise<BlobPiece | undefined>,
): Promise<string | undefined> {
  const first = await ask(0);
  if (first === undefined) return undefined;
  const bytes = Buffer.allocUnsafeSlow(first.total);
  bytes.set(first.bytes);
  for (let at = first.bytes.length; at < bytes.length; ) {
    const next = await ask(at);
    if (next === undefined || next.bytes.length === 0) return undefined;
    bytes.set(next.bytes, at);
    at += next.bytes.length;
  }
  const text = decodeBlob(bytes);
  if (text === undefined || !isBlobOf(address, text)) {
    throw new StoreCorruptError(`the blob ${address} of the journal cannot be read`);
  }
  return text;
}
