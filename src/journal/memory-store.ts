/**
 * The bytes of a memory journal, and how the changes of a batch are put into them. The journal is in
 * `memory-journal.ts`.
 */
import { parseErasure, parseHead, parseStart } from './check/store-index.ts';
import type { EngineState, StoredChange } from './engine.ts';
import type { Erasure, Head, LogStart, SessionKey } from './position.ts';
import { ownerOfMedium } from './rows/media-text.ts';

/**
 * The part of a memory journal that outlives it, as a disk outlives a process. A second journal opened over the same
 * store finds all flushed data, and the first journal is fenced off (J5). Opaque; made by `createMemoryStore`.
 */
export class MemoryStore {
  /** Highest fence given out. Only journals may use it. */
  fence = 0;
  rows: Map<number, Buffer> = new Map();
  keys: Map<string, SessionKey> = new Map();
  names: Map<SessionKey, string> = new Map();
  heads: Map<SessionKey, Head> = new Map();
  lastRows: Map<SessionKey, number> = new Map();
  blobs: Map<string, string | Buffer> = new Map();
  dataKeys: Map<SessionKey, string> = new Map();
  /** Media by address, for each session. */
  media: Map<SessionKey, Map<string, Buffer>> = new Map();
  drafts: Map<SessionKey, string> = new Map();
  erasures: Map<SessionKey, Erasure> = new Map();
  starts: Map<SessionKey, LogStart> = new Map();
  origins: Map<SessionKey, string> = new Map();
  /** Rows of the audit log, ascending by number. */
  audit: Map<number, string> = new Map();
  /** Texts of the table `meta`. */
  records: Map<string, string> = new Map();
  state: EngineState = {
    commit: 0,
    lastRow: 0,
    nextKey: 1,
    checkpointed: 0,
    indexedRow: 0,
    rewrites: 0,
    erased: 0,
    compacted: 0,
  };
  /** Numbers of the stored rows, ascending. */
  rowNumbers: number[] = [];
  /** Names, ascending; `undefined` when they must be sorted again. */
  sortedNames: readonly string[] | undefined;
  /**
   * The rows that were removed or replaced since the last compaction. They stand for the free pages of a file, which
   * keep such bytes. Undefined if no such rows are kept. Only a simulator keeps them.
   */
  freedRows: { readonly row: number; readonly bytes: Buffer }[] | undefined;

  /** A copy without freed rows, which shares no map with this store. */
  copy(): MemoryStore {
    const copy = new MemoryStore();
    copy.#take(this, (map) => new Map(map));
    copy.media = new Map(Array.from(this.media, ([key, media]) => [key, new Map(media)]));
    if (this.freedRows !== undefined) copy.freedRows = [];
    return copy;
  }

  /** Takes over the contents of `copy`, which must not be used afterwards. The fence stays. */
  replaceBy(copy: MemoryStore): void {
    this.#take(copy, (map) => map);
    this.freedRows = copy.freedRows;
  }

  #take(from: MemoryStore, map: <Key, Value>(map: Map<Key, Value>) => Map<Key, Value>): void {
    this.rows = map(from.rows);
    this.keys = map(from.keys);
    this.names = map(from.names);
    this.heads = map(from.heads);
    this.lastRows = map(from.lastRows);
    this.blobs = map(from.blobs);
    this.dataKeys = map(from.dataKeys);
    this.media = map(from.media);
    this.drafts = map(from.drafts);
    this.erasures = map(from.erasures);
    this.starts = map(from.starts);
    this.origins = map(from.origins);
    this.audit = map(from.audit);
    this.records = map(from.records);
    this.state = from.state;
    this.rowNumbers = [...from.rowNumbers];
    this.sortedNames = undefined;
  }
}

/** Removes the rows that a torn write left after the last valid row. These rows count as never written. */
export function cutTail({ rowNumbers, rows, state }: MemoryStore): void {
  for (let last = rowNumbers.at(-1); last !== undefined && last > state.lastRow; last = rowNumbers.at(-1)) {
    rowNumbers.pop();
    rows.delete(last);
  }
}

/** Puts the new rows of a commit. They become valid when `state.lastRow` reaches the last of them. */
export function putRows(store: MemoryStore, changes: readonly StoredChange[]): void {
  cutTail(store);
  for (const { table, key, value } of changes) {
    const number = Number(key);
    if (table !== 'log' || number <= store.state.lastRow || value === undefined) continue;
    store.rows.set(number, bytesOf(value));
    store.rowNumbers.push(number);
  }
}

export function putChange(store: MemoryStore, { table, key, value }: StoredChange): void {
  const parsed = <T>(parse: (text: string) => T): T | undefined =>
    value === undefined ? undefined : parse(value.toString());
  switch (table) {
    case 'log':
      freeRow(store, Number(key), value);
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
    case 'audit':
      set(store[table], Number(key), parsed(String));
      return;
    case 'meta':
      set(store.records, String(key), parsed(String));
      return;
    case 'runnable':
      // The heads have the same information.
      return;
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

/** Notes the bytes of a row that is about to be removed or replaced. */
function freeRow({ freedRows, rows }: MemoryStore, number: number, value: string | Buffer | undefined): void {
  const stored = rows.get(number);
  if (freedRows !== undefined && stored !== undefined && stored !== value)
    freedRows.push({ row: number, bytes: stored });
}
