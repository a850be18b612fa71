/**
 * The engine over LMDB.
 *
 * Owns: one environment (the LMDB file of one shard), opened by the engine's thread. Does not own: the data directory;
 * see `store/lock.ts`.
 *
 * Invariants:
 *  L1 every write is one transaction. It runs on lmdb's writer thread, or on this thread when that is faster
 *     (`commit-pace.ts`);
 *  L2 every write takes effect only if the fence on disk is still the one that this engine took. The fence is checked
 *     inside the transaction (J5);
 *  L3 no cursor outlives the call that made it, and a lent buffer is used only until the next call. So LMDB can reuse
 *     old pages;
 *  L4 a row is put only after all stored rows (E2). This is checked before the write, because LMDB would silently skip
 *     a row that belongs before a stored one;
 *  L5 after a rejected write the environment is not written again: `reopen` opens a new one and reads the state from
 *     disk;
 *  L6 a transaction on this thread runs inside the thread's gate. If the thread ended during the transaction, lmdb's
 *     clean-up would wait on this thread for a lock that this thread holds. Then neither the thread nor the process
 *     would end;
 *  L7 a write begins only when there is room for the most pages that it may need (`commit-room.ts`). Without room for a
 *     page, LMDB may end the process;
 *  L8 once the file is found removed, replaced or cut short (`data-file.ts`), no write begins and `reopen` opens
 *     nothing. A file that was cut short is not read either, since the read would end the process;
 *  L9 the environment is not closed while LMDB copies it: the copy reads the environment's map on another thread;
 *  L10 the environment is replaced (`live-copy.ts`) in one tick, while no write is in flight. Reads never wait, so each
 *     read finds the old environment or the new one, and both hold the same commits.
 */
import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ROW_CACHE_BYTES_MAX } from '../../base/bounds.ts';
import { asError, CancelledError, StoreLockedError, TroupeError } from '../../base/errors.ts';
import { parseCheckpoint, parseErasure, parseHead, parseStart } from '../check/store-index.ts';
import type { Engine, EngineState, StoredBatch, StoredChange, WriteBatch } from '../engine.ts';
import { LiveCompaction } from '../live-compaction.ts';
import type { Erasure, Head, JournalCopy, LogStart, SessionKey } from '../position.ts';
import { mediaPrefix } from '../rows/media-text.ts';
import { RecentValues } from '../rows/recent-values.ts';
import { packRows, unpackRow, unpackTable } from '../rows/row-packing.ts';
import { sealText, unsealText } from '../rows/sealed-text.ts';
import { decodeBlob, encodeBlob, isBlobOf } from '../rows/stored-text.ts';
import { syncDirectory } from '../store/durable-file.ts';
import { checkNext, packBatch } from '../stored-batch.ts';
import { CommitPace } from './commit-pace.ts';
import { CommitRoom } from './commit-room.ts';
import { copyCompact } from './compact-copy.ts';
import { closeEnvironment, type LmdbEnvironment, type LmdbOptions, NO_COMMIT, openEnvironment } from './environment.ts';
import { corruptError, isMapFull, writeError } from './errors.ts';
import { guardedWrite, madeRoom, readNumber, takeFence } from './fence.ts';
import { type AdoptedCopy, closeFormer, type LiveCopyParts, makeLiveCopy, removeCopy } from './live-copy.ts';
import { putChanges } from './put-changes.ts';
import { type NumberRange, textsIn, unsealed } from './read-texts.ts';
import { DATA_FILE } from './tables.ts';

/** Opens or creates a store and takes the next fence, durably. Rejects like `openEnvironment` and `Engine.write`. */
export async function openLmdbEngine(options: LmdbOptions): Promise<Engine> {
  const environment = await openEnvironment(options);
  try {
    const room = new CommitRoom(environment);
    const fence = await takeFence(environment, room, options.directory);
    await removeCopy(options.directory);
    return new LmdbEngine(options, environment, room, fence);
  } catch (error) {
    await closeEnvironment(environment);
    throw error;
  }
}

class LmdbEngine implements Engine {
  readonly fence: number;
  readonly path: string;
  readonly compaction: LiveCompaction;
  readonly #options: LmdbOptions;
  readonly #pace = new CommitPace();
  readonly #unpacked = new RecentValues<number, Buffer>(ROW_CACHE_BYTES_MAX);
  #room: CommitRoom;
  #environment: LmdbEnvironment;
  #state: EngineState;
  #isOpen = true;
  /** Part of a copy's mark. Each environment draws a new one, because its commits may reuse the numbers of others. */
  #opening: string = randomUUID();
  /** The copies under way, and the closes of replaced environments. Each settles without an error. */
  readonly #copying = new Set<Promise<unknown>>();
  /** True from a replacement of the file until its name is durable. */
  #isRenamed = false;

  constructor(options: LmdbOptions, environment: LmdbEnvironment, room: CommitRoom, fence: number) {
    this.#options = options;
    this.#room = room;
    this.path = options.directory;
    this.#environment = environment;
    this.fence = fence;
    this.#state = this.#readState();
    this.compaction = new LiveCompaction({
      state: () => this.#state,
      keepsRemoved: () => true,
      use: () => this.#reading(() => this.#room.use()),
      copy: (slices) => makeLiveCopy(this.#copyParts(), slices),
    });
  }

  state(): EngineState {
    return this.#state;
  }

  row(number: number): Buffer | undefined {
    return this.#reading(() => {
      const unpacked = this.#unpacked.get(number);
      if (unpacked !== undefined) return unpacked;
      const stored = lent(this.#environment.log.getBinaryFast(number));
      if (stored === undefined) return undefined;
      const row = unpackRow(stored, number);
      if (row !== stored) this.#unpacked.add(number, row);
      return row;
    });
  }

  rows(
    from: number,
    limit: number,
    part: 'all' | 'table' = 'all',
  ): readonly { readonly number: number; readonly bytes: Buffer }[] {
    const unpack = part === 'table' ? unpackTable : unpackRow;
    return this.#reading(() => {
      const found: { readonly number: number; readonly bytes: Buffer }[] = [];
      for (const { key, value } of this.#environment.log.getRange({ start: from, limit })) {
        found.push({ number: Number(key), bytes: unpack(value, Number(key)) });
      }
      return found;
    });
  }

  rowNumbers(from: number, limit: number): readonly number[] {
    return this.#reading(() => Array.from(this.#environment.log.getKeys({ start: from, limit }), Number));
  }

  storedRow(number: number): Buffer | undefined {
    return this.#reading(() => lent(this.#environment.log.getBinaryFast(number)));
  }

  lastRowOf(key: SessionKey): number {
    return this.#reading(() => Number(unsealed('lastRows', key, this.#environment.lastRows.get(key)) ?? 0));
  }

  keyOf(name: string): SessionKey | undefined {
    return this.#reading(() => {
      const key = unsealed('names', name, this.#environment.names.get(name));
      return key === undefined ? undefined : Number(key);
    });
  }

  nameOf(key: SessionKey): string | undefined {
    return this.#reading(() => unsealed('keys', key, this.#environment.keys.get(key)));
  }

  names(from: string, exclusive: boolean, limit: number): readonly (readonly [string, SessionKey])[] {
    return this.#reading(() => {
      const found: (readonly [string, SessionKey])[] = [];
      const range = { start: from, exclusiveStart: exclusive, limit };
      for (const { key, value } of this.#environment.names.getRange(range)) {
        found.push([String(key), Number(unsealed('names', String(key), value))]);
      }
      return found;
    });
  }

  head(key: SessionKey): Head | undefined {
    return this.#reading(() => {
      const text = unsealed('heads', key, this.#environment.heads.get(key));
      return text === undefined ? undefined : { key, ...parseHead(text) };
    });
  }

  runnable(): readonly SessionKey[] {
    return this.#reading(() => Array.from(this.#environment.runnable.getKeys(), Number));
  }

  blob(address: string): string | undefined {
    const bytes = this.#reading(() => this.#environment.blobs.get(address));
    if (bytes === undefined) return undefined;
    const text = decodeBlob(bytes);
    if (text === undefined || !isBlobOf(address, text))
      throw corruptError(this.#options.directory, new Error(`the blob ${address}`));
    return text;
  }

  hasBlob(address: string): boolean {
    return this.#reading(() => this.#environment.blobs.doesExist(address));
  }

  storedBlob(address: string): Buffer | undefined {
    return this.#reading(() => lent(this.#environment.blobs.getBinaryFast(address)));
  }

  medium(address: string): Buffer | undefined {
    return this.#reading(() => this.#environment.media.get(address));
  }

  hasMedium(address: string): boolean {
    return this.#reading(() => this.#environment.media.doesExist(address));
  }

  mediaOf(key: SessionKey): readonly string[] {
    return this.#reading(() => Array.from(this.#environment.media.getKeys(ownedBy(key)), String));
  }

  blobsOf(key: SessionKey): readonly string[] {
    return this.#reading(() => Array.from(this.#environment.blobs.getKeys(ownedBy(key)), String));
  }

  dataKey(key: SessionKey): string | undefined {
    return this.#reading(() => unsealed('dataKeys', key, this.#environment.dataKeys.get(key)));
  }

  dataKeys(after: SessionKey, limit: number): readonly (readonly [SessionKey, string])[] {
    return this.#reading(() => textsIn(this.#environment, 'dataKeys', { after, limit }));
  }

  audit(range: NumberRange): readonly (readonly [number, string])[] {
    return this.#reading(() => textsIn(this.#environment, 'audit', range));
  }

  draft(key: SessionKey): string | undefined {
    return this.#reading(() => unsealed('drafts', key, this.#environment.drafts.get(key)));
  }

  draftKeys(): readonly SessionKey[] {
    return this.#reading(() => Array.from(this.#environment.drafts.getKeys(), Number));
  }

  originOf(key: SessionKey): string | undefined {
    return this.#reading(() => unsealed('origins', key, this.#environment.origins.get(key)));
  }

  erasures(): ReadonlyMap<SessionKey, Erasure> {
    return this.#reading(() => {
      const found = new Map<SessionKey, Erasure>();
      for (const { key, value } of this.#environment.erasures.getRange()) {
        found.set(Number(key), parseErasure(unsealed('erasures', Number(key), value) ?? ''));
      }
      return found;
    });
  }

  startOf(key: SessionKey): LogStart | undefined {
    return this.#reading(() => {
      const text = unsealed('starts', key, this.#environment.starts.get(key));
      return text === undefined ? undefined : parseStart(text);
    });
  }

  record(name: string): string | undefined {
    return this.#reading(() => unsealed('meta', name, this.#environment.meta.get(name)));
  }

  async pack(batch: WriteBatch): Promise<StoredBatch> {
    const first = batch.rows[0]?.number;
    if (first !== undefined && first <= this.#state.lastRow)
      throw new TroupeError('internal', `L4: row ${first} is there`);
    // Encrypted data cannot be compressed. Each entry was compressed before it was encrypted.
    const rows = this.#options.encryption === undefined ? packRows : async (plain: readonly Buffer[]) => plain;
    return packBatch(batch, this.#state, { rows, blob: encodeBlob });
  }

  async write(batch: WriteBatch): Promise<void> {
    await this.writeStored(await this.pack(batch));
  }

  async writeStored(stored: StoredBatch): Promise<void> {
    const { compaction } = this;
    if (compaction.hold !== undefined) await compaction.hold;
    compaction.writing();
    let committed: StoredBatch | undefined;
    try {
      await this.#write(stored);
      committed = stored;
    } finally {
      compaction.wrote(committed);
    }
  }

  async #write(stored: StoredBatch): Promise<void> {
    checkNext(stored, this.#state);
    if (this.#isRenamed) await this.#syncName();
    const { changes, bytes, state } = stored;
    const { lastRow } = this.#state;
    await madeRoom(this.#options.directory, () =>
      this.#room.forChanges(changes, lastRow, (row) => this.storedRow(row)?.length ?? 0),
    );
    const startedAt = performance.now();
    if (this.#isHere(bytes) && (await this.#writeHere(changes))) {
      this.#pace.tookHere(performance.now() - startedAt);
    } else {
      await this.#guarded(() => putChanges(this.#environment, changes, lastRow));
      this.#pace.tookThere(bytes, performance.now() - startedAt);
    }
    if (state.rewrites !== this.#state.rewrites) {
      for (const { table, key } of changes) if (table === 'log') this.#unpacked.delete(Number(key));
    }
    this.#state = { ...state, compacted: this.#state.compacted };
  }

  async reopen(): Promise<void> {
    // Opening again would mistake another file of the same name for the lost file (L8).
    const { lost } = this.#environment.file;
    if (lost !== undefined) throw lost;
    await this.compaction.end(new CancelledError('the store is opened again'));
    // While this loop waits for one copy, another may begin (L9).
    while (this.#copying.size > 0) await Promise.all(this.#copying);
    const wasOpen = this.#isOpen;
    this.#isOpen = false;
    if (wasOpen) await closeEnvironment(this.#environment);
    this.#environment = await openEnvironment(this.#options);
    this.#isOpen = true;
    this.#opening = randomUUID();
    this.#room = new CommitRoom(this.#environment);
    this.#unpacked.clear();
    this.#state = this.#readState();
    await madeRoom(this.#options.directory, () => this.#room.forRecords(1));
    await this.#guarded(() => {
      void this.#environment.meta.put('probe', sealText('meta', 'probe', String(this.fence)), 0);
    });
  }

  async copyTo(directory: string, known: string | undefined): Promise<JournalCopy> {
    const { file, root } = this.#environment;
    if (file.lost !== undefined) throw file.lost;
    if (!this.#isOpen) throw this.#closedError();
    // The mark is read before the copy begins. If the copy has a later commit, its mark is too old, and the next call
    // makes a copy without need.
    const mark = `${this.#opening} ${this.#room.lastCommit()}`;
    if (mark === known) return { mark };
    const copying = rm(join(directory, DATA_FILE), { force: true }).then(() => copyCompact(root, directory));
    this.#track(copying);
    try {
      return { mark, bytes: await copying };
    } catch (error) {
      throw await writeError(directory, asError(error));
    }
  }

  async close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    await this.compaction.end(new CancelledError('the store is closed'));
    while (this.#copying.size > 0) await Promise.all(this.#copying);
    await closeEnvironment(this.#environment);
  }

  #track(work: Promise<unknown>): void {
    const end = (): boolean => this.#copying.delete(ended);
    const ended: Promise<unknown> = work.then(end, end);
    this.#copying.add(ended);
  }

  #copyParts(): LiveCopyParts {
    const { lost } = this.#environment.file;
    if (lost !== undefined) throw lost;
    if (!this.#isOpen) throw this.#closedError();
    return {
      options: this.#options,
      fence: this.fence,
      source: this.#environment,
      use: () => this.#room.use(),
      reading: (copying) => this.#track(copying),
      adopt: (copy) => this.#adopt(copy),
    };
  }

  /** Enforces L10. */
  #adopt({ environment, room, commit, former }: AdoptedCopy): void {
    const readers = Promise.all(this.#copying);
    this.#track(closeFormer(this.#environment, former, readers, this.#options.directory));
    this.#environment = environment;
    this.#room = room;
    this.#opening = randomUUID();
    this.#state = { ...this.#state, compacted: commit };
    this.#isRenamed = true;
  }

  /** Makes the new file's name durable before its first commit: a power loss could bring back the old file. */
  async #syncName(): Promise<void> {
    const { directory } = this.#options;
    try {
      await syncDirectory(directory);
    } catch (error) {
      throw await writeError(directory, error);
    }
    this.#isRenamed = false;
  }

  #isHere(bytes: number): boolean {
    // Some threads can end while their gate is open. Such a thread leaves its transactions to lmdb's writer thread,
    // which is always waited for (L6).
    return this.#options.gate?.isClosedBeforeEnd !== false && this.#pace.isHere(bytes);
  }

  /**
   * One durable transaction on this thread (L1, L2, L6). Resolves to false if the transaction must not run here: the
   * thread is about to end, or the map is used up. Only the writer thread can enlarge the map.
   */
  async #writeHere(changes: readonly StoredChange[]): Promise<boolean> {
    const { root, meta } = this.#environment;
    const { gate } = this.#options;
    if (gate?.enter() === false) return false;
    let isOurs = false;
    try {
      root.transactionSync(() => {
        isOurs = meta.getEntry('fence')?.version === this.fence;
        if (!isOurs) return NO_COMMIT;
        putChanges(this.#environment, changes, this.#state.lastRow);
        return undefined;
      });
      gate?.leave();
    } catch (error) {
      gate?.leave();
      if (isMapFull(error)) return false;
      throw await writeError(this.#options.directory, error);
    }
    if (!isOurs) throw this.#lockedError();
    return true;
  }

  async #guarded(put: () => void): Promise<void> {
    const { directory } = this.#options;
    if (!(await guardedWrite(this.#environment, directory, this.fence, put))) throw this.#lockedError();
  }

  #closedError(): TroupeError {
    return new TroupeError('internal', `the store ${this.#options.directory} is closed`);
  }

  #lockedError(): StoreLockedError {
    const { directory } = this.#options;
    return new StoreLockedError(`the store ${directory} has been opened by another owner since`, {
      retryable: false,
      data: { path: directory, fence: this.fence, owner: readNumber(this.#environment, 'fence', directory) },
    });
  }

  #readState(): EngineState {
    return this.#reading(() => {
      const { log, meta } = this.#environment;
      const [lastRow] = log.getKeys({ reverse: true, limit: 1 });
      const numberOf = (name: string, otherwise: number): number =>
        meta.doesExist(name) ? readNumber(this.#environment, name, this.#options.directory) : otherwise;
      return {
        commit: numberOf('commit', 0),
        lastRow: Number(lastRow ?? 0),
        nextKey: numberOf('nextKey', 1),
        rewrites: numberOf('rewrites', 0),
        erased: numberOf('erased', 0),
        compacted: numberOf('compacted', 0),
        ...this.#readCheckpoint(meta.get('checkpoint')),
      };
    });
  }

  #readCheckpoint(stored: string | undefined): { readonly checkpointed: number; readonly indexedRow: number } {
    if (stored === undefined) return { checkpointed: 0, indexedRow: 0 };
    const checkpoint = parseCheckpoint(unsealText('meta', 'checkpoint', stored) ?? '');
    if (checkpoint === undefined) throw new Error('its record "checkpoint" is damaged');
    return { checkpointed: checkpoint.upTo, indexedRow: checkpoint.indexedRow };
  }

  /**
   * Runs a read. An error of LMDB during the read counts as damage; our own errors are thrown unchanged. A closed
   * environment must never be read: it is unmapped.
   */
  #reading<T>(read: () => T): T {
    if (!this.#isOpen) throw this.#closedError();
    const { file } = this.#environment;
    if (file.isShort && file.lost !== undefined) throw file.lost;
    try {
      return read();
    } catch (error) {
      if (error instanceof TroupeError) throw error;
      throw corruptError(this.#options.directory, asError(error));
    }
  }
}

/** The range of addresses that begin with a session's key and a slash. */
function ownedBy(key: SessionKey): { readonly start: string; readonly end: string } {
  const start = mediaPrefix(key);
  // The prefix ends with `/`, and the next ASCII character is `0`.
  return { start, end: `${start.slice(0, -1)}0` };
}

/**
 * A view of bytes lent by lmdb. lmdb returns one large shared buffer, and has overwritten its `length` property. Native
 * code needs a view with the true length.
 */
function lent(bytes: Buffer | undefined): Buffer | undefined {
  return bytes === undefined ? undefined : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}
