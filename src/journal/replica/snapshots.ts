/**
 * Takes snapshots of a shard for its log, and removes the log entries that a snapshot covers. Also makes a copy of the
 * shard from a snapshot.
 *
 * Owns: which entries are in the log, as far as this claim knows, and the snapshot that is being taken. Does not own:
 * the log, the files, and when a snapshot is taken: the shard asks `isOwed` and `isDue`.
 *
 * Invariants:
 *  SN1 log entries are removed only after the log has a snapshot that covers them. Every entry of the copy that became
 *     the snapshot was checked;
 *  SN2 while the log has an entry with data that was later erased from the copy, a snapshot is owed. The owed snapshot
 *     is newer than the end of the erasure, and all log entries that it covers are removed. The pieces of earlier
 *     snapshots are removed before these entries. So after a crash the entries still show that a snapshot is owed;
 *  SN3 if no snapshot is owed, the newest `LOG_KEPT_ENTRIES` entries stay;
 *  SN4 a copy made from a snapshot has the bytes, the number and the digest that the log says, or is not used.
 */
import { createHash, randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, brotliDecompress, constants } from 'node:zlib';
import {
  LOG_KEPT_ENTRIES,
  SNAPSHOT_ENTRIES_MIN,
  SNAPSHOT_LOG_BYTES_MIN,
  SNAPSHOT_LOG_SHARE_MIN,
  SNAPSHOT_PIECE_BYTES,
} from '../../base/bounds.ts';
import { asError, CancelledError, StoreCorruptError } from '../../base/errors.ts';
import type { CompactionResult, Engine, StoreCompaction, StoreUse } from '../engine.ts';
import type { LogEnd, LogHistory, LogSnapshot, SnapshotStore } from './shard-log.ts';

const ID_BYTES = 16;
/** The file is compressed with the parameters that rows have, because most of the file is rows. */
const PARAMETERS = { [constants.BROTLI_PARAM_QUALITY]: 1 };
const compress = promisify(brotliCompress);
const decompress = promisify(brotliDecompress);

/** A compact copy of a store. The caller closes it. */
export interface SnapshotFile {
  /** The texts of the copy's table `meta`. */
  readonly records: ReadonlyMap<string, string>;
  readonly bytes: number;
  /** Milliseconds of the longest piece of work on this thread while the copy was made. */
  readonly sliceMs: number;
  /** Bytes from an offset on, up to the end of the file. */
  read(offset: number, length: number): Promise<Buffer>;
  close(): Promise<void>;
}

/** The files of one shard. They reject with the errors of a write, and with `StoreCorruptError`. */
export interface SnapshotFiles {
  /** Makes a compact copy of the newest commit, and checks all of it. */
  take(engine: Engine): Promise<SnapshotFile>;
  /** Removes the copies that `take` made. */
  discard(): Promise<void>;
  /** Makes these bytes the store of the shard, which is closed. If reading `bytes` throws, the shard has no store. */
  place(bytes: AsyncIterable<Buffer>): Promise<void>;
}

/** The parts of the snapshots of a shard. */
export interface SnapshotParts {
  readonly store: SnapshotStore;
  readonly files: SnapshotFiles;
  readonly copy: () => Engine;
  /** The newest commit of the copy. */
  readonly end: () => number;
  /** The position in the log of a copy with these records. */
  readonly positionIn: (records: ReadonlyMap<string, string>) => LogEnd;
  /** The newest commit that ended an erasure; 0 before the first. */
  readonly forgotten: () => number;
  /** Called with an error that says that the copy is damaged. */
  readonly damaged: (error: Error) => void;
}

/** One snapshot under way. */
interface Run {
  end: Error | undefined;
}

/**
 * See the head of this file. In the results of `run`, `bytesBefore` is the size of the snapshot's file. `bytes` is the
 * size of the packed pieces that were written to the log.
 */
export class Snapshots implements StoreCompaction {
  readonly #parts: SnapshotParts;
  #history: LogHistory;
  /** The newest entry that is counted in the bytes of the history. */
  #counted: number;
  #run: Run | undefined;
  #ended: Promise<unknown> = Promise.resolve();

  /** `end`: the newest entry of the log when `history` was read. */
  constructor(parts: SnapshotParts, history: LogHistory, end: number) {
    this.#parts = parts;
    this.#history = history;
    this.#counted = end;
  }

  /** True if a snapshot is owed (SN2). */
  get isOwed(): boolean {
    return this.#history.first <= this.#parts.forgotten();
  }

  /** True if the log after the snapshot is long. */
  isDue(): boolean {
    const { snapshot, bytes } = this.#history;
    const entries = this.#parts.end() - (snapshot?.number ?? 0);
    if (entries < SNAPSHOT_ENTRIES_MIN && bytes < SNAPSHOT_LOG_BYTES_MIN) return false;
    const use = this.use();
    return bytes >= (use.bytes - use.freeBytes) * SNAPSHOT_LOG_SHARE_MIN;
  }

  use(): StoreUse {
    return this.#parts.copy().compaction.use();
  }

  /** Counts the bytes of a new entry of the log. */
  noted({ number }: LogEnd, bytes: number): void {
    if (number <= this.#counted) return;
    this.#counted = number;
    this.#history = { ...this.#history, bytes: this.#history.bytes + bytes };
  }

  async run(): Promise<CompactionResult> {
    await this.#ended;
    const run: Run = { end: undefined };
    this.#run = run;
    const running = this.#renew(run).finally(() => {
      this.#run = undefined;
    });
    this.#ended = running.catch(() => undefined);
    return running;
  }

  /** Ends the snapshot under way, if any, at its next step. */
  end(reason: Error): void {
    if (this.#run !== undefined) this.#run.end ??= reason;
  }

  /** Ends the snapshot under way, and resolves when it has ended. */
  async close(): Promise<void> {
    this.end(new CancelledError('the store is closed'));
    await this.#parts.store.close();
    await this.#ended;
  }

  async #renew(run: Run): Promise<CompactionResult> {
    const { store, forgotten, end } = this.#parts;
    try {
      this.#history = await store.history();
      this.#counted = end();
      const covered = this.#history.snapshot?.number ?? 0;
      // A crash may have come after the snapshot was written, and before the entries that it covers were removed.
      const isThere = this.isOwed && covered >= forgotten();
      const result = isThere ? { bytesBefore: 0, bytes: 0, sliceMs: 0 } : await this.#take(run);
      const { number = 0 } = this.#history.snapshot ?? {};
      const isErasure = this.isOwed && number >= forgotten();
      await this.#trim(run, isErasure ? number : Math.min(number, end() - LOG_KEPT_ENTRIES));
      return result;
    } finally {
      await store.rest();
    }
  }

  async #take(run: Run): Promise<CompactionResult> {
    const { store, files, copy, positionIn, damaged } = this.#parts;
    throwIfEnded(run);
    try {
      await files.discard();
      const file = await files.take(copy());
      try {
        const { bytes, snapshot } = await this.#write(run, file, positionIn(file.records));
        await store.put(snapshot);
        this.#history = await store.history();
        return { bytesBefore: file.bytes, bytes, sliceMs: file.sliceMs };
      } finally {
        await file.close();
      }
    } catch (error) {
      if (error instanceof StoreCorruptError) damaged(error);
      throw error;
    } finally {
      await files.discard();
    }
  }

  async #write(
    run: Run,
    file: SnapshotFile,
    { number, digest }: LogEnd,
  ): Promise<{ readonly bytes: number; readonly snapshot: LogSnapshot }> {
    const id = randomBytes(ID_BYTES).toString('hex');
    const hash = createHash('sha256');
    let [bytes, pieces] = [0, 0];
    for (let offset = 0; offset < file.bytes; offset += SNAPSHOT_PIECE_BYTES) {
      throwIfEnded(run);
      const plain = await file.read(offset, SNAPSHOT_PIECE_BYTES);
      hash.update(plain);
      const packed = await compress(plain, { params: PARAMETERS });
      await this.#parts.store.putPiece(id, pieces, packed);
      bytes += packed.length;
      pieces += 1;
    }
    throwIfEnded(run);
    return { bytes, snapshot: { id, number, digest, pieces, hash: hash.digest() } };
  }

  /** Removes the entries up to `upTo` (SN2, SN3). */
  async #trim(run: Run, upTo: number): Promise<void> {
    while (await this.#parts.store.trim(upTo)) throwIfEnded(run);
    this.#history = { ...this.#history, first: Math.max(this.#history.first, upTo + 1) };
  }
}

/** Makes the store of a shard from a snapshot. Rejects with `StoreCorruptError` if the snapshot is damaged (SN4). */
export async function placeSnapshot(store: SnapshotStore, files: SnapshotFiles, snapshot: LogSnapshot): Promise<void> {
  await files.place(plainPieces(store, snapshot));
}

async function* plainPieces(store: SnapshotStore, { id, pieces, hash: wanted }: LogSnapshot): AsyncGenerator<Buffer> {
  const hash = createHash('sha256');
  for (let number = 0; number < pieces; number += 1) {
    const packed = await store.piece(id, number);
    let plain: Buffer;
    try {
      plain = await decompress(packed, { maxOutputLength: SNAPSHOT_PIECE_BYTES });
    } catch (error) {
      throw corruptSnapshot(`its piece ${number} cannot be unpacked`, asError(error));
    }
    hash.update(plain);
    yield plain;
  }
  if (!hash.digest().equals(wanted)) throw corruptSnapshot('its bytes have another hash');
}

/** The error for a snapshot that cannot be used. */
export function corruptSnapshot(reason: string, cause?: Error): StoreCorruptError {
  return new StoreCorruptError(`the snapshot in the log of the shard cannot be used: ${reason}`, {
    ...(cause === undefined ? {} : { cause }),
    data: { reason },
  });
}

function throwIfEnded({ end }: Run): void {
  if (end !== undefined) throw end;
}
