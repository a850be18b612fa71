/**
 * Makes a store from a backup. The store is made in a directory beside the target, and then renamed to the target. So
 * the target has the whole store or nothing. Before, all rows of the logs are read and their checksums compared, as by
 * `troupe doctor check`. That command also folds each session; a backup is a copy, so its rows are enough here.
 *
 * The backup of an encrypted store is encrypted. Its checksums cover the encrypted bytes, so no key is needed here.
 *
 * The store gets no search index, and the first search builds one. An index of the original store would not do: it
 * lacks the sessions that were deleted after the backup, and nothing would show that they are missing.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { ConfigError, describeValue } from '../../base/errors.ts';
import { PRIVATE_DIRECTORY_MODE } from '../../base/private-files.ts';
// This import is static. With a dynamic import, a bundler that drops an unused `restore` would still write a file for
// the imported module.
import { openSalvage } from '../check/salvage-store.ts';
import { openError } from '../lmdb/errors.ts';
import { DATA_FILE } from '../lmdb/tables.ts';
import { copyWhole, namesIn, RESULT_FILE, sizeOf } from './backup.ts';
import { BACKUP_FOLDERS, type BackupRecord, corruptBackup, readBackupRecord } from './backup-record.ts';
import { isThere, syncDirectory } from './durable-file.ts';
import { refuseIfOwned } from './lock.ts';
import { shardDirectory, writeManifest } from './manifest.ts';

/** A store made from a backup. */
export interface RestoreReport {
  /** The data directory, absolute. */
  readonly directory: string;
  /** Epoch ms at which the backup began: everything acknowledged before that time is in the store. */
  readonly startedAt: number;
  readonly shards: number;
  readonly sessions: number;
  readonly results: number;
  readonly bytes: number;
}

/**
 * Makes the data directory `directory` from the backup in `backup`, and checks the rows of all logs. The directory must
 * not exist, or must be empty. Reads all logs on the calling thread. Rejects with `ConfigError` (no backup, or a
 * directory with files), `StoreLockedError` while a backup is written there, `StoreCorruptError` for a damaged backup,
 * and `StoreFullError`. After a rejection `directory` is as it was.
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
    const shardBytes = await copyShards(from, record, made);
    const { sessions, owners } = await checkedSessions(made, from);
    const { results, bytes } = await copyFolders(from, record, made, owners);
    await moveInto(made, to);
    return {
      directory: to,
      startedAt: record.startedAt,
      shards: record.shards.length,
      sessions,
      results,
      bytes: shardBytes + bytes,
    };
  } catch (error) {
    await rm(made, { recursive: true, force: true });
    throw await openError(to, to, error);
  }
}

/** Renames `made` to `to`, durably. If the rename cannot be made durable, it is undone. */
async function moveInto(made: string, to: string): Promise<void> {
  const wasThere = await isThere(to);
  await rename(made, to);
  try {
    await syncDirectory(dirname(to));
  } catch (error) {
    await rename(to, made);
    if (wasThere) await mkdir(to, { mode: PRIVATE_DIRECTORY_MODE });
    throw error;
  }
}

function pathOf(name: string, value: string): string {
  if (typeof value === 'string' && value.trim() !== '') return resolve(value);
  throw new ConfigError(`restore: "${name}" must be a path, got ${describeValue(value)}`, { data: { key: name } });
}

/** Copies the shards into `made`, and makes it a store. Resolves to the bytes of the shards. */
async function copyShards(from: string, record: BackupRecord, made: string): Promise<number> {
  await mkdir(made, { recursive: true, mode: PRIVATE_DIRECTORY_MODE });
  for (const [shard, { file, bytes }] of record.shards.entries()) {
    const source = join(from, BACKUP_FOLDERS.shards, file);
    if ((await sizeOf(source)) !== bytes) throw corruptBackup(from, `${source} does not have ${bytes} bytes`);
    const target = shardDirectory(made, shard);
    await mkdir(target, { mode: PRIVATE_DIRECTORY_MODE });
    await copy(from, source, join(target, DATA_FILE));
    await syncDirectory(target);
  }
  await writeManifest(made, record.shards.length, record.encryption);
  return record.shards.reduce((sum, { bytes }) => sum + bytes, 0);
}

/** Copies the results of the sessions in the shards, and the cursors of webhooks. */
async function copyFolders(
  from: string,
  { cursors }: BackupRecord,
  made: string,
  owners: ReadonlySet<string>,
): Promise<{ readonly results: number; readonly bytes: number }> {
  const found = await namesIn(join(from, BACKUP_FOLDERS.results));
  const results = found.filter((name) => {
    const parts = RESULT_FILE.exec(name);
    // A session that was erased while the backup was made may have left results, which nothing would remove later.
    return parts !== null && (parts[2] === undefined || owners.has(`${parts[1]}-${parts[2]}`));
  });
  const folders = [
    { source: join(from, BACKUP_FOLDERS.results), target: join(made, BACKUP_FOLDERS.results), names: results },
    ...(cursors === undefined
      ? []
      : [
          {
            source: join(from, cursors),
            target: join(made, BACKUP_FOLDERS.cursors),
            names: await namesIn(join(from, cursors)),
          },
        ]),
  ];
  let bytes = 0;
  for (const { source, target, names } of folders) {
    if (names.length === 0) continue;
    await mkdir(target, { mode: PRIVATE_DIRECTORY_MODE });
    for (const name of names) {
      await copy(from, join(source, name), join(target, name));
      bytes += (await sizeOf(join(target, name))) ?? 0;
    }
    await syncDirectory(target);
  }
  await syncDirectory(made);
  return { results: results.length, bytes };
}

async function copy(backup: string, source: string, target: string): Promise<void> {
  if (!(await copyWhole(source, target))) throw corruptBackup(backup, `${source} is missing`);
}

/**
 * Checks the rows of a store. `sessions`: the number of its sessions. `owners`: the shard and key of
 * each session, as names of result files have them, including sessions that are still being erased.
 */
async function checkedSessions(
  made: string,
  backup: string,
): Promise<{ readonly sessions: number; readonly owners: ReadonlySet<string> }> {
  const store = await openSalvage(made);
  try {
    const [finding] = [...store.findings, ...store.shards.flatMap((shard) => shard.findings)];
    if (finding !== undefined) throw corruptBackup(backup, `${basename(dirname(finding.path))}: ${finding.reason}`);
    const owners = new Set<string>();
    let sessions = 0;
    for (const [shard, found] of store.shards.entries()) {
      const known = found.sessions();
      sessions += known.length;
      for (const key of [...known.map(([, each]) => each), ...found.contents.index.erasures.keys()]) {
        owners.add(`${shard}-${key}`);
        const origin = found.contents.index.origins.get(key);
        if (origin !== undefined) owners.add(origin);
      }
    }
    return { sessions, owners };
  } finally {
    store.close();
  }
}
