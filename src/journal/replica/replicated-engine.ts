/**
 * The engine of a shard in a cluster. The shard's log outside this machine is the truth. An engine on this machine
 * holds a copy of the log, and all reads use the copy.
 *
 * Owns: the position of the copy in the log, the newest commits in memory, the replacement of a copy that cannot be
 * used. Does not own: the log and its claim (`shard-log.ts`), the files of the copy.
 *
 * Invariants:
 *  RE1 a commit is in the log before it is in the copy. So the copy is always a prefix of the log, and a reader sees
 *     only what the log has (J3);
 *  RE2 a copy is used only if the log has the copy's last commit, with the same digest. The copy stores this digest in
 *     the transaction of the commit. Any other copy is built again from the log, and so is a damaged one, when the
 *     engine is opened or at the next `reopen`;
 *  RE3 commit n of the copy is entry n of the log;
 *  RE4 a write resolves only while this node's lease is valid. So effects after a flush start under a lease (A12);
 *  RE5 after a rejected write nothing is appended until `reopen`. `reopen` fences an append that is still on its way
 *     (SL4), and brings the copy to the end of the log;
 *  RE6 if the log has lost its newest entries, they are appended again from memory. If memory no longer has them, the
 *     shard is lost: the log lacks commits that were acknowledged;
 *  RE7 a copy that is empty, or older than the first entry of the log, begins with the snapshot of the log. RE2 and RE3
 *     hold from the snapshot on.
 */
import { asError, CancelledError, StoreCorruptError, StoreFullError, StoreLostError } from '../../base/errors.ts';
import type { Engine, EngineState, StoreCompaction, StoredBatch, StoredChange, WriteBatch } from '../engine.ts';
import type { Erasure, Head, LogStart, SessionKey } from '../position.ts';
import { checkRow } from '../rows/row-codec.ts';
import { checkNext } from '../stored-batch.ts';
import { decodeBatch, encodeBatch } from './batch-codec.ts';
import { RecentEntries } from './recent-entries.ts';
import { digestAfter, LOG_START, type LogEnd, type LogEntry, type LogHistory, type ShardLog } from './shard-log.ts';
import { corruptSnapshot, placeSnapshot, type SnapshotFiles, Snapshots } from './snapshots.ts';

/** The record of the copy that holds the digest of its last commit. */
const DIGEST_RECORD = 'replica';
/** The record of the newest commit that ended an erasure: that of a session, or of the older part of a log. */
const FORGOTTEN_RECORD = 'forgotten';

/** Why a copy is removed: it is unreadable, has commits that the log lacks, or is older than the log's first entry. */
export type CopyFault = 'damaged' | 'diverged' | 'behind';

/** The parts of a replicated engine. */
export interface ReplicaParts {
  readonly log: ShardLog;
  /**
   * Opens the copy, or creates an empty one. `onLost` is called when the copy's files are gone. Rejects like
   * `openLmdbEngine`.
   */
  readonly openCopy: (onLost: (error: StoreLostError) => void) => Promise<Engine>;
  /** Removes the files of a closed copy, or puts them aside, so that `openCopy` creates an empty copy. */
  readonly removeCopy: (fault: CopyFault) => Promise<void>;
  /** The files of the copy; missing if it has none. Then no snapshot is taken or used. */
  readonly files?: SnapshotFiles;
  /** Resolves to true once the lease is valid, and to false if it does not become valid in time. */
  readonly leased: () => Promise<boolean>;
  /** Called when the copy is found damaged. The owner should then reopen the engine soon. */
  readonly damaged: (error: Error) => void;
}

/**
 * Opens the copy of a shard, and brings it to the end of the log. Rejects like `ShardLog.reclaim` and `openLmdbEngine`,
 * and with `StoreCorruptError` if the log itself is damaged.
 */
export async function openReplicatedEngine(parts: ReplicaParts): Promise<Engine> {
  const { log, files } = parts;
  const end = await log.reclaim();
  await files?.discard();
  const history = files && (await log.snapshots?.history());
  let engine: ReplicatedEngine | undefined;
  const openCopy = (): Promise<Engine> => parts.openCopy((error) => engine?.foundDamaged(error));
  const copy = await usableCopy({ ...parts, openCopy }, end, history);
  await log.snapshots?.rest();
  engine = new ReplicatedEngine(parts, copy, openCopy, history, end);
  try {
    await engine.follow(end);
    return engine;
  } catch (error) {
    await engine.close();
    throw error;
  }
}

/** The parts that open a copy. */
type CopyParts = Pick<ReplicaParts, 'log' | 'removeCopy' | 'files'> & { readonly openCopy: () => Promise<Engine> };

/** The copy on this machine if it can be used (RE2), otherwise a new one. */
async function usableCopy(parts: CopyParts, end: LogEnd, history: LogHistory | undefined): Promise<Engine> {
  let copy: Engine;
  try {
    copy = await parts.openCopy();
  } catch (error) {
    if (!isDamage(error)) throw error;
    await parts.removeCopy('damaged');
    return newCopy(parts, history);
  }
  const fault = await faultOf(parts.log, copy, end).catch(async (error: unknown) => {
    await copy.close();
    throw error;
  });
  const isNew = fault === undefined && copy.state().commit === 0 && history?.snapshot !== undefined;
  if (fault === undefined && !isNew) return copy;
  await copy.close();
  if (fault !== undefined) await parts.removeCopy(fault);
  return newCopy(parts, history);
}

/** A copy that begins with the snapshot of the log (RE7), or with nothing. */
async function newCopy({ log, files, openCopy }: CopyParts, history: LogHistory | undefined): Promise<Engine> {
  const snapshot = history?.snapshot;
  if (snapshot === undefined || files === undefined || log.snapshots === undefined) return openCopy();
  await placeSnapshot(log.snapshots, files, snapshot);
  const copy = await openCopy();
  const { number, digest } = positionOf(copy);
  if (number === snapshot.number && digest.equals(snapshot.digest)) return copy;
  await copy.close();
  throw corruptSnapshot('its file is that of another entry');
}

async function faultOf(log: ShardLog, copy: Engine, end: LogEnd): Promise<CopyFault | undefined> {
  let number: number;
  let digest: Buffer;
  try {
    ({ number, digest } = positionOf(copy));
  } catch (error) {
    if (!isDamage(error)) throw error;
    return 'damaged';
  }
  if (number === 0) return copy.state().lastRow === 0 ? undefined : 'damaged';
  if (number > end.number) return 'diverged';
  const found = await log.digestOf(number);
  // The log has no gaps. So it once had the entry, and removed it because a snapshot covers it.
  if (found === undefined) return 'behind';
  return found.equals(digest) ? undefined : 'diverged';
}

function positionOf(copy: Engine): LogEnd {
  const { commit } = copy.state();
  return commit === 0 ? LOG_START : endAt(commit, copy.record(DIGEST_RECORD));
}

function endAt(number: number, digest: string | undefined): LogEnd {
  return { number, digest: Buffer.from(digest ?? '', 'hex') };
}

/** The newest commit that ended an erasure. Copies of earlier versions note deleted sessions only. */
function forgottenIn(copy: Engine): number {
  return Math.max(copy.state().erased, Number(copy.record(FORGOTTEN_RECORD) ?? 0));
}

/** True for a commit after which the rows, or the results, have nothing of a removed session or part any more. */
function endsErasure({ changes, state: { erased, commit } }: StoredBatch): boolean {
  return erased === commit || changes.some(({ table, value }) => table === 'erasures' && value === undefined);
}

/** True for an error which says that the files of the copy cannot be read, or are gone. */
function isDamage(error: unknown): boolean {
  return error instanceof StoreCorruptError || error instanceof StoreLostError;
}

class ReplicatedEngine implements Engine {
  /** Compacts only the copy. The log does not change. */
  readonly compaction: StoreCompaction;
  readonly snapshots?: Snapshots;
  readonly #parts: ReplicaParts;
  readonly #openCopy: () => Promise<Engine>;
  readonly #recent = new RecentEntries();
  #copy: Engine;
  #end: LogEnd;
  #forgotten: number;
  /** The first error which says that the copy is damaged; undefined if there was none. */
  #damage: Error | undefined;

  constructor(
    parts: ReplicaParts,
    copy: Engine,
    openCopy: () => Promise<Engine>,
    history: LogHistory | undefined,
    { number }: LogEnd,
  ) {
    this.#parts = parts;
    this.#openCopy = openCopy;
    this.#copy = copy;
    this.#end = positionOf(copy);
    this.#forgotten = forgottenIn(copy);
    const { files, log } = parts;
    if (files !== undefined && log.snapshots !== undefined && history !== undefined) {
      const snapshotParts = {
        store: log.snapshots,
        files,
        copy: () => this.#copy,
        end: () => this.#end.number,
        positionIn: (records: ReadonlyMap<string, string>) =>
          endAt(Number(records.get('commit')), records.get(DIGEST_RECORD)),
        forgotten: () => this.#forgotten,
        damaged: (error: Error) => this.#noteDamage(error),
      };
      this.snapshots = new Snapshots(snapshotParts, history, number);
    }
    const compaction = (): StoreCompaction => this.#copy.compaction;
    this.compaction = {
      get isOwed() {
        return compaction().isOwed;
      },
      use: () => compaction().use(),
      run: () => compaction().run(),
    };
  }

  get fence(): number {
    return this.#parts.log.epoch;
  }

  get path(): string {
    return this.#copy.path ?? '';
  }

  // ---- reads --------------------------------------------------------------------------------------------------------

  state(): EngineState {
    return this.#copy.state();
  }

  row(number: number): Buffer | undefined {
    return this.#read((copy) => {
      const bytes = copy.row(number);
      // The row is checked here, because damage that a reader of these bytes finds later is not reported to this
      // engine.
      if (bytes !== undefined) checkRow(bytes, number);
      return bytes;
    });
  }

  rows(from: number, limit: number, part?: 'all' | 'table'): ReturnType<Engine['rows']> {
    return this.#read((copy) => {
      const rows = copy.rows(from, limit, part);
      if (part !== 'table') for (const row of rows) checkRow(row.bytes, row.number);
      return rows;
    });
  }

  rowNumbers(from: number, limit: number): readonly number[] {
    return this.#read((copy) => copy.rowNumbers(from, limit));
  }

  storedRow(number: number): Buffer | undefined {
    return this.#read((copy) => copy.storedRow(number));
  }

  lastRowOf(key: SessionKey): number {
    return this.#read((copy) => copy.lastRowOf(key));
  }

  keyOf(name: string): SessionKey | undefined {
    return this.#read((copy) => copy.keyOf(name));
  }

  nameOf(key: SessionKey): string | undefined {
    return this.#read((copy) => copy.nameOf(key));
  }

  names(from: string, exclusive: boolean, limit: number): readonly (readonly [string, SessionKey])[] {
    return this.#read((copy) => copy.names(from, exclusive, limit));
  }

  head(key: SessionKey): Head | undefined {
    return this.#read((copy) => copy.head(key));
  }

  runnable(): readonly SessionKey[] {
    return this.#read((copy) => copy.runnable());
  }

  blob(address: string): string | undefined {
    return this.#read((copy) => copy.blob(address));
  }

  hasBlob(address: string): boolean {
    return this.#read((copy) => copy.hasBlob(address));
  }

  blobsOf(key: SessionKey): readonly string[] {
    return this.#read((copy) => copy.blobsOf(key));
  }

  dataKey(key: SessionKey): string | undefined {
    return this.#read((copy) => copy.dataKey(key));
  }

  dataKeys(after: SessionKey, limit: number): readonly (readonly [SessionKey, string])[] {
    return this.#read((copy) => copy.dataKeys(after, limit));
  }

  draft(key: SessionKey): string | undefined {
    return this.#read((copy) => copy.draft(key));
  }

  draftKeys(): readonly SessionKey[] {
    return this.#read((copy) => copy.draftKeys());
  }

  originOf(key: SessionKey): string | undefined {
    return this.#read((copy) => copy.originOf(key));
  }

  audit(range: Parameters<Engine['audit']>[0]): readonly (readonly [number, string])[] {
    return this.#read((copy) => copy.audit(range));
  }

  erasures(): ReadonlyMap<SessionKey, Erasure> {
    return this.#read((copy) => copy.erasures());
  }

  startOf(key: SessionKey): LogStart | undefined {
    return this.#read((copy) => copy.startOf(key));
  }

  record(name: string): string | undefined {
    return this.#read((copy) => copy.record(name));
  }

  storedBlob(address: string): Buffer | undefined {
    return this.#read((copy) => copy.storedBlob(address));
  }

  medium(address: string): Buffer | undefined {
    return this.#read((copy) => copy.medium(address));
  }

  hasMedium(address: string): boolean {
    return this.#read((copy) => copy.hasMedium(address));
  }

  mediaOf(key: SessionKey): readonly string[] {
    return this.#read((copy) => copy.mediaOf(key));
  }

  // ---- writes -------------------------------------------------------------------------------------------------------

  pack(batch: WriteBatch): Promise<StoredBatch> {
    return this.#copy.pack(batch);
  }

  async write(batch: WriteBatch): Promise<void> {
    await this.writeStored(await this.pack(batch));
  }

  async writeStored(stored: StoredBatch): Promise<void> {
    if (this.#damage !== undefined) throw damageRefusal(this.#damage);
    checkNext(stored, this.#copy.state());
    const bytes = encodeBatch(stored);
    const entry = { number: stored.state.commit, digest: digestAfter(this.#end.digest, bytes), bytes };
    await this.#append(entry);
    await this.#put(stored, entry);
    await this.#checkLease();
  }

  async reopen(): Promise<void> {
    this.snapshots?.end(new CancelledError('the log of the shard is opened again'));
    const end = await this.#parts.log.reclaim();
    if (this.#damage === undefined) {
      await this.#copy.reopen().catch((error: unknown) => this.#noteDamage(error));
    }
    if (this.#damage !== undefined) {
      await this.#copy.close();
      await this.#parts.removeCopy('damaged');
      const history = this.snapshots && (await this.#parts.log.snapshots?.history());
      this.#copy = await newCopy({ ...this.#parts, openCopy: this.#openCopy }, history);
      await this.#parts.log.snapshots?.rest();
      this.#damage = undefined;
    }
    this.#end = positionOf(this.#copy);
    await this.follow(end);
    await this.#checkLease();
  }

  close(): Promise<void> {
    return this.#close();
  }

  async #close(): Promise<void> {
    try {
      await this.snapshots?.close();
      await this.#copy.close();
      // The next opening would find the same damage.
      if (this.#damage !== undefined) await this.#parts.removeCopy('damaged');
    } finally {
      await this.#parts.log.close();
    }
  }

  /** Called also when the files of the copy are gone, replaced or cut short. */
  foundDamaged(error: StoreCorruptError | StoreLostError): void {
    this.#noteDamage(error);
  }

  /** Brings the copy to the end of the log, or the log to the end of the copy (RE6). */
  async follow(end: LogEnd): Promise<void> {
    if (end.number < this.#end.number) {
      await this.#appendAgain(end, this.#end.number);
      return;
    }
    while (this.#end.number < end.number) {
      const entries = await this.#parts.log.fetch(this.#end.number);
      if (entries.length === 0) throw corruptLog(this.#end.number + 1, 'it is missing');
      for (const entry of entries) await this.#take(entry);
    }
  }

  /** Writes an entry of the log into the copy. */
  async #take(entry: LogEntry): Promise<void> {
    if (entry.number !== this.#end.number + 1) throw corruptLog(this.#end.number + 1, 'it is missing');
    if (!digestAfter(this.#end.digest, entry.bytes).equals(entry.digest)) {
      throw corruptLog(entry.number, 'its digest does not follow from the entry before');
    }
    await this.#put(decodeBatch(entry.bytes), entry);
  }

  async #put(stored: StoredBatch, entry: LogEntry): Promise<void> {
    const own: StoredChange[] = [{ table: 'meta', key: DIGEST_RECORD, value: entry.digest.toString('hex') }];
    const isErasure = endsErasure(stored);
    if (isErasure) own.push({ table: 'meta', key: FORGOTTEN_RECORD, value: String(entry.number) });
    try {
      await this.#copy.writeStored({ ...stored, changes: [...stored.changes, ...own] });
    } catch (error) {
      this.#noteDamage(error);
      throw damageRefusal(asError(error));
    }
    this.#end = { number: entry.number, digest: entry.digest };
    if (isErasure) this.#forgotten = entry.number;
    this.#recent.add(entry);
    this.snapshots?.noted(entry, entry.bytes.length);
  }

  async #append(entry: LogEntry): Promise<void> {
    const end = await this.#parts.log.append(entry);
    if (end.number === entry.number) return;
    await this.#appendAgain(end, entry.number - 1);
    const after = await this.#parts.log.append(entry);
    if (after.number !== entry.number) throw lostEntries(after, entry.number);
  }

  /** Appends again the entries after `end`, up to `last`. The log had these entries and lost them (RE6). */
  async #appendAgain(end: LogEnd, last: number): Promise<void> {
    const missing = this.#recent.between(end.number + 1, last);
    const [first] = missing ?? [];
    if (missing === undefined || first === undefined) throw lostEntries(end, last);
    if (!digestAfter(end.digest, first.bytes).equals(first.digest)) throw lostEntries(end, last);
    for (const entry of missing) {
      const after = await this.#parts.log.append(entry);
      if (after.number !== entry.number) throw lostEntries(after, last);
    }
  }

  /** Enforces RE4. */
  async #checkLease(): Promise<void> {
    if (await this.#parts.leased()) return;
    throw new StoreFullError('the node cannot renew its lease in the cluster, so it begins no work', {
      data: { reason: 'lease' },
    });
  }

  /** Runs a read. If the read finds the copy damaged, the next `reopen` replaces the copy. */
  #read<T>(read: (copy: Engine) => T): T {
    try {
      return read(this.#copy);
    } catch (error) {
      this.#noteDamage(error);
      throw error;
    }
  }

  /** Notes and reports the first error which says that the copy is damaged. Throws any other error again. */
  #noteDamage(thrown: unknown): void {
    if (!isDamage(thrown)) throw thrown;
    if (this.#damage !== undefined) return;
    const error = asError(thrown);
    this.#damage = error;
    this.#parts.damaged(error);
  }
}

function damageRefusal(cause: Error): StoreFullError {
  return new StoreFullError('the copy of the shard on this machine is damaged; it is built again from the log', {
    cause,
    data: { reason: 'copy' },
  });
}

function lostEntries(end: LogEnd, last: number): StoreLostError {
  return new StoreLostError(
    `the log of the shard has lost its entries ${end.number + 1} to ${last}, which are not in memory any more; the next ` +
      'open puts the copy aside',
    { data: { reason: 'the log went back', end: end.number, last } },
  );
}

function corruptLog(number: number, reason: string): StoreCorruptError {
  return new StoreCorruptError(`entry ${number} of the shard's log in the cluster cannot be used: ${reason}`, {
    data: { entry: number, reason },
  });
}
