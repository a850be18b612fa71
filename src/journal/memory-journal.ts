/**
 * A journal in memory: for `':memory:'`, tests and the simulator. It has the same transitions, rows, gate and checks as
 * the journal on disk, over maps instead of a file.
 */
import { defined } from '../base/defined.ts';
import { StoreFullError, StoreLockedError } from '../base/errors.ts';
import { lowerBound } from '../base/lower-bound.ts';
import { parseErasure, parseHead, parseStart } from './check/store-index.ts';
import { isSealed } from './encryption/data-key.ts';
import type { StoreEncryption } from './encryption/master-keys.ts';
import type { Engine, EngineState, StoredBatch, StoredChange, WriteBatch } from './engine.ts';
import { EngineJournal } from './engine-journal.ts';
import type { Journal } from './journal.ts';
import type { Erasure, Head, LogStart, SessionKey } from './position.ts';
import { mediaPrefix, ownerOfMedium } from './rows/media-text.ts';
import { unpackRow } from './rows/row-packing.ts';
import { decodeBlob, encodeBlob } from './rows/stored-text.ts';
import { checkNext, packPlain } from './stored-batch.ts';

/**
 * The part of a memory journal that outlives it, as a disk outlives a process. A second journal opened over it finds
 * what was flushed, and the first is fenced off (J5). Opaque; made by `createMemoryStore`.
 */
export class MemoryStore {
  /** Highest fence given out. Only journals may use it. */
  fence = 0;
  readonly rows: Map<number, Buffer> = new Map();
  readonly keys: Map<string, SessionKey> = new Map();
  readonly names: Map<SessionKey, string> = new Map();
  readonly heads: Map<SessionKey, Head> = new Map();
  readonly lastRows: Map<SessionKey, number> = new Map();
  readonly blobs: Map<string, string | Buffer> = new Map();
  readonly dataKeys: Map<SessionKey, string> = new Map();
  /** Media by address, for each session. */
  readonly media: Map<SessionKey, Map<string, Buffer>> = new Map();
  readonly drafts: Map<SessionKey, string> = new Map();
  readonly erasures: Map<SessionKey, Erasure> = new Map();
  readonly starts: Map<SessionKey, LogStart> = new Map();
  readonly origins: Map<SessionKey, string> = new Map();
  /** Texts of the table `meta`. */
  readonly records: Map<string, string> = new Map();
  state: EngineState = { commit: 0, lastRow: 0, nextKey: 1, checkpointed: 0, indexedRow: 0, rewrites: 0 };
  /** Numbers of the stored rows, ascending. */
  rowNumbers: number[] = [];
  /** Names, ascending; `undefined` when they must be sorted again. */
  sortedNames: readonly string[] | undefined;
}

/**
 * One operation of a memory journal's device. The operation is done when the device's promise resolves, and refused
 * when the promise rejects.
 */
export interface DeviceOperation {
  readonly kind: 'write' | 'reopen';
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
   * The device. It receives every write and every `recover()` and decides their outcome. Missing: every operation is
   * done at once. A simulator's device may be slow or full, may be torn by a crash, or may never answer.
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
}

/** Creates an empty store. */
export function createMemoryStore(): MemoryStore {
  return new MemoryStore();
}

/**
 * Opens a journal in memory. `flushed()` resolves in a later tick, never in the call. When another journal is opened
 * over the same store, transitions that this one has not flushed are lost, as in a crash.
 */
export function openMemoryJournal(options: MemoryJournalOptions = {}): Journal {
  return new EngineJournal(openMemoryEngine(options), {
    schedule: options.schedule ?? ((run) => void setImmediate(run)),
    ...defined({ encryption: options.encryption }),
  });
}

/** Opens the engine of a journal in memory, without the journal. */
export function openMemoryEngine(options: MemoryJournalOptions = {}): Engine {
  return new MemoryEngine(options.store ?? createMemoryStore(), options);
}

class MemoryEngine implements Engine {
  readonly fence: number;
  readonly #store: MemoryStore;
  readonly #refuse: (() => Error | undefined) | undefined;
  readonly #device: MemoryJournalOptions['device'];

  constructor(store: MemoryStore, { refuse, device }: MemoryJournalOptions) {
    this.#store = store;
    this.#refuse = refuse;
    this.#device = device;
    store.fence += 1;
    this.fence = store.fence;
    this.#cutTail();
  }

  /** Removes the rows that a torn write left after the last valid row. These rows count as never written. */
  #cutTail(): void {
    const { rowNumbers, rows, state } = this.#store;
    for (let last = rowNumbers.at(-1); last !== undefined && last > state.lastRow; last = rowNumbers.at(-1)) {
      rowNumbers.pop();
      rows.delete(last);
    }
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
    this.#check();
    checkNext(stored, this.#store.state);
    const commit = (): void => {
      this.#checkFence();
      this.#putRows(stored);
      this.#commit(stored);
    };
    if (this.#device === undefined) commit();
    else await this.#device({ kind: 'write', tear: () => this.#putRows(stored), commit });
  }

  #putRows({ changes }: StoredBatch): void {
    const store = this.#store;
    this.#cutTail();
    for (const { table, key, value } of changes) {
      const number = Number(key);
      if (table !== 'log' || number <= store.state.lastRow || value === undefined) continue;
      store.rows.set(number, bytesOf(value));
      store.rowNumbers.push(number);
    }
  }

  #commit({ changes, state }: StoredBatch): void {
    for (const change of changes) this.#put(change);
    this.#store.state = state;
  }

  #put({ table, key, value }: StoredChange): void {
    const store = this.#store;
    const parsed = <T>(parse: (text: string) => T): T | undefined =>
      value === undefined ? undefined : parse(value.toString());
    switch (table) {
      case 'log':
        if (value !== undefined) store.rows.set(Number(key), bytesOf(value));
        else if (store.rows.delete(Number(key))) store.rowNumbers = store.rowNumbers.filter((row) => row !== key);
        return;
      case 'names':
        store.sortedNames = undefined;
        set(store.keys, String(key), parsed(Number));
        return;
      case 'keys':
        set(store.names, Number(key), parsed(String));
        return;
      case 'heads':
        set(
          store.heads,
          Number(key),
          parsed((text) => ({ key: Number(key), ...parseHead(text) })),
        );
        return;
      case 'lastRows':
        set(store.lastRows, Number(key), parsed(Number));
        return;
      case 'blobs':
        set(store.blobs, String(key), value);
        return;
      case 'media':
        setMedium(store.media, String(key), value === undefined ? undefined : bytesOf(value));
        return;
      case 'erasures':
        set(store.erasures, Number(key), parsed(parseErasure));
        return;
      case 'starts':
        set(store.starts, Number(key), parsed(parseStart));
        return;
      case 'drafts':
      case 'dataKeys':
      case 'origins':
        set(store[table], Number(key), parsed(String));
        return;
      case 'meta':
        set(store.records, String(key), parsed(String));
        return;
      case 'runnable':
        // The heads have the same.
        return;
    }
  }

  async reopen(): Promise<void> {
    this.#check();
    await this.#device?.({ kind: 'reopen', tear: () => undefined, commit: () => undefined });
    this.#checkFence();
    this.#cutTail();
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
    // There is nothing to close: the memory belongs to the holder of the store.
  }
}

function setMedium(media: MemoryStore['media'], address: string, bytes: Buffer | undefined): void {
  const owner = ownerOfMedium(address) ?? 0;
  const own = media.get(owner) ?? new Map<string, Buffer>();
  if (bytes === undefined) own.delete(address);
  else own.set(address, bytes);
  if (own.size === 0) media.delete(owner);
  else media.set(owner, own);
}

function set<Key, Value>(target: Map<Key, Value>, key: Key, value: Value | undefined): void {
  if (value === undefined) target.delete(key);
  else target.set(key, value);
}

function bytesOf(value: string | Buffer): Buffer {
  return typeof value === 'string' ? Buffer.from(value) : value;
}
