/**
 * The bytes of a commit in the log of a cluster: the changes of a packed batch, and the state of the engine after the
 * commit.
 *
 * Bytes, little-endian:
 *
 *     0  u8   0x43             2  u32  CRC-32 of the bytes from 6 on
 *     1  u8   format           6  seven f64: commit, last row, next key, checkpointed, indexed row, rewrites, erased
 *                             62  f64  bytes of the batch, roughly
 *                             70  u32  number of changes, then each change:
 *
 *     u8  index of the table, below    u8  0 if the key is a number, 1 if it is a text; plus 2 x form of the value
 *     f64, or u16 and UTF-8: the key   u32 and bytes: the value, unless it is missing
 *
 * A reader refuses a format that it does not know. The numbers of tables and forms are part of the format. New numbers
 * may be added; a number never changes its meaning.
 */
import { crc32 } from 'node:zlib';
import { LOG_ENTRY_BYTES_MAX } from '../../base/bounds.ts';
import { LimitError, StoreCorruptError, StoreVersionError } from '../../base/errors.ts';
import type { EngineState, StoredBatch, StoredChange } from '../engine.ts';
import type { TableName } from '../lmdb/tables.ts';

const MAGIC = 0x43;
/** Version of the form of log entries. */
export const LOG_FORMAT = 1;

const CHECKED_FROM = 6;
const BATCH_BYTES_AT = 62;
const COUNT_AT = 70;
const HEADER_BYTES = 74;
/** The members of the state that a commit has. `compacted` is missing, because a compaction concerns one copy only. */
const STATE: readonly Exclude<keyof EngineState, 'compacted'>[] = [
  'commit',
  'lastRow',
  'nextKey',
  'checkpointed',
  'indexedRow',
  'rewrites',
  'erased',
];
const TABLES: readonly TableName[] = [
  'log',
  'names',
  'keys',
  'heads',
  'lastRows',
  'runnable',
  'blobs',
  'media',
  'drafts',
  'erasures',
  'dataKeys',
  'starts',
  'origins',
  'meta',
  'audit',
];
const TABLE_NUMBERS: ReadonlyMap<TableName, number> = new Map(TABLES.map((name, number) => [name, number]));
const NO_VALUE = 0;
const TEXT = 1;
const BYTES = 2;

/** The bytes of a commit. Throws `LimitError` for a commit beyond `LOG_ENTRY_BYTES_MAX`. */
export function encodeBatch({ changes, state, bytes: batchBytes }: StoredBatch): Buffer {
  const size = changes.reduce((sum, change) => sum + changeBytes(change), HEADER_BYTES);
  if (size > LOG_ENTRY_BYTES_MAX) {
    throw new LimitError(`a commit of ${size} bytes is larger than the ${LOG_ENTRY_BYTES_MAX} bytes of a log entry`, {
      data: { limit: 'logEntryBytes', value: size },
    });
  }
  const bytes = Buffer.allocUnsafeSlow(size);
  bytes[0] = MAGIC;
  bytes[1] = LOG_FORMAT;
  for (const [index, name] of STATE.entries()) bytes.writeDoubleLE(state[name], CHECKED_FROM + index * 8);
  bytes.writeDoubleLE(batchBytes, BATCH_BYTES_AT);
  bytes.writeUInt32LE(changes.length, COUNT_AT);
  let at = HEADER_BYTES;
  for (const change of changes) at = putChange(bytes, at, change);
  bytes.writeUInt32LE(crc32(bytes.subarray(CHECKED_FROM)), 2);
  return bytes;
}

/**
 * The commit in these bytes. Its values may share the memory of `bytes`. Throws `StoreCorruptError` for bytes that were
 * not written by `encodeBatch`, and `StoreVersionError` for a newer format.
 */
export function decodeBatch(bytes: Buffer): StoredBatch {
  if (bytes.length < HEADER_BYTES || bytes[0] !== MAGIC) throw corruptEntry('it is no commit');
  const format = bytes[1] ?? 0;
  if (format !== LOG_FORMAT) {
    throw new StoreVersionError(
      `an entry of the cluster's log has format ${format}; this version reads ${LOG_FORMAT}. Nothing was written`,
      { data: { found: format, supported: LOG_FORMAT } },
    );
  }
  if (bytes.readUInt32LE(2) !== crc32(bytes.subarray(CHECKED_FROM))) throw corruptEntry('its checksum does not match');
  const numbers = STATE.map((name, index) => [name, bytes.readDoubleLE(CHECKED_FROM + index * 8)] as const);
  const state = { ...Object.fromEntries(numbers), compacted: 0 } as Record<keyof EngineState, number>;
  const count = bytes.readUInt32LE(COUNT_AT);
  const changes: StoredChange[] = [];
  let at = HEADER_BYTES;
  for (let index = 0; index < count; index += 1) {
    const read = readChange(bytes, at);
    changes.push(read.change);
    at = read.end;
  }
  return { state, changes, bytes: bytes.readDoubleLE(BATCH_BYTES_AT) };
}

function changeBytes({ key, value }: StoredChange): number {
  const keyBytes = typeof key === 'number' ? 8 : 2 + Buffer.byteLength(key);
  if (value === undefined) return 2 + keyBytes;
  return 2 + keyBytes + 4 + (typeof value === 'string' ? Buffer.byteLength(value) : value.length);
}

function putChange(bytes: Buffer, start: number, { table, key, value }: StoredChange): number {
  const isName = typeof key === 'string';
  bytes[start] = TABLE_NUMBERS.get(table) ?? 0;
  bytes[start + 1] = (isName ? 1 : 0) + 2 * formOf(value);
  let at = start + 2;
  if (isName) {
    const length = bytes.write(key, at + 2);
    bytes.writeUInt16LE(length, at);
    at += 2 + length;
  } else at = bytes.writeDoubleLE(key, at);
  if (value === undefined) return at;
  const length = typeof value === 'string' ? bytes.write(value, at + 4) : value.copy(bytes, at + 4);
  bytes.writeUInt32LE(length, at);
  return at + 4 + length;
}

function formOf(value: string | Buffer | undefined): number {
  if (value === undefined) return NO_VALUE;
  return typeof value === 'string' ? TEXT : BYTES;
}

function readChange(bytes: Buffer, start: number): { readonly change: StoredChange; readonly end: number } {
  const table = TABLES[bytes[start] ?? TABLES.length];
  const flags = bytes[start + 1] ?? 0;
  const form = flags >> 1;
  if (table === undefined || form > BYTES) throw corruptEntry('it has an unknown table or form');
  let at = start + 2;
  let key: string | number;
  if (flags % 2 === 1) {
    const length = bytes.readUInt16LE(at);
    key = bytes.toString('utf8', at + 2, at + 2 + length);
    at += 2 + length;
  } else {
    key = bytes.readDoubleLE(at);
    at += 8;
  }
  if (form === NO_VALUE) return { change: { table, key, value: undefined }, end: at };
  const length = bytes.readUInt32LE(at);
  const end = at + 4 + length;
  const value = form === TEXT ? bytes.toString('utf8', at + 4, end) : bytes.subarray(at + 4, end);
  return { change: { table, key, value }, end };
}

function corruptEntry(reason: string): StoreCorruptError {
  return new StoreCorruptError(`an entry of the cluster's log cannot be read: ${reason}; nothing was changed`, {
    data: { reason },
  });
}
