/**
 * Opening the LMDB environment of one shard: looked at first, made whole or not at all, never written when it is not ours.
 *
 * Options, and why:
 *  - `overlappingSync: false`. lmdb's default shows a commit to readers before it is on disk; when the fsync then fails, what
 *    was refused has been seen (J3), and a waiter for `flushed` waits for ever. Without it a write resolves after fdatasync
 *    and the synchronous write of the meta page, and rejects otherwise. It costs nothing measurable.
 *  - `eventTurnBatching: false` and `batchStartThreshold` beyond any batch: the writer thread is only started on a batch that is
 *    complete. Started earlier it would wait for its end, holding the write lock, for a thread that may be terminated meanwhile.
 *  - `mapSize` of `STORE_MAP_BYTES`: the map is address space, not memory and (but on Windows) not disk, and a fixed map is never
 *    remapped under its readers. 64 shards of 64 GiB are 4 TiB of the 128 TiB a process has. lmdb enlarges it when it is used up.
 *  - `noSync` for `'os'`: pages are handed to the system, nothing waits for the device. A killed process loses nothing. A power
 *    loss may lose the last moments, and, as pages may reach the device out of order, may in the worst case damage the file.
 */
import { closeSync, fstatSync, openSync, writeSync } from 'node:fs';
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Database, type Key, open, type RootDatabase, type RootDatabaseOptionsWithPath } from 'lmdb';
import { STORE_LOCK_FILE_BYTES, STORE_MAP_BYTES, STORE_OPEN_BYTES } from '../../base/bounds.ts';
import { CancelledError, type StoreLostError } from '../../base/errors.ts';
import { PRIVATE_DIRECTORY_MODE, PRIVATE_FILE_MODE } from '../../base/private-files.ts';
import type { Durability, ThreadGate } from '../journal.ts';
import { sealText } from '../rows/sealed-text.ts';
import { syncDirectory } from '../store/durable-file.ts';
import { DataFile } from './data-file.ts';
import { commitCause, corruptError, openError, writeError } from './errors.ts';
import { checkLmdbFile } from './file.ts';
import { DATA_FILE, LOCK_FILE, STORE_FORMAT } from './tables.ts';

/** Where a new environment is made before it is moved into place. */
const BIRTH_DIRECTORY = 'creating';
const DATABASES_MAX = 12;

/** How an LMDB journal is opened. */
export interface LmdbOptions {
  readonly directory: string;
  readonly durability: Durability;
  /** Bytes of address space for the file; `STORE_MAP_BYTES` when missing. It is enlarged when it is used up. */
  readonly mapSizeBytes?: number;
  /** As of `JournalOptions`. */
  readonly gate?: ThreadGate;
  /** As of `JournalOptions`. */
  readonly onLost?: (error: StoreLostError) => void;
}

/** A table whose entries are put behind all others: LMDB then fills its pages. `append` is missing from lmdb's types of `put`. */
export interface AppendedTable {
  /** The key must be above all in the table; what is not is not written. */
  put(key: number, value: Buffer, options: { readonly append: true }): Promise<boolean>;
}

/** An open environment and its tables. */
export interface LmdbEnvironment {
  /** Room behind the pages, and whether the file is still there. */
  readonly file: DataFile;
  readonly root: RootDatabase<unknown, Key>;
  /** Row number -> row. */
  readonly log: Database<Buffer, number> & AppendedTable;
  readonly names: Database<string, string>;
  readonly keys: Database<string, number>;
  readonly heads: Database<string, number>;
  readonly lastRows: Database<string, number>;
  readonly runnable: Database<string, number>;
  /** Hex address -> form byte and text. */
  readonly blobs: Database<Buffer, string>;
  /** `format`, `fence` (its version is the fence), `nextKey`, `checkpoint`; sealed, as all text is. */
  readonly meta: Database<string, string>;
}

/**
 * Opens the environment of `options.directory`, or makes it. Throws `StoreCorruptError` (damaged, foreign, or its data file is
 * gone), `StoreVersionError` (newer format), `StoreFullError` (the system refuses); in the first two nothing was written.
 */
export async function openEnvironment(options: LmdbOptions): Promise<LmdbEnvironment> {
  const { directory } = options;
  const path = join(directory, DATA_FILE);
  try {
    if (await exists(path)) {
      await checkLmdbFile(path);
    } else {
      await createEnvironment(options);
    }
    return openTables(options);
  } catch (error) {
    throw await openError(directory, path, error);
  }
}

/** Makes the environment of `options.directory` unless it is there. Rejects as `openEnvironment`. */
export async function createLmdbStore(options: LmdbOptions): Promise<void> {
  const path = join(options.directory, DATA_FILE);
  try {
    if (!(await exists(path))) await createEnvironment(options);
  } catch (error) {
    throw await openError(options.directory, path, error);
  }
}

/** Makes the environment under another name and moves its file into place, so that a half-made one is never met. */
async function createEnvironment(options: LmdbOptions): Promise<void> {
  const { directory } = options;
  const birth = join(directory, BIRTH_DIRECTORY);
  await mkdir(directory, { recursive: true, mode: PRIVATE_DIRECTORY_MODE });
  if ((await readdir(directory)).includes(LOCK_FILE)) {
    throw corruptError(directory, new Error(`${DATA_FILE} is gone, ${LOCK_FILE} is still there`));
  }
  await rm(birth, { recursive: true, force: true });
  await mkdir(birth, { mode: PRIVATE_DIRECTORY_MODE });
  const environment = openTables({ ...options, directory: birth, durability: 'flush' });
  try {
    await writeBirthRecords(environment);
  } catch (error) {
    throw await writeError(directory, await commitCause(error));
  } finally {
    await closeEnvironment(environment);
  }
  await rename(join(birth, DATA_FILE), join(directory, DATA_FILE));
  await syncDirectory(directory);
  await rm(birth, { recursive: true, force: true });
}

async function writeBirthRecords({ meta }: LmdbEnvironment): Promise<void> {
  await meta.batch(() => {
    void meta.put('format', sealText('meta', 'format', String(STORE_FORMAT)), 0);
    void meta.put('fence', sealText('meta', 'fence', '0'), 0);
  });
}

const TEXT_TABLE = { encoding: 'string', cache: false } as const;
const NUMBERED_TEXT_TABLE = { encoding: 'string', keyEncoding: 'uint32', cache: false } as const;

/** Inside the gate: lmdb opens each table in a transaction of the script. Throws `CancelledError` where the thread is about to end. */
function openTables(options: LmdbOptions): LmdbEnvironment {
  const { gate } = options;
  if (gate?.enter() === false) throw new CancelledError('the thread that opens the store is about to end');
  try {
    return openAllTables(options);
  } finally {
    gate?.leave();
  }
}

/** Closes it and lets its file go. */
export async function closeEnvironment({ root, file }: LmdbEnvironment): Promise<void> {
  await root.close();
  await file.close();
}

function openAllTables(options: LmdbOptions): LmdbEnvironment {
  const { directory, durability, onLost } = options;
  makeLockFile(join(directory, LOCK_FILE));
  const root = open<unknown, Key>(environmentOptions(options));
  let file: DataFile | undefined;
  try {
    file = new DataFile({
      directory,
      path: join(directory, DATA_FILE),
      isSynced: durability !== 'os',
      ...(onLost === undefined ? {} : { onLost }),
    });
    // Each table that is made is a commit; where all are there, none is.
    if (file.end < STORE_OPEN_BYTES) file.growNow(STORE_OPEN_BYTES);
    return openOver(root, file);
  } catch (error) {
    // Both wait for what is under way, of which there is nothing yet; the first error is the one to be told.
    void root.close();
    void file?.close();
    throw error;
  }
}

/**
 * LMDB maps its table of readers and writes to it: blocks must stand behind it, or the process ends with SIGBUS. A file that is
 * there is only made longer, as another owner, about to be fenced off, may use it.
 */
function makeLockFile(path: string): void {
  const descriptor = openSync(path, 'a', PRIVATE_FILE_MODE);
  try {
    const missing = STORE_LOCK_FILE_BYTES - fstatSync(descriptor).size;
    if (missing === STORE_LOCK_FILE_BYTES) writeSync(descriptor, Buffer.alloc(missing));
  } finally {
    closeSync(descriptor);
  }
}

function openOver(root: RootDatabase<unknown, Key>, file: DataFile): LmdbEnvironment {
  return {
    file,
    root,
    log: root.openDB<Buffer, number>('log', { encoding: 'binary' }),
    names: root.openDB<string, string>('names', TEXT_TABLE),
    keys: root.openDB<string, number>('keys', NUMBERED_TEXT_TABLE),
    heads: root.openDB<string, number>('heads', NUMBERED_TEXT_TABLE),
    lastRows: root.openDB<string, number>('lastRows', NUMBERED_TEXT_TABLE),
    runnable: root.openDB<string, number>('runnable', NUMBERED_TEXT_TABLE),
    blobs: root.openDB<Buffer, string>('blobs', { encoding: 'binary' }),
    meta: root.openDB<string, string>('meta', { ...TEXT_TABLE, useVersions: true }),
  };
}

/** See the head of this file. `batchStartThreshold` and `permissionsMode` are missing from lmdb's types. */
function environmentOptions(
  options: LmdbOptions,
): RootDatabaseOptionsWithPath & { readonly batchStartThreshold: number; readonly permissionsMode: number } {
  return {
    path: options.directory,
    noSubdir: false,
    maxDbs: DATABASES_MAX,
    mapSize: options.mapSizeBytes ?? STORE_MAP_BYTES,
    overlappingSync: false,
    eventTurnBatching: false,
    batchStartThreshold: Number.MAX_SAFE_INTEGER,
    noSync: options.durability === 'os',
    permissionsMode: PRIVATE_FILE_MODE,
  };
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return false;
    throw error;
  }
}
