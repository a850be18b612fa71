/** Maps errors of LMDB and the file system to this library's errors. */
import { statfs } from 'node:fs/promises';
import { getSystemErrorName } from 'node:util';
import { defined } from '../../base/defined.ts';
import { asError, StoreCorruptError, StoreFullError, StoreNotWritableError, TroupeError } from '../../base/errors.ts';
import type { PageDamage } from './pages.ts';

/** LMDB's own codes for a damaged file: MDB_PAGE_NOTFOUND, MDB_CORRUPTED, MDB_INVALID. */
const CORRUPT_CODES: ReadonlySet<number> = new Set([-30_797, -30_796, -30_793]);
const MAP_FULL_CODE = -30_792;
const RIGHTS_REMEDY = 'give the user of this process the right to write it, or choose another directory';
/** The system's codes for a path that this process may not write, each with its remedy. */
const NOT_WRITABLE: ReadonlyMap<string, string> = new Map([
  ['EACCES', RIGHTS_REMEDY],
  ['EPERM', RIGHTS_REMEDY],
  ['EROFS', 'its file system is mounted read-only: mount it writable, or choose another directory'],
]);
const EIO = 5;
/** Bytes of free space below which a short write is blamed on a full device. */
const FREE_BYTES_MIN = 16 * 1024 * 1024;

/**
 * The reason of a rejected write. lmdb rejects with a general error; the error's `commitError` promise rejects with the
 * reason. Call this immediately, because that promise has no other handler.
 */
export async function commitCause(error: unknown): Promise<Error> {
  const pending = error instanceof Error && 'commitError' in error ? error.commitError : undefined;
  if (!(pending instanceof Promise)) return asError(error);
  try {
    await pending;
  } catch (reason) {
    return asError(reason);
  }
  return asError(error);
}

/**
 * Maps an error met while opening `path` in `directory`. Missing rights and a read-only file system become
 * `StoreNotWritableError`: only a person can change them. Another refusal of the system (descriptors, memory, space)
 * becomes `StoreFullError` with its code, because it may be temporary. A file that LMDB cannot read becomes
 * `StoreCorruptError`.
 */
export async function openError(directory: string, path: string, thrown: unknown): Promise<TroupeError> {
  const cause = asError(thrown);
  if (cause instanceof TroupeError) return cause;
  const isSystem = ('code' in cause && typeof cause.code === 'string') || (numericCode(cause) ?? 0) > 0;
  if (!isSystem) return corruptError(path, cause);
  const refusal = await writeError(directory, cause);
  const reason = refusal.data['reason'];
  if (typeof reason !== 'string' || !NOT_WRITABLE.has(reason)) return refusal;
  return new StoreNotWritableError(
    `the data directory ${directory} cannot be written: ${reason} (${cause.message}); ${NOT_WRITABLE.get(reason)}`,
    { cause: refusal.cause, data: { path: directory, reason } },
  );
}

/**
 * Maps a refused write of the store in `directory`: `StoreCorruptError` for a damaged file, otherwise `StoreFullError`.
 */
export async function writeError(directory: string, thrown: unknown): Promise<TroupeError> {
  const cause = asError(thrown);
  if (cause instanceof TroupeError) return cause;
  if (CORRUPT_CODES.has(numericCode(cause) ?? 0)) return corruptError(directory, cause);
  const code = await deviceCode(directory, cause);
  const reason = Object.assign(new Error(cause.message, { cause }), { code });
  return new StoreFullError(`the store ${directory} cannot be written: ${code} (${cause.message})`, {
    cause: reason,
    data: { path: directory, reason: code },
  });
}

/** The remedy for a damaged store: `data.hint` of every `StoreCorruptError` of a store. */
export const CORRUPT_HINT =
  '`troupe doctor DIR` reports the damage, `troupe doctor salvage DIR --to NEW` saves the readable part';

/** An error met while reading or opening: `StoreCorruptError` with the path, the reason and the remedy. */
export function corruptError(path: string, cause: Error): StoreCorruptError {
  return storeCorrupt(path, cause.message, cause, {});
}

/** Like `corruptError`, for damage found in the file. Names the page if it is known. */
export function damageError(path: string, damage: PageDamage): StoreCorruptError {
  return storeCorrupt(path, damage.message, damage, defined({ page: damage.page }));
}

function storeCorrupt(
  path: string,
  reason: string,
  cause: Error,
  place: Readonly<Record<string, unknown>>,
): StoreCorruptError {
  return new StoreCorruptError(
    `the store ${path} cannot be read: ${reason}; its files were not changed. ${CORRUPT_HINT}`,
    { cause, data: { path, reason, ...place, hint: CORRUPT_HINT } },
  );
}

/** True if the address space of the map is used up; lmdb's writer thread then enlarges it. */
export function isMapFull(thrown: unknown): boolean {
  return numericCode(asError(thrown)) === MAP_FULL_CODE;
}

async function deviceCode(directory: string, cause: Error): Promise<string> {
  if ('code' in cause && typeof cause.code === 'string') return cause.code;
  const code = numericCode(cause);
  if (code === undefined) return 'UNKNOWN';
  if (code === MAP_FULL_CODE) return 'MDB_MAP_FULL';
  // LMDB reports a partial write as an input/output error. A full device causes partial writes.
  if (code === EIO && (await freeBytes(directory)) < FREE_BYTES_MIN) return 'ENOSPC';
  return code > 0 ? getSystemErrorName(-code) : `MDB_${code}`;
}

async function freeBytes(directory: string): Promise<number> {
  try {
    const { bavail, bsize } = await statfs(directory);
    return bavail * bsize;
  } catch {
    // If the free space is unknown, the original error is still the one to report.
    return Number.POSITIVE_INFINITY;
  }
}

function numericCode(error: Error): number | undefined {
  return 'code' in error && typeof error.code === 'number' ? error.code : undefined;
}
