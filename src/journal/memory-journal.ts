/**
 * A journal in memory, used for `':memory:'`, by tests and by the simulator. It has the same transitions, rows, gate
 * and checks as the journal on disk, over maps instead of a file.
 */
import { defined } from '../base/defined.ts';
import { CancelledError, StoreFullError, StoreLockedError } from '../base/errors.ts';
import { lowerBound } from '../base/lower-bound.ts';
import { isSealed } from './encryption/data-key.ts';
import type { StoreEncryption } from './encryption/master-keys.ts';
import type { Engine, EngineState, StoredBatch, WriteBatch } from './engine.ts';
import { EngineJournal } from './engine-journal.ts';
import type { Journal } from './journal.ts';
import { type CompactCopy, LiveCompaction } from './live-compaction.ts';
import { cutTail, MemoryStore, putChange, putRows } from './memory-store.ts';
import type { Erasure, Head, LogStart, SessionKey } from './position.ts';
import { mediaPrefix, ownerOfMedium } from './rows/media-text.ts';
import { unpackRow } from './rows/row-packing.ts';
import { decodeBlob, encodeBlob } from './rows/stored-text.ts';
import { checkNext, packPlain } from './stored-batch.ts';

/**
 * One operation of a memory journal's device. The operation is done when the device's promise resolves, and refused
 * when the promise rejects.
 */
export interface DeviceOperation {
  readonly kind: 'write' | 'reopen' | 'copy' | 'replace';
  /**
   * Stores rows where a later open looks for them, without making them valid. A crash in the middle of a write leaves
   * such rows behind.
   */
  readonly tear: () => void;
  /** Makes the whole operation take effect at once. Call it before the device's promise resolves, or not at all. */
  readonly commit: () => void;
}

/** The options of a memory journal. */
export interface MemoryJournalOptions {
  /** The store to open; a new, empty one when missing. */
  readonly store?: MemoryStore;
  /**
   * Called before every write and by `recover()`. A returned error refuses the operation as a full disk would, and
   * becomes the `cause` of the `StoreFullError`. Must not throw.
   */
  readonly refuse?: () => Error | undefined;
  /**
   * The device. It receives every operation and decides its outcome. Missing: every operation is done at once. A
   * simulator's device may be slow or full, may be torn by a crash, or may never answer.
   */
  readonly device?: (operation: DeviceOperation) => Promise<void>;
  /**
   * Calls `run` once, soon, never synchronously. The journal starts each write through it. Missing: `setImmediate`. A
   * simulator may give its own scheduler. `queueMicrotask` would let sessions that wait for nothing else starve the
   * event loop.
   */
  readonly schedule?: (run: () => void) => void;
  /** Missing: the store is not encrypted. */
  readonly encryption?: StoreEncryption;
  /** The number of the shard; missing: 0. */
  readonly shard?: number;
}

/** Creates an empty store. */
export function createMemoryStore(): MemoryStore {
  return new MemoryStore();
}

/**
 * Opens a journal in memory. `flushed()` resolves in a later tick, never in the call. When another journal is opened
 * over the same store, transitions that this journal has not flushed are lost, as in a crash.
 */
export function openMemoryJournal(options: MemoryJournalOptions = {}): Journal {
  return new EngineJournal(openMemoryEngine(options), {
    schedule: options.schedule ?? ((run) => void setImmediate(run)),
    ...defined({ encryption: options.encryption, shard: options.shard }),
  });
}

/** Opens the engine of a journal in memory, without the journal. */
export function openMemoryEngine(options: MemoryJournalOptions = {}): Engine {
  return new MemoryEngine(options.store ?? createMemoryStore(), options);
}

class MemoryEngine implements Engine {
  readonly fence: number;
  readonly compaction: LiveCompaction;
  readonly #store: MemoryStore;
  readonly #refuse: (() => Error | undefined) | undefined;
  readonly #device: MemoryJournalOptions['device'];

  constructor(store: MemoryStore, { refuse, device }: MemoryJournalOptions) {
    this.#store = store;
    this.#refuse = refuse;
    this.#device = device;
    store.fence += 1;
    this.fence = store.fence;
    cutTail(store);
    this.compaction = new LiveCompaction({
      state: () => store.state,
      keepsRemoved: () => store.freedRows !== undefined,
      use: () => ({ bytes: 0, freeBytes: 0 }),
      copy: () => this.#copy(),
    });
  }

  state(): EngineState {
    return this.#store.state;
  }

  row(number: number): Buffer | undefined {
    const stored = this.#store.rows.get(number);
    return stored && unpackRow(stored, number);
  }

  rows(from: number, limit: number): readonly { readonly number: number; readonly bytes: Buffer }[] {
    const found: { readonly number: number; readonly bytes: Buffer }[] = [];
    const { rowNumbers, rows } = this.#store;
    for (let index = lowerBound(rowNumbers, from); index < rowNumbers.length; index += 1) {
      const number = rowNumbers[index] ?? 0;
      const bytes = rows.get(number);
      if (found.length >= limit || bytes === undefined) break;
      found.push({ number, bytes: unpackRow(bytes, number) });
    }
    return found;
  }

  rowNumbers(from: number, limit: number): readonly number[] {
    const { rowNumbers } = this.#store;
    const first = lowerBound(rowNumbers, from);
    return rowNumbers.slice(first, first + limit);
  }

  storedRow(number: number): Buffer | undefined {
    return this.#store.rows.get(number);
  }

  lastRowOf(key: SessionKey): number {
    return this.#store.lastRows.get(key) ?? 0;
  }

  keyOf(name: string): SessionKey | undefined {
    return this.#store.keys.get(name);
  }

  nameOf(key: SessionKey): string | undefined {
    return this.#store.names.get(key);
  }

  names(from: string, exclusive: boolean, limit: number): readonly (readonly [string, SessionKey])[] {
    const store = this.#store;
    store.sortedNames ??= [...store.keys.keys()].sort();
    const found: (readonly [string, SessionKey])[] = [];
    for (let index = lowerBound(store.sortedNames, from); index < store.sortedNames.length; index += 1) {
      const name = store.sortedNames[index] ?? '';
      const key = store.keys.get(name);
      if (found.length >= limit || key === undefined) break;
      if (!exclusive || name !== from) found.push([name, key]);
    }
    return found;
  }

  head(key: SessionKey): Head | undefined {
    return this.#store.heads.get(key);
  }

  runnable(): readonly SessionKey[] {
    const keys: SessionKey[] = [];
    for (const [key, head] of this.#store.heads) if (head.runnable) keys.push(key);
    return keys.sort((a, b) => a - b);
  }

  blob(address: string): string | undefined {
    const blob = this.#store.blobs.get(address);
    if (blob === undefined || typeof blob === 'string') return blob;
    return isSealed(blob) ? undefined : decodeBlob(blob);
  }

  hasBlob(address: string): boolean {
    return this.#store.blobs.has(address);
  }

  storedBlob(address: string): Buffer | undefined {
    const blob = this.#store.blobs.get(address);
    return typeof blob === 'string' ? encodeBlob(blob) : blob;
  }

  medium(address: string): Buffer | undefined {
    return this.#store.media.get(ownerOfMedium(address) ?? 0)?.get(address);
  }

  hasMedium(address: string): boolean {
    return this.medium(address) !== undefined;
  }

  mediaOf(key: SessionKey): readonly string[] {
    return [...(this.#store.media.get(key)?.keys() ?? [])];
  }

  blobsOf(key: SessionKey): readonly string[] {
    const prefix = mediaPrefix(key);
    return [...this.#store.blobs.keys()].filter((address) => address.startsWith(prefix));
  }

  dataKey(key: SessionKey): string | undefined {
    return this.#store.dataKeys.get(key);
  }

  dataKeys(after: SessionKey, limit: number): readonly (readonly [SessionKey, string])[] {
    const found = [...this.#store.dataKeys].filter(([key]) => key > after);
    return found.sort(([a], [b]) => a - b).slice(0, limit);
  }

  draft(key: SessionKey): string | undefined {
    return this.#store.drafts.get(key);
  }

  draftKeys(): readonly SessionKey[] {
    return [...this.#store.drafts.keys()];
  }

  originOf(key: SessionKey): string | undefined {
    return this.#store.origins.get(key);
  }

  audit({ after, limit, isNewestFirst }: Parameters<Engine['audit']>[0]): readonly (readonly [number, string])[] {
    const found = [...this.#store.audit].filter(([number]) => number > after);
    return (isNewestFirst === true ? found.reverse() : found).slice(0, limit);
  }

  erasures(): ReadonlyMap<SessionKey, Erasure> {
    return this.#store.erasures;
  }

  startOf(key: SessionKey): LogStart | undefined {
    return this.#store.starts.get(key);
  }

  record(name: string): string | undefined {
    return this.#store.records.get(name);
  }

  async pack(batch: WriteBatch): Promise<StoredBatch> {
    return packPlain(batch, this.#store.state);
  }

  write(batch: WriteBatch): Promise<void> {
    return this.writeStored(packPlain(batch, this.#store.state));
  }

  async writeStored(stored: StoredBatch): Promise<void> {
    const { compaction } = this;
    if (compaction.hold !== undefined) await compaction.hold;
    this.#check();
    checkNext(stored, this.#store.state);
    compaction.writing();
    let committed: StoredBatch | undefined;
    const commit = (): void => {
      this.#checkFence();
      putRows(this.#store, stored.changes);
      for (const change of stored.changes) putChange(this.#store, change);
      this.#store.state = { ...stored.state, compacted: this.#store.state.compacted };
      committed = stored;
    };
    try {
      const { changes } = stored;
      await this.#done({ kind: 'write', tear: () => putRows(this.#store, changes), commit });
    } finally {
      compaction.wrote(committed);
    }
  }

  /** Runs an operation of the device. */
  async #done(operation: DeviceOperation): Promise<void> {
    if (this.#device === undefined) operation.commit();
    else await this.#device(operation);
  }

  /** Copies the store. `replace` puts the copy in the place of the store in one operation of the device. */
  async #copy(): Promise<CompactCopy> {
    const copy = this.#store.copy();
    cutTail(copy);
    const { commit } = copy.state;
    const written = (): Promise<void> => this.#done({ kind: 'copy', tear: () => undefined, commit: () => undefined });
    await written();
    return {
      commit,
      apply: async (changes) => {
        for (const change of changes) {
          const isNew = change.table === 'log' && Number(change.key) > (copy.rowNumbers.at(-1) ?? 0);
          if (isNew) copy.rowNumbers.push(Number(change.key));
          putChange(copy, change);
        }
      },
      sync: written,
      replace: async () => {
        this.#check();
        const replace = (): void => {
          this.#checkFence();
          // The changes do not contain the engine's state. At the replacement the copy has every commit (M1), so it
          // takes over the state of the store.
          copy.state = { ...this.#store.state, compacted: commit };
          this.#store.replaceBy(copy);
        };
        await this.#done({ kind: 'replace', tear: () => undefined, commit: replace });
        return 0;
      },
      discard: async () => undefined,
    };
  }

  async reopen(): Promise<void> {
    this.#check();
    await this.compaction.end(new CancelledError('the store is opened again'));
    await this.#device?.({ kind: 'reopen', tear: () => undefined, commit: () => undefined });
    this.#checkFence();
    cutTail(this.#store);
  }

  #check(): void {
    this.#checkFence();
    const cause = this.#refuse?.();
    if (cause !== undefined) throw new StoreFullError(`the journal cannot be written: ${cause.message}`, { cause });
  }

  #checkFence(): void {
    if (this.#store.fence !== this.fence) {
      throw new StoreLockedError('another journal has opened this store', {
        retryable: false,
        data: { fence: this.fence, owner: this.#store.fence },
      });
    }
  }

  async close(): Promise<void> {
    // There is nothing else to close: the memory belongs to the holder of the store.
    await this.compaction.end(new CancelledError('the store is closed'));
  }
}
