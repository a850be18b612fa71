/**
 * Makes the files of a store small again: each shard's file is replaced by a compact copy of itself.
 *
 * LMDB reuses the pages that commits free, but it never returns them to the file system. So a file keeps the largest
 * size that it ever had, and its free pages hold bytes of deleted sessions until other bytes replace them. A compact
 * copy has no free pages.
 *
 * This compaction runs only while no runtime uses the store. A shard that is open is compacted by `live-compaction.ts`.
 *
 * Owns: the folder `compacting` of each shard. Does not own: the store's lock, which its caller holds.
 *
 * Invariants:
 *  Q1 the copy is complete, synced and checked before it takes the file's name, in one rename. So a crash at any moment
 *     leaves the old file or the new one, each with the same contents;
 *  Q2 an unfinished copy that a crash left is removed before anything else is done with the shard;
 *  Q3 the file is replaced only while the caller holds the store's lock, and before its shard is opened. So no commit
 *     can be lost with the old file.
 */
import { mkdir, rename, rm, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { COMPACT_AT_OPEN_BYTES_MAX, COMPACT_FREE_BYTES_MIN, COMPACT_FREE_SHARE_MIN } from '../../base/bounds.ts';
import { ConfigError, describeValue } from '../../base/errors.ts';
import { PRIVATE_DIRECTORY_MODE } from '../../base/private-files.ts';
import { openError } from '../lmdb/errors.ts';
import { checkLmdbFile } from '../lmdb/file.ts';
import { useOf } from '../lmdb/file-use.ts';
import { COPY_FOLDER, DATA_FILE } from '../lmdb/tables.ts';
import { isThere, syncDirectory } from './durable-file.ts';
import { acquireStoreLock } from './lock.ts';
import { readSettledManifest, shardDirectory } from './manifest.ts';

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
 * Replaces the file of every shard of a data directory by a compact copy. No process may have the directory open. The
 * copies are made one after the other, so the free space must hold the contents of the largest shard. Rejects with
 * `ConfigError` (no store), `StoreLockedError` (a process has it open), `StoreCorruptError`, `StoreFullError`, and
 * `StoreNotWritableError`. After a rejection each shard has its old file or its new one.
 */
export async function compact(directory: string): Promise<CompactionReport> {
  if (typeof directory !== 'string' || directory.trim() === '') {
    throw new ConfigError(`compact: "directory" must be a path, got ${describeValue(directory)}`, {
      data: { key: 'directory' },
    });
  }
  const root = resolve(directory);
  // The lock would create the directory.
  if (!(await isThere(root)) || (await readSettledManifest(root)) === undefined) {
    throw new ConfigError(`${root} holds no store`, { data: { path: root } });
  }
  const lock = await acquireStoreLock(root);
  try {
    const shards = (await readSettledManifest(root))?.shards ?? 0;
    const { bytesBefore, bytes } = await compactShards(root, shards, () => true);
    return { directory: root, shards, bytesBefore, bytes };
  } finally {
    await lock.release();
  }
}

/**
 * Compacts only the shards with many free pages and few other pages, so that an open stays quick. The caller holds
 * the lock of the directory. Resolves to the bytes of the replaced files, before and after. Rejects with the errors
 * of `openError`.
 */
export function compactAtOpen(root: string, shards: number): Promise<Pick<CompactionReport, 'bytesBefore' | 'bytes'>> {
  return compactShards(root, shards, isWorthIt);
}

/**
 * True if a compaction of the file is worth its time. Reads a few pages only: the file is checked whole when it is
 * compacted, and again when its shard is opened.
 */
function isWorthIt(path: string): boolean {
  const { bytes, freeBytes } = useOf(path);
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
  isMeant: (path: string) => boolean,
): Promise<{ readonly bytesBefore: number; readonly bytes: number }> {
  let [bytesBefore, bytes] = [0, 0];
  for (let shard = 0; shard < shards; shard += 1) {
    const directory = shardDirectory(root, shard);
    const path = join(directory, DATA_FILE);
    try {
      await rm(join(directory, COPY_FOLDER), { recursive: true, force: true });
      if (!(await isThere(path))) continue;
      if (!isMeant(path)) continue;
      await checkLmdbFile(path);
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
  const unfinished = join(directory, COPY_FOLDER);
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
