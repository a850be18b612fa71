/**
 * The engine of a shard in a cluster: its log outside this machine is the truth, and an engine on this machine holds a
 * copy of it, which all reads use.
 *
 * Owns: the position of the copy in the log, the newest commits in memory, the replacement of a copy that cannot be used.
 * Does not own: the log and its claim (`shard-log.ts`), the files of the copy.
 *
 * Invariants:
 *  RE1 a commit is in the log before it is in the copy. So the copy is always a prefix of the log, and a reader sees only
 *     what the log has (J3);
 *  RE2 a copy is believed only if the log has its last commit, with the same digest. The digest is written in the
 *     transaction of the commit. Any other copy is taken away and built again from the log, also one that a read found
 *     damaged while it was opened;
 *  RE3 commit n of the copy is entry n of the log;
 *  RE4 a write resolves only while the lease is valid, so that what starts after a flush starts under a lease (A12);
 *  RE5 after a rejected write nothing is appended until `reopen`, which fences what is still on its way (SL4), and brings
 *     the copy to the end of the log;
 *  RE6 if the log has lost its newest entries, they are appended again from memory. If they are not there any more, the
 *     shard is lost: its log differs from what was acknowledged.
 */
import { asError, StoreCorruptError, StoreFullError, StoreLostError } from '../../base/errors.ts';
import type { Engine, EngineState, StoreCompaction, StoredBatch, StoredChange, WriteBatch } from '../engine.ts';
import type { Erasure, Head, LogStart, SessionKey } from '../position.ts';
import { checkRow } from '../rows/row-codec.ts';
import { checkNext } from '../stored-batch.ts';
import { decodeBatch, encodeBatch } from './batch-codec.ts';
import { RecentEntries } from './recent-entries.ts';
import { digestAfter, LOG_START, type LogEnd, type LogEntry, type ShardLog } from './shard-log.ts';

/** The record of the copy that holds the digest of its last commit. */
const DIGEST_RECORD = 'replica';

/** Why a copy is taken away: it cannot be read, or it has commits that the log has not. */
export type CopyFault = 'damaged' | 'diverged';

/** The parts of a replicated engine. */
export interface ReplicaParts {
  readonly log: ShardLog;
  /** Opens the copy, or creates an empty one. `onLost`: its files are gone. Rejects like `openLmdbEngine`. */
  readonly openCopy: (onLost: (error: StoreLostError) => void) => Promise<Engine>;
  /** Takes away the files of a copy that is closed, so that `openCopy` creates an empty one. */
  readonly removeCopy: (fault: CopyFault) => Promise<void>;
  /** Resolves to true once the lease is valid, and to false if it does not become valid in time. */
  readonly leased: () => Promise<boolean>;
  /** Called when a read finds the copy damaged: the owner should make the engine reopen soon. */
  readonly damaged: (error: Error) => void;
}

/**
 * Opens the copy of a shard, and brings it to the end of the log. Rejects like `ShardLog.reclaim` and `openLmdbEngine`,
 * and with `StoreCorruptError` if the log itself is damaged.
 */
export async function openReplicatedEngine(parts: ReplicaParts): Promise<Engine> {
  const end = await parts.log.reclaim();
  let engine: ReplicatedEngine | undefined;
  const openCopy = (): Promise<Engine> => parts.openCopy((error) => engine?.copyLost(error));
  const copy = await usableCopy({ ...parts, openCopy }, end);
  engine = new ReplicatedEngine(parts, copy, openCopy);
  try {
    await engine.follow(end);
    return engine;
  } catch (error) {
    await engine.close();
    throw error;
  }
}

/** The copy if it can be believed (RE2), otherwise an empty one. */
async function usableCopy(
  parts: Pick<ReplicaParts, 'log' | 'removeCopy'> & { readonly openCopy: () => Promise<Engine> },
  end: LogEnd,
): Promise<Engine> {
  let copy: Engine;
  try {
    copy = await parts.openCopy();
  } catch (error) {
    if (!isDamage(error)) throw error;
    await parts.removeCopy('damaged');
    return parts.openCopy();
  }
  const fault = await faultOf(parts.log, copy, end).catch(async (error: unknown) => {
    await copy.close();
    throw error;
  });
  if (fault === undefined) return copy;
  await copy.close();
  await parts.removeCopy(fault);
  return parts.openCopy();
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
  return (await log.digestOf(number))?.equals(digest) === true ? undefined : 'diverged';
}

function positionOf(copy: Engine): LogEnd {
  const { commit } = copy.state();
  return commit === 0 ? LOG_START : { number: commit, digest: Buffer.from(copy.record(DIGEST_RECORD) ?? '', 'hex') };
}

/** True for an error of the copy that says that its files cannot be read, or are gone. */
function isDamage(error: unknown): boolean {
  return error instanceof StoreCorruptError || error instanceof StoreLostError;
}

class ReplicatedEngine implements Engine {
  /** Compacts the copy alone: the log keeps what it has. */
  readonly compaction: StoreCompaction;
  readonly #parts: ReplicaParts;
  readonly #openCopy: () => Promise<Engine>;
  readonly #recent = new RecentEntries();
  #copy: Engine;
  #end: LogEnd;
  /** The error with which a read found the copy damaged. */
  #damage: Error | undefined;

  constructor(parts: ReplicaParts, copy: Engine, openCopy: () => Promise<Engine>) {
    this.#parts = parts;
    this.#openCopy = openCopy;
    this.#copy = copy;
    this.#end = positionOf(copy);
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
      // Damage that a later reader finds would not be reported here.
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
    const end = await this.#parts.log.reclaim();
    if (this.#damage === undefined) {
      await this.#copy.reopen().catch((error: unknown) => this.#noteDamage(error));
    }
    if (this.#damage !== undefined) {
      await this.#copy.close();
      await this.#parts.removeCopy('damaged');
      this.#copy = await this.#openCopy();
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
      await this.#copy.close();
      // The next opening would find the same damage.
      if (this.#damage !== undefined) await this.#parts.removeCopy('damaged');
    } finally {
      await this.#parts.log.close();
    }
  }

  /** Called when the files of the copy are gone, replaced or cut short. */
  copyLost(error: StoreLostError): void {
    this.#noteDamage(error);
  }

  /** Brings the copy, or the log (RE6), to the end of the other. */
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
    const digest: StoredChange = { table: 'meta', key: DIGEST_RECORD, value: entry.digest.toString('hex') };
    try {
      await this.#copy.writeStored({ ...stored, changes: [...stored.changes, digest] });
    } catch (error) {
      this.#noteDamage(error);
      throw damageRefusal(asError(error));
    }
    this.#end = { number: entry.number, digest: entry.digest };
    this.#recent.add(entry);
  }

  async #append(entry: LogEntry): Promise<void> {
    const end = await this.#parts.log.append(entry);
    if (end.number === entry.number) return;
    await this.#appendAgain(end, entry.number - 1);
    const after = await this.#parts.log.append(entry);
    if (after.number !== entry.number) throw lostEntries(after, entry.number);
  }

  /** Appends the entries after `end`, up to `last`, which the log had and lost (RE6). */
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

  /** RE4. */
  async #checkLease(): Promise<void> {
    if (await this.#parts.leased()) return;
    throw new StoreFullError('the node cannot renew its lease in the cluster, so it begins no work', {
      data: { reason: 'lease' },
    });
  }

  /** Runs a read; a copy that it finds damaged is replaced at the next `reopen`. */
  #read<T>(read: (copy: Engine) => T): T {
    try {
      return read(this.#copy);
    } catch (error) {
      this.#noteDamage(error);
      throw error;
    }
  }

  /** Throws the error again unless it says that the copy is damaged. */
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
