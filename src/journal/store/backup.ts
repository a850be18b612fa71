/**
 * Writes a backup of an open store into a directory. The next backup into that directory replaces it.
 *
 * Owns: the files of the backup directory, while it has that directory's lock. Does not own: the store, which it reads;
 * the copies of shards, which their owners make.
 *
 * Invariants:
 *  B1 the former backup stays whole until the record of the next backup is durable. Until then, no file in the former
 *     record is changed or removed. So a crash at any moment leaves one whole backup;
 *  B2 every file in a record was synced before the record was written, and so was the directory of the file;
 *  B3 the copy of a shard shows one of its commits. The backup has each tool result that a shard needs: results are
 *     copied before and after the shards, and never change. Only a session that is erased meanwhile may lack results.
 *     Such a session may also leave results in the backup, and `restore` does not copy those;
 *  B4 cursors of webhooks are copied before the shards. So each notice in a cursor is in the backup. A restored store
 *     delivers again the notices that were delivered during the backup;
 *  B5 a directory that has other files than a backup's is refused before anything is written.
 */
import { randomUUID } from 'node:crypto';
import { constants, copyFile, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { BACKUP_FILES_AT_ONCE } from '../../base/bounds.ts';
import { ConfigError, systemCodeOf } from '../../base/errors.ts';
import { PRIVATE_DIRECTORY_MODE, PRIVATE_FILE_MODE } from '../../base/private-files.ts';
import { writeError } from '../lmdb/errors.ts';
import { DATA_FILE } from '../lmdb/tables.ts';
import type { JournalCopy } from '../position.ts';
import {
  BACKUP_FOLDERS,
  type BackedUpShard,
  type BackupRecord,
  backupRecord,
  readBackupRecord,
  writeBackupRecord,
} from './backup-record.ts';
import { syncDirectory } from './durable-file.ts';
import { acquireStoreLock } from './lock.ts';
import { readManifest } from './manifest.ts';

/** The source of a backup. */
export interface BackupSource {
  /** The data directory. */
  readonly store: string;
  readonly shards: number;
  /** Copies a shard into a directory; see `Journal.copyTo`. */
  readonly copyShard: (shard: number, directory: string, known: string | undefined) => Promise<JournalCopy>;
  /** Epoch ms. */
  readonly now: () => number;
}

/** The function that writes a backup: `writeBackup`, or the one of a simulator. */
export type WriteBackup = (directory: string, source: BackupSource) => Promise<BackupReport>;

/** The contents of a backup, and the part of it that had to be copied. */
export interface BackupReport {
  /** The directory of the backup, absolute. */
  readonly directory: string;
  /** Bytes of the whole backup. */
  readonly bytes: number;
  /** Bytes that were copied. The rest is from the former backup. */
  readonly copiedBytes: number;
  readonly shards: number;
  /** Shards that were copied, because they had a commit since the former backup. */
  readonly copiedShards: number;
  /** Whole texts of shortened results, each a file. */
  readonly results: number;
  readonly copiedResults: number;
}

/**
 * The file name of a result, with the shard and the key that its session had when the session was made
 * (`Journal.originOf`). In stores before format 4 the name has neither.
 */
export const RESULT_FILE: RegExp = /^tool_result_(?:(\d+)-(\d+)_)?[0-9a-f]+\.txt$/;
/** The file name of a webhook's cursor. */
export const CURSOR_FILE: RegExp = /^[0-9a-f]+\.json$/;
/** A copy of a shard is made here and then moved to its name. */
const UNFINISHED_FOLDER = 'unfinished';
/** Files and folders that a directory may have when a backup is written into it (B5). */
const OWN_NAMES = /^(backup\.json.*|shards|results|webhooks-[0-9a-f-]+|unfinished|owner-.*)$/;

/**
 * Makes `directory` a backup of the store as it is now, or brings the backup in it up to date. Rejects with
 * `ConfigError` for a directory that has other files, and with `StoreLockedError` while another backup is written
 * there. Also rejects with the errors of the store and the system. After a rejection the directory still has a whole
 * backup if it had one (B1).
 */
export async function writeBackup(directory: string, source: BackupSource): Promise<BackupReport> {
  await refuseOthers(directory);
  const lock = await acquireStoreLock(directory);
  try {
    return await new BackupRun(directory, source).run();
  } catch (error) {
    throw systemCodeOf(error) === undefined ? error : await writeError(directory, error);
  } finally {
    await lock.release();
  }
}

/** Copies the parts of a store. */
export interface BackupCopies<Cursors, Shards> {
  readonly cursors: () => Promise<Cursors>;
  readonly shards: () => Promise<Shards>;
  /** Copies the results that are not copied yet. */
  readonly results: () => Promise<void>;
}

/** Copies the parts of a store in the order of B3 and B4. */
export async function copyInOrder<Cursors, Shards>(
  copies: BackupCopies<Cursors, Shards>,
): Promise<{ readonly cursors: Cursors; readonly shards: Shards }> {
  const cursors = await copies.cursors();
  // Most results are copied before the shards, so that little is left to copy after them.
  await copies.results();
  const shards = await copies.shards();
  await copies.results();
  return { cursors, shards };
}

class BackupRun {
  readonly #directory: string;
  readonly #source: BackupSource;
  /** The results of the store that are in the backup so far, and their bytes. */
  readonly #results = new Map<string, number>();
  #copiedResults = 0;
  #copiedBytes = 0;

  constructor(directory: string, source: BackupSource) {
    this.#directory = directory;
    this.#source = source;
  }

  async run(): Promise<BackupReport> {
    const former = await readBackupRecord(this.#directory);
    await this.#removeOthers(former);
    const startedAt = this.#source.now();
    const manifest = await readManifest(this.#source.store);
    const { cursors, shards } = await copyInOrder({
      cursors: () => this.#copyCursors(),
      shards: () => this.#copyShards(former),
      results: () => this.#copyResults(),
    });
    const record = backupRecord({
      startedAt,
      shards: shards.map(({ file, mark, bytes }) => ({ file, mark, bytes })),
      cursors,
      encryption: manifest?.encryption,
    });
    await writeBackupRecord(this.#directory, record);
    await this.#removeOthers(record);
    await this.#removeOldResults();
    const bytes = [...this.#results.values(), ...shards.map((shard) => shard.bytes)].reduce(
      (sum, each) => sum + each,
      0,
    );
    return {
      directory: this.#directory,
      bytes,
      copiedBytes: this.#copiedBytes,
      shards: shards.length,
      copiedShards: shards.filter(({ isCopied }) => isCopied).length,
      results: this.#results.size,
      copiedResults: this.#copiedResults,
    };
  }

  async #copyShards(former: BackupRecord | undefined): Promise<readonly CopiedShard[]> {
    const folder = join(this.#directory, BACKUP_FOLDERS.shards);
    await mkdir(folder, { recursive: true, mode: PRIVATE_DIRECTORY_MODE });
    const copied: CopiedShard[] = [];
    // The shards are copied one after the other: each copy takes the device's whole speed, and holds pages of its shard
    // while it runs.
    for (let shard = 0; shard < this.#source.shards; shard += 1) {
      copied.push(await this.#copyShard(shard, folder, former?.shards[shard]));
    }
    await syncDirectory(folder);
    await syncDirectory(this.#directory);
    return copied;
  }

  async #copyShard(shard: number, folder: string, known: BackedUpShard | undefined): Promise<CopiedShard> {
    const unfinished = join(this.#directory, UNFINISHED_FOLDER);
    await mkdir(unfinished, { recursive: true, mode: PRIVATE_DIRECTORY_MODE });
    const isThere = known !== undefined && (await sizeOf(join(folder, known.file))) === known.bytes;
    const { mark, bytes } = await this.#source.copyShard(shard, unfinished, isThere ? known.mark : undefined);
    if (bytes === undefined) {
      if (known === undefined) throw new Error(`shard ${shard} was not copied`);
      return { ...known, isCopied: false };
    }
    const file = `${shard}-${randomUUID()}.mdb`;
    await rename(join(unfinished, DATA_FILE), join(folder, file));
    this.#copiedBytes += bytes;
    return { file, mark, bytes, isCopied: true };
  }

  /** Copies the results that the backup lacks. */
  async #copyResults(): Promise<void> {
    const from = join(this.#source.store, 'results');
    const to = join(this.#directory, BACKUP_FOLDERS.results);
    const names = (await namesIn(from)).filter((name) => RESULT_FILE.test(name) && !this.#results.has(name));
    if (names.length === 0) return;
    await mkdir(to, { recursive: true, mode: PRIVATE_DIRECTORY_MODE });
    for (let at = 0; at < names.length; at += BACKUP_FILES_AT_ONCE) {
      const some = names.slice(at, at + BACKUP_FILES_AT_ONCE);
      await Promise.all(some.map((name) => this.#copyResult(join(from, name), join(to, name), name)));
    }
    await syncDirectory(to);
  }

  /** The name of a result is made from its contents, so a whole file of that name needs no copy. */
  async #copyResult(from: string, to: string, name: string): Promise<void> {
    const bytes = await sizeOf(from);
    // The result was removed meanwhile, with its session.
    if (bytes === undefined) return;
    if ((await sizeOf(to)) !== bytes) {
      if (!(await copyWhole(from, to))) return;
      this.#copiedResults += 1;
      this.#copiedBytes += bytes;
    }
    this.#results.set(name, bytes);
  }

  /** Copies the cursors of webhooks into a new folder; resolves to its name. */
  async #copyCursors(): Promise<string | undefined> {
    const from = join(this.#source.store, BACKUP_FOLDERS.cursors);
    const names = (await namesIn(from)).filter((name) => CURSOR_FILE.test(name));
    if (names.length === 0) return undefined;
    const folder = `${BACKUP_FOLDERS.cursors}-${randomUUID()}`;
    const to = join(this.#directory, folder);
    await mkdir(to, { mode: PRIVATE_DIRECTORY_MODE });
    for (const name of names) await copyWhole(join(from, name), join(to, name));
    await syncDirectory(to);
    return folder;
  }

  /** Removes the files that are not in `record`: those of a run that ended early, and those of a former backup. */
  async #removeOthers(record: BackupRecord | undefined): Promise<void> {
    const shards = join(this.#directory, BACKUP_FOLDERS.shards);
    const kept = new Set<string>([BACKUP_FOLDERS.shards, BACKUP_FOLDERS.results, record?.cursors ?? '']);
    const files = new Set(record?.shards.map(({ file }) => file));
    for (const name of await namesIn(this.#directory)) {
      const isOurs = /^(webhooks-.*|unfinished|backup\.json\..*\.new)$/.test(name);
      if (isOurs && !kept.has(name)) await rm(join(this.#directory, name), { recursive: true, force: true });
    }
    for (const name of await namesIn(shards)) if (!files.has(name)) await rm(join(shards, name), { force: true });
  }

  /** Removes the results that the store no longer has. */
  async #removeOldResults(): Promise<void> {
    const folder = join(this.#directory, BACKUP_FOLDERS.results);
    for (const name of await namesIn(folder))
      if (!this.#results.has(name)) await rm(join(folder, name), { force: true });
  }
}

type CopiedShard = BackedUpShard & { readonly isCopied: boolean };

/** Enforces B5. */
async function refuseOthers(directory: string): Promise<void> {
  const other = (await namesIn(directory)).find((name) => !OWN_NAMES.test(name));
  if (other === undefined) return;
  throw new ConfigError(`${directory} has files that are not of a backup, such as ${other}: choose a new directory`, {
    data: { path: directory },
  });
}

/**
 * Copies a file under another name, syncs the copy, and moves it into place. Resolves to false if the source is gone.
 */
export async function copyWhole(from: string, to: string): Promise<boolean> {
  const unfinished = `${to}.${randomUUID()}.part`;
  try {
    await copyFile(from, unfinished, constants.COPYFILE_EXCL);
    const file = await open(unfinished, 'r+');
    try {
      await file.chmod(PRIVATE_FILE_MODE);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(unfinished, to);
    return true;
  } catch (error) {
    await rm(unfinished, { force: true });
    if (systemCodeOf(error) === 'ENOENT' && (await sizeOf(from)) === undefined) return false;
    throw error;
  }
}

/** The names in a directory; none if it does not exist. */
export async function namesIn(directory: string): Promise<readonly string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return [];
    throw error;
  }
}

/** Bytes of a file; undefined if there is none. */
export async function sizeOf(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}
