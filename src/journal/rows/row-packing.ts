/**
 * The form of rows on disk. The text of a session is repetitive, so a row's data is compressed where that saves
 * something. A store then needs about a third of the space. A packed row is the row of `row-codec.ts` with another
 * format byte, and with the data of all its entries as one Brotli stream. Header and table stay as they were, checksums
 * included, so back pointers are read without unpacking. Unpacked data is used only after the row's own checks.
 *
 *     0  u8   0x54
 *     1  u8   2, in place of 1
 *     2  the rest of header and table, as in the plain row, with the checksum of the plain row
 *     then the data, Brotli
 *
 * Brotli's quality 1 costs about a microsecond for each transition in a busy shard. A small row stays plain, because
 * compressing it would save too little for the cost of the call.
 */
import { brotliCompress, brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib';
import { ROW_PACKED_BYTES_MIN, ROWS_PACKED_HERE_BYTES_MAX } from '../../base/bounds.ts';
import { asError } from '../../base/errors.ts';
import { corruptRow, dataStart, ROW_FORMAT, rowDataBytes } from './row-codec.ts';

const FORMAT_AT = 1;
const PACKED_FORMAT = 2;
/** The smallest output chunk that zlib accepts, and the largest that is worth allocating at once. */
const CHUNK_BYTES_MIN = 64;
const CHUNK_BYTES_MAX = 64 * 1024;
const PARAMETERS = { [constants.BROTLI_PARAM_QUALITY]: 1, [constants.BROTLI_PARAM_LGWIN]: 18 };

/**
 * The rows of one flush in their stored form, in their order. Up to `ROWS_PACKED_HERE_BYTES_MAX` bytes are packed on
 * this thread, because sending them to a pool thread would cost as much. The pool packs the rest, so that a flush of
 * large messages does not block this thread.
 */
export async function packRows(rows: readonly Buffer[]): Promise<readonly Buffer[]> {
  let hereBytes = 0;
  const packed: (Buffer | Promise<Buffer>)[] = [];
  for (const row of rows) {
    if (row.length < ROW_PACKED_BYTES_MIN) packed.push(row);
    else if (hereBytes + row.length <= ROWS_PACKED_HERE_BYTES_MAX) {
      hereBytes += row.length;
      packed.push(packRow(row));
    } else packed.push(packRowAway(row));
  }
  return Promise.all(packed);
}

/** One row as it is stored: the same bytes when packing saves nothing. */
export function packRow(plain: Buffer): Buffer {
  const data = plain.subarray(dataStart(plain));
  return data.length === 0 ? plain : withData(plain, brotliCompressSync(data, optionsFor(data)));
}

function packRowAway(plain: Buffer): Promise<Buffer> {
  const data = plain.subarray(dataStart(plain));
  return new Promise((resolve, reject) => {
    brotliCompress(data, optionsFor(data), (error, packed) => {
      if (error === null) resolve(withData(plain, packed));
      else reject(error);
    });
  });
}

function optionsFor({ length }: Buffer): { readonly chunkSize: number; readonly params: Record<number, number> } {
  return { chunkSize: Math.min(Math.max(length, CHUNK_BYTES_MIN), CHUNK_BYTES_MAX), params: PARAMETERS };
}

function withData(plain: Buffer, packedData: Buffer): Buffer {
  const start = dataStart(plain);
  if (start + packedData.length >= plain.length) return plain;
  // The buffer is not taken from the pool of small buffers, because the writer thread reads it until the commit is
  // done.
  const packed = Buffer.allocUnsafeSlow(start + packedData.length);
  plain.copy(packed, 0, 0, start);
  packed[FORMAT_AT] = PACKED_FORMAT;
  packed.set(packedData, start);
  return packed;
}

/**
 * The plain bytes of a stored row. Checks the header, the table and the data's length of a packed row. Does not check a
 * plain row, or the checksums of entries: `decodeRow` and `sliceRow` do. Throws `StoreCorruptError`.
 */
export function unpackRow(stored: Buffer, row: number): Buffer {
  if (!isPacked(stored)) return stored;
  const table = unpackTable(stored, row);
  const dataBytes = rowDataBytes(table, row);
  const data = unpackData(stored.subarray(table.length), row, dataBytes);
  return Buffer.concat([table, data], table.length + dataBytes);
}

/**
 * The bytes of a stored row, for callers that read only its header and table. These are readable even if the row's data
 * is damaged. Throws `StoreCorruptError`.
 */
export function unpackTable(stored: Buffer, row: number): Buffer {
  if (!isPacked(stored)) return stored;
  const start = dataStart(stored);
  if (start > stored.length) throw corruptRow(row, 'the row is cut short');
  const table = Buffer.from(stored.subarray(0, start));
  table[FORMAT_AT] = ROW_FORMAT;
  return table;
}

function unpackData(packedData: Buffer, row: number, dataBytes: number): Buffer {
  let data: Buffer;
  try {
    const chunkSize = Math.min(Math.max(dataBytes, CHUNK_BYTES_MIN), CHUNK_BYTES_MAX);
    data = brotliDecompressSync(packedData, { chunkSize, maxOutputLength: Math.max(dataBytes, 1) });
  } catch (error) {
    throw corruptRow(row, 'its data cannot be unpacked', asError(error));
  }
  if (data.length !== dataBytes) throw corruptRow(row, 'its data has another length');
  return data;
}

function isPacked(stored: Buffer): boolean {
  return stored[FORMAT_AT] === PACKED_FORMAT;
}
