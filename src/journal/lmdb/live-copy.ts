/**
 * The compact copy that takes the place of an open environment, the LMDB file of one shard (M1, M2 of
 * `live-compaction.ts`).
 *
 * Owns: the folder `compacting` of a shard, and the copy's environment until the copy takes the shard's place. Does not
 * own: the environment of the shard.
 *
 * Invariants:
 *  Y1 the copy is complete, checked and synced before it takes the file's name, in one rename. The lock file of the
 *     copy is in use as well, so it is renamed first. A crash between the two renames does no harm, because LMDB
 *     initialises a lock file that no process uses;
 *  Y2 the renames happen inside the thread's gate and inside a transaction that finds the fence unchanged. So a thread
 *     that is being ended renames no file that its successor has open. No commit of another owner is lost with the old
 *     file;
 *  Y3 an unfinished copy that a crash left is removed before a copy is made, and when the shard is opened.
 */
import { renameSync } from 'node:fs';
import { type FileHandle, mkdir, open, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as nextTick } from 'node:timers/promises';
import { COMPACT_SPARE_BYTES_MIN } from '../../base/bounds.ts';
import { CancelledError, StoreLockedError } from '../../base/errors.ts';
import { PRIVATE_DIRECTORY_MODE } from '../../base/private-files.ts';
import type { StoredChange, StoreUse } from '../engine.ts';
import type { CompactCopy, SliceWatch } from '../live-compaction.ts';
import { CommitRoom } from './commit-room.ts';
import { copyCompact } from './compact-copy.ts';
import { closeEnvironment, type LmdbEnvironment, type LmdbOptions, NO_COMMIT, openCopy } from './environment.ts';
import { commitCause, writeError } from './errors.ts';
import { madeRoom, readNumber } from './fence.ts';
import { checkPages } from './file.ts';
import { putChanges } from './put-changes.ts';
import { COPY_FOLDER, DATA_FILE, LOCK_FILE } from './tables.ts';

/** The parts of an engine that a copy needs. */
export interface LiveCopyParts {
  readonly options: LmdbOptions;
  readonly fence: number;
  /** The environment that is copied. */
  readonly source: LmdbEnvironment;
  readonly use: () => StoreUse;
  /** Called with the promise of LMDB's copy, during which the source must stay open. */
  readonly reading: (copying: Promise<unknown>) => void;
  /** Makes the engine use the copy in place of the source. Called in the tick in which the file was renamed. */
  readonly adopt: (copy: AdoptedCopy) => void;
}

/** A copy that has taken the place of its source. */
export interface AdoptedCopy {
  readonly environment: LmdbEnvironment;
  readonly room: CommitRoom;
  /** The newest commit of the snapshot. */
  readonly commit: number;
  /** The source's file. It is closed after the source, see `closeFormer`. */
  readonly former: FileHandle;
}

/** Closes the environment whose place a copy has taken, when nothing reads it any more. Never rejects. */
export async function closeFormer(
  source: LmdbEnvironment,
  former: FileHandle,
  readers: Promise<unknown>,
  directory: string,
): Promise<void> {
  // From here on, the presence of the file is not checked any more: the file has no name.
  const closed = source.file.close();
  await readers;
  await closed;
  // A close fails only if the file is closed already. The copy has the place of the store, so nothing depends on the
  // result.
  await Promise.allSettled([source.root.close()]);
  await Promise.allSettled([former.close(), removeCopy(directory)]);
}

/** Removes the files that an earlier compaction left (Y3). */
export async function removeCopy(directory: string): Promise<void> {
  await rm(join(directory, COPY_FOLDER), { recursive: true, force: true });
}

/** Makes a copy. Rejects with the errors of a write; no file of the copy is left then. */
export async function makeLiveCopy(parts: LiveCopyParts, slices: SliceWatch): Promise<CompactCopy> {
  const { options, source } = parts;
  const folder = join(options.directory, COPY_FOLDER);
  try {
    await removeCopy(options.directory);
    await checkSpace(options.directory, parts.use());
    await mkdir(folder, { mode: PRIVATE_DIRECTORY_MODE });
    const copying = copyCompact(source.root, folder, slices);
    parts.reading(copying);
    await copying;
    await checkPages(join(folder, DATA_FILE), slices);
    const environment = await openCopy(options, folder, slices);
    await nextTick();
    return slices.run(() => new LiveCopy(parts, environment, slices));
  } catch (error) {
    await removeCopy(options.directory);
    throw await writeError(options.directory, error);
  }
}

/**
 * Throws ENOSPC if the device has no room for the copy. A device filled by a copy would refuse the shard's commits too.
 */
export async function checkSpace(directory: string, { bytes, freeBytes }: StoreUse): Promise<void> {
  const { bavail, bsize } = await statfs(directory);
  if (bavail * bsize >= bytes - freeBytes + COMPACT_SPARE_BYTES_MIN) return;
  throw Object.assign(new Error('no space left on device for a compact copy'), { code: 'ENOSPC' });
}

class LiveCopy implements CompactCopy {
  readonly commit: number;
  readonly #parts: LiveCopyParts;
  readonly #environment: LmdbEnvironment;
  readonly #room: CommitRoom;
  readonly #slices: SliceWatch;
  #lastRow: number;

  constructor(parts: LiveCopyParts, environment: LmdbEnvironment, slices: SliceWatch) {
    this.#parts = parts;
    this.#environment = environment;
    this.#slices = slices;
    this.#room = new CommitRoom(environment);
    const { log, meta } = environment;
    this.commit = meta.doesExist('commit') ? readNumber(environment, 'commit', parts.options.directory) : 0;
    const [lastRow] = log.getKeys({ reverse: true, limit: 1 });
    this.#lastRow = Number(lastRow ?? 0);
  }

  async apply(changes: readonly StoredChange[]): Promise<void> {
    const { directory } = this.#parts.options;
    const { log, meta } = this.#environment;
    await madeRoom(directory, () =>
      this.#slices.run(() =>
        this.#room.forChanges(changes, this.#lastRow, (row) => log.getBinaryFast(row)?.length ?? 0),
      ),
    );
    try {
      // The writer thread commits. Only the puts run on this thread, so only they are measured.
      const written = this.#slices.run(() => meta.batch(() => putChanges(this.#environment, changes, this.#lastRow)));
      await Promise.all([written, meta.flushed]);
      meta.resetReadTxn();
    } catch (error) {
      throw await writeError(directory, await commitCause(error));
    }
    for (const { table, key } of changes) if (table === 'log') this.#lastRow = Math.max(this.#lastRow, Number(key));
  }

  async sync(): Promise<void> {
    try {
      await this.#environment.file.sync();
    } catch (error) {
      throw await writeError(this.#parts.options.directory, error);
    }
  }

  async replace(): Promise<number> {
    const { directory } = this.#parts.options;
    const path = join(directory, DATA_FILE);
    let former: FileHandle | undefined;
    try {
      // This descriptor keeps the old file open. A thread of the pool closes it later: freeing the file's blocks may
      // take long.
      former = await open(path, 'r');
      const held = former;
      this.#slices.run(() => this.#rename(path, held));
    } catch (error) {
      await former?.close();
      throw await writeError(directory, error);
    }
    return this.#room.use().bytes;
  }

  /** Enforces Y1 and Y2. */
  #rename(path: string, former: FileHandle): void {
    const { options, source, fence, adopt } = this.#parts;
    const { directory, gate } = options;
    if (gate?.enter() === false) throw new CancelledError('the thread of the store is about to end');
    try {
      let isOurs = false;
      source.root.transactionSync(() => {
        isOurs = source.meta.getEntry('fence')?.version === fence;
        if (!isOurs || source.file.lost !== undefined) return NO_COMMIT;
        renameSync(join(directory, COPY_FOLDER, LOCK_FILE), join(directory, LOCK_FILE));
        renameSync(join(directory, COPY_FOLDER, DATA_FILE), path);
        return NO_COMMIT;
      });
      if (source.file.lost !== undefined) throw source.file.lost;
      if (!isOurs) {
        throw new StoreLockedError(`the store ${directory} has been opened by another owner since`, {
          retryable: false,
          data: { path: directory, fence },
        });
      }
    } finally {
      gate?.leave();
    }
    this.#environment.file.moved(path);
    adopt({ environment: this.#environment, room: this.#room, commit: this.commit, former });
  }

  async discard(): Promise<void> {
    await closeEnvironment(this.#environment);
    await removeCopy(this.#parts.options.directory);
  }
}
