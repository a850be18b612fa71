/**
 * Makes a store of a backup. The store is made beside its place, checked as `troupe doctor check` checks one, and then
 * moved into place. So its directory has the whole store or nothing.
 *
 * The store gets no search index: the index of another store could be taken for its own, although sessions differ that
 * were deleted after the backup. It is built again by the first search.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { ConfigError, describeValue } from '../../base/errors.ts';
import { PRIVATE_DIRECTORY_MODE } from '../../base/private-files.ts';
import { openError } from '../lmdb/errors.ts';
import { DATA_FILE } from '../lmdb/tables.ts';
import { copyWhole, namesIn, sizeOf } from './backup.ts';
import { BACKUP_FOLDERS, type BackupRecord, corruptBackup, readBackupRecord } from './backup-record.ts';
import { syncDirectory } from './durable-file.ts';
import { refuseIfOwned } from './lock.ts';
import { shardDirectory, writeManifest } from './manifest.ts';

/** A store made of a backup. */
export interface RestoreReport {
  /** The data directory, absolute. */
  readonly directory: string;
  /** Epoch ms at which the backup began: all that was acknowledged before is in the store. */
  readonly startedAt: number;
  readonly shards: number;
  readonly sessions: number;
  readonly results: number;
  readonly bytes: number;
}

/**
 * Makes the data directory `directory` of the backup in `backup`, and checks all of it. The directory must not exist, or
 * be empty. Reads the whole store on the calling thread. Rejects with `ConfigError` (no backup, or a directory with
 * files), `StoreLockedError` while a backup is written there, `StoreCorruptError` for a damaged backup, and
 * `StoreFullError`. After a rejection `directory` is as it was.
 */
export async function restore(backup: string, directory: string): Promise<RestoreReport> {
  const [from, to] = [pathOf('backup', backup), pathOf('directory', directory)];
  const record = await readBackupRecord(from);
  if (record === undefined) throw new ConfigError(`${from} holds no backup`, { data: { path: from } });
  await refuseIfOwned(from);
  const [found] = await namesIn(to);
  if (found !== undefined) {
    throw new ConfigError(`${to} is not empty: a backup is restored into a new directory`, { data: { path: to } });
  }
  const made = join(dirname(to), `.${basename(to)}.restoring-${randomUUID()}`);
  try {
    const { results, bytes } = await copyBackup(from, record, made);
    const sessions = await checkedSessions(made, from);
    await rename(made, to);
    await syncDirectory(dirname(to));
    return { directory: to, startedAt: record.startedAt, shards: record.shards.length, sessions, results, bytes };
  } catch (error) {
    await rm(made, { recursive: true, force: true });
    throw await openError(to, to, error);
  }
}

function pathOf(name: string, value: string): string {
  if (typeof value === 'string' && value.trim() !== '') return resolve(value);
  throw new ConfigError(`restore: "${name}" must be a path, got ${describeValue(value)}`, { data: { key: name } });
}

async function copyBackup(
  from: string,
  record: BackupRecord,
  made: string,
): Promise<{ readonly results: number; readonly bytes: number }> {
  let bytes = 0;
  const copy = async (source: string, target: string): Promise<void> => {
    if (!(await copyWhole(source, target))) throw corruptBackup(from, `${source} is missing`);
    bytes += (await sizeOf(target)) ?? 0;
  };
  await mkdir(made, { recursive: true, mode: PRIVATE_DIRECTORY_MODE });
  for (const [shard, { file, bytes: size }] of record.shards.entries()) {
    const source = join(from, BACKUP_FOLDERS.shards, file);
    if ((await sizeOf(source)) !== size) throw corruptBackup(from, `${source} does not have ${size} bytes`);
    const target = shardDirectory(made, shard);
    await mkdir(target, { mode: PRIVATE_DIRECTORY_MODE });
    await copy(source, join(target, DATA_FILE));
    await syncDirectory(target);
  }
  const results = await namesIn(join(from, BACKUP_FOLDERS.results));
  const folders = [
    [BACKUP_FOLDERS.results, BACKUP_FOLDERS.results],
    ...(record.cursors === undefined ? [] : [[record.cursors, BACKUP_FOLDERS.cursors]]),
  ] as const;
  for (const [source = '', target = ''] of folders) {
    const names = await namesIn(join(from, source));
    if (names.length === 0) continue;
    await mkdir(join(made, target), { mode: PRIVATE_DIRECTORY_MODE });
    for (const name of names) await copy(join(from, source, name), join(made, target, name));
    await syncDirectory(join(made, target));
  }
  await writeManifest(made, record.shards.length);
  return { results: results.length, bytes };
}

/** Checks a store as `troupe doctor check` does; resolves to the number of its sessions. */
async function checkedSessions(made: string, backup: string): Promise<number> {
  // Imported only on use: a program that opens stores needs none of it.
  const { openSalvage } = await import('../check/salvage-store.ts');
  const store = await openSalvage(made);
  try {
    const [finding] = [...store.findings, ...store.shards.flatMap((shard) => shard.findings)];
    if (finding !== undefined) throw corruptBackup(backup, `${basename(dirname(finding.path))}: ${finding.reason}`);
    return store.shards.reduce((sum, shard) => sum + shard.sessions().length, 0);
  } finally {
    store.close();
  }
}
