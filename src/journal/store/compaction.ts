/**
 * Makes the files of a store small again: each shard's file is replaced by a compact copy of itself.
 *
 * LMDB reuses the pages that commits free, but it never gives them back. So a file keeps the size of its largest moment,
 * and bytes of deleted sessions lie in free pages until other bytes replace them. The copy has neither.
 *
 * It runs only while no process has the store open. A running shard maps its file, and other threads of the process read
 * it. To replace the file under them, the shard would have to stop all commits for the whole copy.
 *
 * Owns: the folder `compacting` of each shard. Does not own: the store's lock, which its caller holds.
 *
 * Invariants:
 *  Q1 the copy is complete, synced and checked before it takes the file's name, in one rename. So a crash at any moment
 *     leaves the old file or the new one, each with the same contents;
 *  Q2 what a crash left of a copy is removed before anything else happens;
 *  Q3 the file is replaced only while the caller holds the store's lock, and before its shard is opened: no commit can be
 *     lost with the old file.
 */
import { mkdir, rename, rm, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { COMPACT_AT_OPEN_BYTES_MAX, COMPACT_FREE_BYTES_MIN, COMPACT_FREE_SHARE_MIN } from '../../base/bounds.ts';
import { ConfigError, describeValue } from '../../base/errors.ts';
import { PRIVATE_DIRECTORY_MODE } from '../../base/private-files.ts';
import { openError } from '../lmdb/errors.ts';
import { checkLmdbFile } from '../lmdb/file.ts';
import { type FileUse, useOf } from '../lmdb/file-use.ts';
import { DATA_FILE } from '../lmdb/tables.ts';
import { syncDirectory } from './durable-file.ts';
import { acquireStoreLock } from './lock.ts';
import { readManifest, shardDirectory } from './manifest.ts';

/** A copy is made here and then moved into place. */
const UNFINISHED_FOLDER = 'compacting';

/** The result of a compaction. */
export interface CompactionReport {
  /** The data directory, absolute. */
  readonly directory: string;
  readonly shards: number;
  /** Bytes of the shards' files before and after. */
  readonly bytesBefore: number;
  readonly bytes: number;
}

/**
 * Replaces the file of every shard of a data directory by a compact copy. No process may have the directory open; the
 * copies need as much free space as the largest shard has contents. Rejects with `ConfigError` (no store),
 * `StoreLockedError` (a process has it open), `StoreCorruptError`, and `StoreFullError`. After a rejection each shard has
 * its old file or its new one.
 */
export async function compact(directory: string): Promise<CompactionReport> {
  if (typeof directory !== 'string' || directory.trim() === '') {
    throw new ConfigError(`compact: "directory" must be a path, got ${describeValue(directory)}`, {
      data: { key: 'directory' },
    });
  }
  const root = resolve(directory);
  // The lock would create the directory.
  if (!(await isThere(root)) || (await readManifest(root)) === undefined) {
    throw new ConfigError(`${root} holds no store`, { data: { path: root } });
  }
  const lock = await acquireStoreLock(root);
  try {
    const shards = (await readManifest(root))?.shards ?? 0;
    const { bytesBefore, bytes } = await compactShards(root, shards, () => true);
    return { directory: root, shards, bytesBefore, bytes };
  } finally {
    await lock.release();
  }
}

/**
 * Compacts those shards of a store that have many free pages and few others, so that an open stays quick. The caller
 * holds the lock of the directory. Resolves to the bytes of the replaced files, before and after. Rejects like `compact`.
 */
export function compactAtOpen(root: string, shards: number): Promise<Pick<CompactionReport, 'bytesBefore' | 'bytes'>> {
  return compactShards(root, shards, isWorthIt);
}

function isWorthIt({ bytes, freeBytes }: FileUse): boolean {
  const used = bytes - freeBytes;
  return (
    freeBytes >= COMPACT_FREE_BYTES_MIN &&
    freeBytes >= bytes * COMPACT_FREE_SHARE_MIN &&
    used <= COMPACT_AT_OPEN_BYTES_MAX
  );
}

async function compactShards(
  root: string,
  shards: number,
  isMeant: (use: FileUse) => boolean,
): Promise<{ readonly bytesBefore: number; readonly bytes: number }> {
  let [bytesBefore, bytes] = [0, 0];
  for (let shard = 0; shard < shards; shard += 1) {
    const directory = shardDirectory(root, shard);
    const path = join(directory, DATA_FILE);
    try {
      await rm(join(directory, UNFINISHED_FOLDER), { recursive: true, force: true });
      if (!(await isThere(path))) continue;
      await checkLmdbFile(path);
      if (!isMeant(useOf(path))) continue;
      const { size } = await stat(path);
      bytes += await compactShard(directory);
      bytesBefore += size;
    } catch (error) {
      throw await openError(directory, path, error);
    }
  }
  return { bytesBefore, bytes };
}

/** Enforces Q1. Resolves to the bytes of the new file. */
async function compactShard(directory: string): Promise<number> {
  const unfinished = join(directory, UNFINISHED_FOLDER);
  await mkdir(unfinished, { mode: PRIVATE_DIRECTORY_MODE });
  try {
    // The database's code is loaded only if there is something to copy.
    const [{ copyCompact }, { openForCopy }] = await Promise.all([
      import('../lmdb/compact-copy.ts'),
      import('../lmdb/environment.ts'),
    ]);
    const source = openForCopy(directory);
    const bytes = await copyCompact(source, unfinished).finally(() => source.close());
    const copy = join(unfinished, DATA_FILE);
    await checkLmdbFile(copy);
    await rename(copy, join(directory, DATA_FILE));
    await syncDirectory(directory);
    return bytes;
  } finally {
    await rm(unfinished, { recursive: true, force: true });
  }
}

async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return false;
    throw error;
  }
}
