/**
 * Opens the LMDB environment of one shard. The environment is checked first. It is created whole or not at all, and
 * never written if it is not ours.
 *
 * Options, and why:
 *  - `overlappingSync: false`. lmdb's default shows a commit to readers before it is on disk. If the fsync then fails,
 *    a reader has seen refused data (which violates J3), and a waiter for `flushed` waits forever. With `false` a write
 *    resolves after fdatasync and the synchronous write of the meta page, and rejects otherwise. The cost is not
 *    measurable.
 *  - `eventTurnBatching: false` and `batchStartThreshold` beyond any batch: the writer thread starts only on a complete
 *    batch. If it started earlier, it would hold the write lock while it waits for a thread that may be terminated.
 *  - `mapSize` of `STORE_MAP_BYTES`: the map is address space, not memory and (except on Windows) not disk. A fixed map
 *    is never remapped under its readers. 64 shards of 64 GiB are 4 TiB of the 128 TiB that a process can address. lmdb
 *    enlarges a map that is used up.
 *  - `noSync` for `'os'`: pages are handed to the system, and nothing waits for the device. A killed process loses
 *    nothing. A power loss may lose the last commits. Pages may reach the device out of order, so in the worst case a
 *    power loss damages the file.
 */
import { closeSync, fstatSync, openSync, writeSync } from 'node:fs';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as nextTick } from 'node:timers/promises';
import type * as lmdbLibrary from 'lmdb';
import type { Database, Key, RootDatabase, RootDatabaseOptionsWithPath } from 'lmdb';
import { STORE_LOCK_FILE_BYTES, STORE_MAP_BYTES, STORE_OPEN_BYTES } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { CancelledError, type StoreLostError } from '../../base/errors.ts';
import { loadLibrary } from '../../base/load-library.ts';
import { PRIVATE_DIRECTORY_MODE, PRIVATE_FILE_MODE } from '../../base/private-files.ts';
import type { StoreEncryption } from '../encryption/master-keys.ts';
import type { Durability, ThreadGate } from '../journal.ts';
import type { SliceWatch } from '../live-compaction.ts';
import { sealText } from '../rows/sealed-text.ts';
import { isThere, syncDirectory } from '../store/durable-file.ts';
import { DataFile } from './data-file.ts';
import { commitCause, corruptError, openError, writeError } from './errors.ts';
import { checkLmdbFile } from './file.ts';
import { DATA_FILE, LOCK_FILE, STORE_FORMAT, TABLE_FLAGS } from './tables.ts';

// lmdb and its packages are one file each as CommonJS. As ES modules they are a dozen files, and loading them takes
// twelve milliseconds longer.
const lmdb = loadLibrary('lmdb') as typeof lmdbLibrary;

/** A transaction that returns this value writes nothing. */
export const NO_COMMIT: typeof lmdbLibrary.ABORT = lmdb.ABORT;

/** A new environment is created in this folder and then moved into place. */
const BIRTH_DIRECTORY = 'creating';
/** Our tables, and one that lmdb may make. */
const DATABASES_MAX = Object.keys(TABLE_FLAGS).length + 1;

/** The options for opening an LMDB journal. */
export interface LmdbOptions {
  readonly directory: string;
  readonly durability: Durability;
  /** Bytes of address space for the file; `STORE_MAP_BYTES` when missing. lmdb enlarges a map that is used up. */
  readonly mapSizeBytes?: number;
  /** See `JournalOptions`. */
  readonly gate?: ThreadGate;
  /** See `JournalOptions`. */
  readonly onLost?: (error: StoreLostError) => void;
  /** See `JournalOptions`. */
  readonly encryption?: StoreEncryption;
  /** See `JournalOptions`. */
  readonly shard?: number;
}

/**
 * A table whose new entries all come after the others, so that LMDB can fill its pages. lmdb's types of `put` lack
 * `append`.
 */
export interface AppendedTable {
  /** The key must be above all keys in the table; otherwise the entry is not written. */
  put(key: number, value: Buffer, options: { readonly append: true }): Promise<boolean>;
}

/** An open environment and its tables. */
export interface LmdbEnvironment {
  /** The data file: keeps room behind the pages, and checks that the file is still there. */
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
  /** Address of a medium (`rows/media-text.ts`) -> its bytes. */
  readonly media: Database<Buffer, string>;
  /** Key of a session -> its draft (`stored-drafts.ts`). */
  readonly drafts: Database<string, number>;
  /** Key of a session that was removed, whole or in part -> its newest row that is not erased yet, and its name. */
  readonly erasures: Database<string, number>;
  /** Key of a session -> its wrapped data key. Empty in a store that is not encrypted. */
  readonly dataKeys: Database<string, number>;
  /** Key of a session whose log was removed in part -> the end of that part, and the address of its base. */
  readonly starts: Database<string, number>;
  /** Key of a session that was moved from another layout -> its origin, see `Journal.originOf`. */
  readonly origins: Database<string, number>;
  /** Number of a row of the audit log -> the row (`stored-audit.ts`). */
  readonly audit: Database<string, number>;
  /**
   * `format`, `fence` (its version is the fence), `commit`, `nextKey`, `checkpoint`, `rewrites`, `erased`,
   * `compacted`; sealed, like all text.
   */
  readonly meta: Database<string, string>;
}

/**
 * Opens the environment of `options.directory`, or creates it. Throws `StoreCorruptError` (damaged, foreign, or its
 * data file is gone), `StoreVersionError` (newer format), `StoreFullError` (the system refuses). In the first two cases
 * nothing was written.
 */
export async function openEnvironment(options: LmdbOptions): Promise<LmdbEnvironment> {
  const { directory } = options;
  const path = join(directory, DATA_FILE);
  try {
    if (await isThere(path)) {
      await checkLmdbFile(path);
    } else {
      await createEnvironment(options);
    }
    return openTables(options);
  } catch (error) {
    throw await openError(directory, path, error);
  }
}

/**
 * Opens the environment of a copy that this process made and checked, beside the environment of `options`. `directory`:
 * the directory of the copy. Each step of the open runs in a separate tick, so that other work of the thread runs in
 * between. Rejects with the system's error, and with `CancelledError` when the thread is about to end; nothing is open
 * then.
 */
export async function openCopy(options: LmdbOptions, directory: string, slices: SliceWatch): Promise<LmdbEnvironment> {
  const copy = { ...options, directory };
  const step = async <T>(work: () => T): Promise<T> => {
    await nextTick();
    return slices.run(() => inGate(copy, work));
  };
  const root = await step(() => openRoot(copy));
  let file: DataFile | undefined;
  try {
    file = await step(() => openDataFile(copy));
    const opened = file;
    return await step(() => openOver(root, opened));
  } catch (error) {
    await Promise.allSettled([root.close(), file?.close()]);
    throw error;
  }
}

/** Opens an existing environment only to copy it. Its data file is not written. The caller closes it. */
export function openForCopy(directory: string): RootDatabase<unknown, Key> {
  makeLockFile(join(directory, LOCK_FILE));
  return lmdb.open<unknown, Key>({ ...environmentOptions({ directory, durability: 'flush' }), readOnly: true });
}

/** Creates the environment of `options.directory` unless it exists. Rejects like `openEnvironment`. */
export async function createLmdbStore(options: LmdbOptions): Promise<void> {
  const path = join(options.directory, DATA_FILE);
  try {
    if (!(await isThere(path))) await createEnvironment(options);
  } catch (error) {
    throw await openError(options.directory, path, error);
  }
}

/** Creates the environment under another name and moves its file into place, so that no open finds a half-made file. */
async function createEnvironment(options: LmdbOptions): Promise<void> {
  const { directory } = options;
  const birth = join(directory, BIRTH_DIRECTORY);
  await mkdir(directory, { recursive: true, mode: PRIVATE_DIRECTORY_MODE });
  if ((await readdir(directory)).includes(LOCK_FILE)) {
    throw corruptError(directory, new Error(`${DATA_FILE} is missing although ${LOCK_FILE} exists`));
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

/** Throws `CancelledError` when the thread is about to end. */
function openTables(options: LmdbOptions): LmdbEnvironment {
  return inGate(options, () => openAllTables(options));
}

/** Runs a step of an open inside the gate: lmdb opens each table in a transaction on this thread. */
function inGate<T>({ gate }: LmdbOptions, work: () => T): T {
  if (gate?.enter() === false) throw new CancelledError('the thread that opens the store is about to end');
  try {
    return work();
  } finally {
    gate?.leave();
  }
}

/** Closes the environment and releases its file. */
export async function closeEnvironment({ root, file }: LmdbEnvironment): Promise<void> {
  await root.close();
  await file.close();
}

function openAllTables(options: LmdbOptions): LmdbEnvironment {
  const root = openRoot(options);
  let file: DataFile | undefined;
  try {
    file = openDataFile(options);
    return openOver(root, file);
  } catch (error) {
    // Both closes wait for running work, and there is none yet. The caller receives the first error.
    void root.close();
    void file?.close();
    throw error;
  }
}

function openRoot(options: LmdbOptions): RootDatabase<unknown, Key> {
  makeLockFile(join(options.directory, LOCK_FILE));
  return lmdb.open<unknown, Key>(environmentOptions(options));
}

/** Opens the data file, and makes a short one large enough for the commits that create the tables. */
function openDataFile({ directory, durability, onLost }: LmdbOptions): DataFile {
  const file = new DataFile({
    directory,
    path: join(directory, DATA_FILE),
    isSynced: durability !== 'os',
    ...defined({ onLost }),
  });
  try {
    if (file.end < STORE_OPEN_BYTES) file.growNow(STORE_OPEN_BYTES);
    return file;
  } catch (error) {
    // `close` waits for running work, and there is none yet. The caller receives the first error.
    void file.close();
    throw error;
  }
}

/**
 * Gives LMDB's lock file its disk blocks. LMDB maps this file and writes to the map; if the file lacks disk blocks, the
 * process ends with SIGBUS. A file that has contents is left alone, because another owner that is about to be fenced
 * off may still use it.
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
    media: root.openDB<Buffer, string>('media', { encoding: 'binary' }),
    drafts: root.openDB<string, number>('drafts', NUMBERED_TEXT_TABLE),
    erasures: root.openDB<string, number>('erasures', NUMBERED_TEXT_TABLE),
    dataKeys: root.openDB<string, number>('dataKeys', NUMBERED_TEXT_TABLE),
    starts: root.openDB<string, number>('starts', NUMBERED_TEXT_TABLE),
    origins: root.openDB<string, number>('origins', NUMBERED_TEXT_TABLE),
    audit: root.openDB<string, number>('audit', TEXT_TABLE),
    meta: root.openDB<string, string>('meta', { ...TEXT_TABLE, useVersions: true }),
  };
}

/** lmdb's options; see the head of this file. lmdb's types lack `batchStartThreshold` and `permissionsMode`. */
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
