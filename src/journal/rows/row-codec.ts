/**
 * The plain form of the log's rows; `row-packing.ts` has their form on disk. One row holds successive transitions that
 * one flush writes, at most `ROW_TURNS_MAX` and about `ROW_BYTES_MAX` bytes, in order. `turn` in names and in the table
 * below is the number of such a transition in its row.
 *
 * Bytes, little-endian:
 *
 *     0  u8   0x54            16  u32  CRC-32 of bytes 0..15 and of the table
 *     1  u8   format          20  the table, 24 bytes an entry:
 *     2  u16  turns                0  u32  session key     16  u32  bytes of data
 *     4  u32  entries              4  u32  turn            20  u32  CRC-32 of data
 *     8  f64  row number           8  f64  previous row of this session, 0 for none
 *     then the data of all entries, UTF-8, in the order of the table
 *
 * A reader of one session reads the table and decodes only its own slices. A flipped bit is found before the data is
 * used.
 *
 * A **position** is `row number * POSITION_STRIDE + turn`, the transition counted from 0 within its row. So `read` and
 * `tail` can begin at any transition, and a head can end at any transition. Positions start at 1024.
 */
import { crc32 } from 'node:zlib';
import { ROW_TURN_HELD_BYTES_MIN } from '../../base/bounds.ts';
import { StoreCorruptError } from '../../base/errors.ts';
import type { Position, SessionKey } from '../position.ts';

/**
 * The number of positions in one row. It is above `ROW_TURNS_MAX`. It is part of the format, so it must not change when
 * `ROW_TURNS_MAX` changes.
 */
export const POSITION_STRIDE = 1024;
/** Version of the row format. */
export const ROW_FORMAT = 1;

const MAGIC = 0x54;
const HEADER_BYTES = 20;
const CHECKED_HEADER_BYTES = 16;
const ENTRY_BYTES = 24;

/**
 * The entry that one transition wrote for one session. `turn`: the number of the transition in the row. `previousRow`:
 * the session's row before this row (0: none).
 */
export interface RowEntry {
  readonly key: SessionKey;
  readonly turn: number;
  readonly previousRow: number;
  readonly data: string;
  /** UTF-8 bytes of `data`. */
  readonly dataBytes: number;
}

/**
 * An entry of a row in memory. A large entry is held as bytes. As a string the entry would stay on the heap until the
 * flush, and for some time after the flush.
 */
export interface HeldEntry extends Omit<RowEntry, 'data'> {
  readonly data: string | Buffer;
}

/** Decrypts the data of an entry of a row. A function that is called without it takes the data as plain text. */
export type Reveal = (data: Buffer, row: number, key: SessionKey, turn: number) => string;

/** The data of an entry as a row holds it until it is written. `bytes`: its length in UTF-8. */
export function heldData(data: string, bytes: number): string | Buffer {
  return bytes < ROW_TURN_HELD_BYTES_MIN ? data : Buffer.from(data, bytes === data.length ? 'latin1' : 'utf8');
}

/** The entry of row `row` with its text. Throws what `reveal` throws. */
export function entryOf(held: HeldEntry, row: number, reveal: Reveal | undefined): RowEntry {
  const { data, key, turn } = held;
  if (typeof data === 'string') return held as RowEntry;
  return { ...held, data: reveal === undefined ? data.toString('utf8') : reveal(data, row, key, turn) };
}

/**
 * A row in memory. It grows until the journal writes it or begins the next row. Its entries are in transition order.
 */
export interface Row {
  readonly number: number;
  turns: number;
  bytes: number;
  readonly entries: HeldEntry[];
}

/** The entries of one session in one row. */
export interface RowSlice {
  readonly previousRow: number;
  readonly entries: readonly { readonly turn: number; readonly data: string }[];
}

/** The position of a transition. */
export function positionOf(row: number, turn: number): Position {
  return row * POSITION_STRIDE + turn;
}

/** The row that contains a position. */
export function rowOf(position: Position): number {
  return Math.floor(position / POSITION_STRIDE);
}

/**
 * The bytes of `rows`, one buffer for each row. All share one allocation, so that a flush pins one buffer instead of
 * hundreds.
 */
export function encodeRows(rows: readonly Row[]): readonly Buffer[] {
  const sizes = rows.map((row) => HEADER_BYTES + row.entries.length * ENTRY_BYTES + row.bytes);
  const all = Buffer.allocUnsafeSlow(sizes.reduce((sum, size) => sum + size, 0));
  let offset = 0;
  return rows.map((row, index) => {
    const bytes = all.subarray(offset, offset + (sizes[index] ?? 0));
    offset += bytes.length;
    encodeRow(row, bytes);
    return bytes;
  });
}

function encodeRow(row: Row, bytes: Buffer): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  view.setUint8(0, MAGIC);
  view.setUint8(1, ROW_FORMAT);
  view.setUint16(2, row.turns, true);
  view.setUint32(4, row.entries.length, true);
  view.setFloat64(8, row.number, true);
  let at = HEADER_BYTES;
  let dataAt = HEADER_BYTES + row.entries.length * ENTRY_BYTES;
  for (const entry of row.entries) {
    const { data } = entry;
    if (typeof data !== 'string') data.copy(bytes, dataAt);
    else bytes.write(data, dataAt, entry.dataBytes, entry.dataBytes === data.length ? 'latin1' : 'utf8');
    view.setUint32(at, entry.key, true);
    view.setUint32(at + 4, entry.turn, true);
    view.setFloat64(at + 8, entry.previousRow, true);
    view.setUint32(at + 16, entry.dataBytes, true);
    view.setUint32(at + 20, crc32(bytes.subarray(dataAt, dataAt + entry.dataBytes)), true);
    at += ENTRY_BYTES;
    dataAt += entry.dataBytes;
  }
  view.setUint32(16, headerChecksum(bytes, at), true);
}

/**
 * The plain row with its entries decrypted. Entries of removed sessions, which `reveal` makes empty, are left out.
 * Throws `StoreCorruptError`.
 */
export function revealedRow(bytes: Buffer, row: number, reveal: Reveal): Buffer {
  const entries = decodeRow(bytes, row, reveal).flatMap((entry): HeldEntry | readonly HeldEntry[] =>
    entry.data === '' ? [] : { ...entry, dataBytes: Buffer.byteLength(entry.data) },
  );
  const dataBytes = entries.reduce((sum, entry) => sum + entry.dataBytes, 0);
  const [revealed] = encodeRows([
    { number: row, turns: rowTurns(bytes, row), bytes: dataBytes, entries: [...entries] },
  ]);
  return revealed ?? bytes;
}

/** All entries of a stored row. Throws `StoreCorruptError` when the bytes are not what was written. */
export function decodeRow(bytes: Buffer, row: number, reveal?: Reveal): readonly RowEntry[] {
  const entries: RowEntry[] = [];
  walk(bytes, row, (key, turn, previousRow, dataAt, dataBytes, checksum) => {
    const checked = checkedData(bytes, row, dataAt, dataBytes, checksum);
    const data = reveal === undefined ? checked.toString('utf8') : reveal(checked, row, key, turn);
    entries.push({ key, turn, previousRow, data, dataBytes });
  });
  return entries;
}

/**
 * The entries of one session in a stored row; `undefined` when the row has no entry of the session. Throws
 * `StoreCorruptError`.
 */
export function sliceRow(bytes: Buffer, row: number, key: SessionKey, reveal?: Reveal): RowSlice | undefined {
  const entries: { readonly turn: number; readonly data: string }[] = [];
  let previous = 0;
  walk(bytes, row, (entryKey, turn, previousRow, dataAt, dataBytes, checksum) => {
    if (entryKey !== key) return;
    previous = previousRow;
    const checked = checkedData(bytes, row, dataAt, dataBytes, checksum);
    entries.push({ turn, data: reveal === undefined ? checked.toString('utf8') : reveal(checked, row, key, turn) });
  });
  return entries.length === 0 ? undefined : { previousRow: previous, entries };
}

/**
 * The sessions of a row, each with its previous row; a key may come twice, with the same previous row. Throws
 * `StoreCorruptError`.
 */
export function rowSessions(bytes: Buffer, row: number): readonly (readonly [SessionKey, number])[] {
  const sessions: (readonly [SessionKey, number])[] = [];
  walk(bytes, row, (key, _turn, previousRow) => {
    sessions.push([key, previousRow]);
  });
  return sessions;
}

/**
 * The number of the session's row before row `row`; 0 if there is none, `undefined` if row `row` has no entry of the
 * session. Throws `StoreCorruptError`.
 */
export function previousRowOf(bytes: Buffer, row: number, key: SessionKey): number | undefined {
  const count = checkHeader(bytes, row);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = HEADER_BYTES; at < HEADER_BYTES + count * ENTRY_BYTES; at += ENTRY_BYTES) {
    if (view.getUint32(at, true) === key) return view.getFloat64(at + 8, true);
  }
  return undefined;
}

/** A row without the entries of some sessions. */
export interface ReducedRow {
  /** The remaining entries, unchanged and with their transition numbers. */
  readonly bytes: Buffer;
  /** True if no entry remains. */
  readonly isEmpty: boolean;
  /** The sessions that were taken out, each with its previous row (0: none). */
  readonly taken: ReadonlyMap<SessionKey, number>;
}

/**
 * Removes from a plain row the entries of the sessions for which `isTaken` is true. Data is copied unread, so a damaged
 * entry of another session stays as damaged as it was. Throws `StoreCorruptError` for a damaged header or table, and
 * for a row that is cut short.
 */
export function reduceRow(bytes: Buffer, row: number, isTaken: (key: SessionKey) => boolean): ReducedRow {
  const taken = new Map<SessionKey, number>();
  const kept: { readonly at: number; readonly dataAt: number; readonly dataBytes: number }[] = [];
  let at = HEADER_BYTES;
  let keptBytes = 0;
  walk(bytes, row, (key, _turn, previousRow, dataAt, dataBytes) => {
    if (isTaken(key)) taken.set(key, previousRow);
    else {
      kept.push({ at, dataAt, dataBytes });
      keptBytes += dataBytes;
    }
    at += ENTRY_BYTES;
  });
  const reduced = Buffer.allocUnsafeSlow(HEADER_BYTES + kept.length * ENTRY_BYTES + keptBytes);
  bytes.copy(reduced, 0, 0, CHECKED_HEADER_BYTES);
  reduced.writeUInt32LE(kept.length, 4);
  let tableAt = HEADER_BYTES;
  let dataTo = HEADER_BYTES + kept.length * ENTRY_BYTES;
  for (const entry of kept) {
    if (entry.dataAt + entry.dataBytes > bytes.length) throw corruptRow(row, 'the row is cut short');
    tableAt += bytes.copy(reduced, tableAt, entry.at, entry.at + ENTRY_BYTES);
    dataTo += bytes.copy(reduced, dataTo, entry.dataAt, entry.dataAt + entry.dataBytes);
  }
  reduced.writeUInt32LE(headerChecksum(reduced, tableAt), CHECKED_HEADER_BYTES);
  return { bytes: reduced, isEmpty: kept.length === 0, taken };
}

/** A checksum of a row, packed or plain, read from its first bytes: it covers the checksums of all its entries. */
export function rowChecksum(bytes: Buffer): number {
  return bytes.length < HEADER_BYTES ? 0 : bytes.readUInt32LE(CHECKED_HEADER_BYTES);
}

/**
 * The sessions of a row's transitions starting at `turn`, in their order; a key may come twice. Throws
 * `StoreCorruptError`.
 */
export function sessionsFrom(bytes: Buffer, row: number, turn: number): readonly SessionKey[] {
  const sessions: SessionKey[] = [];
  walk(bytes, row, (key, entryTurn) => {
    if (entryTurn >= turn) sessions.push(key);
  });
  return sessions;
}

/** The offset of a row's data according to its header. The header is not checked. */
export function dataStart(bytes: Buffer): number {
  return HEADER_BYTES + (bytes.length < HEADER_BYTES ? 0 : bytes.readUInt32LE(4)) * ENTRY_BYTES;
}

/**
 * Bytes of a row's data according to its header and table. Both are checked; the data may be missing. Throws
 * `StoreCorruptError`.
 */
export function rowDataBytes(bytes: Buffer, row: number): number {
  let all = 0;
  walk(bytes, row, (_key, _turn, _previousRow, _dataAt, dataBytes) => {
    all += dataBytes;
  });
  return all;
}

/** The number of transitions in a row. Throws `StoreCorruptError`. */
export function rowTurns(bytes: Buffer, row: number): number {
  checkHeader(bytes, row);
  return bytes.readUInt16LE(2);
}

type EntryVisitor = (
  key: SessionKey,
  turn: number,
  previousRow: number,
  dataAt: number,
  dataBytes: number,
  checksum: number,
) => void;

function walk(bytes: Buffer, row: number, visit: EntryVisitor): void {
  const count = checkHeader(bytes, row);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let dataAt = HEADER_BYTES + count * ENTRY_BYTES;
  for (let at = HEADER_BYTES; at < HEADER_BYTES + count * ENTRY_BYTES; at += ENTRY_BYTES) {
    const dataBytes = view.getUint32(at + 16, true);
    visit(
      view.getUint32(at, true),
      view.getUint32(at + 4, true),
      view.getFloat64(at + 8, true),
      dataAt,
      dataBytes,
      view.getUint32(at + 20, true),
    );
    dataAt += dataBytes;
  }
}

/** Throws `StoreCorruptError` unless the row and all its data are as they were written. Decodes nothing. */
export function checkRow(bytes: Buffer, row: number): void {
  walk(
    bytes,
    row,
    (_key, _turn, _previous, at, length, checksum) => void checkedData(bytes, row, at, length, checksum),
  );
}

/** Checks everything but the data; returns the number of entries. */
function checkHeader(bytes: Buffer, row: number): number {
  if (bytes.length < HEADER_BYTES || bytes[0] !== MAGIC) throw corruptRow(row, 'not a row of the log');
  if (bytes[1] !== ROW_FORMAT) throw corruptRow(row, `row format ${bytes[1]}`);
  const count = bytes.readUInt32LE(4);
  const tableEnd = HEADER_BYTES + count * ENTRY_BYTES;
  if (tableEnd > bytes.length) throw corruptRow(row, 'the row is cut short');
  if (bytes.readUInt32LE(16) !== headerChecksum(bytes, tableEnd)) throw corruptRow(row, 'checksum of the row');
  if (bytes.readDoubleLE(8) !== row) throw corruptRow(row, 'the row stands in another row’s place');
  return count;
}

function headerChecksum(bytes: Buffer, tableEnd: number): number {
  const head = crc32(bytes.subarray(0, CHECKED_HEADER_BYTES));
  return crc32(bytes.subarray(HEADER_BYTES, tableEnd), head);
}

function checkedData(bytes: Buffer, row: number, at: number, length: number, checksum: number): Buffer {
  if (at + length > bytes.length) throw corruptRow(row, 'the row is cut short');
  const data = bytes.subarray(at, at + length);
  if (crc32(data) !== checksum) throw corruptRow(row, 'checksum of an entry');
  return data;
}

/** The error for a row that is not what was written. */
export function corruptRow(row: number, reason: string, cause?: Error): StoreCorruptError {
  return new StoreCorruptError(`row ${row} of the journal cannot be read: ${reason}`, { cause, data: { row, reason } });
}
