/**
 * The engine port: reads of durable data, and one atomic write at a time. `engine-journal.ts` adds transitions, back
 * pointers, reads of data that is not durable yet, and group commit. So the engines in memory and over LMDB cannot
 * differ in these points.
 */
import type { StoreCorruptError } from '../base/errors.ts';
import type { TableName } from './lmdb/tables.ts';
import type { Erasure, Head, JournalCopy, LogStart, Position, SessionKey } from './position.ts';
import { type Row, rowOf } from './rows/row-codec.ts';

/** The state of the log in an engine. */
export interface EngineState {
  /** Number of the newest commit of a batch, 0 before the first. It is stored with the commit. */
  readonly commit: number;
  /** Number of the last row, 0 when there is none. */
  readonly lastRow: number;
  /** The next session key to give out. It is higher than every key given out before. */
  readonly nextKey: SessionKey;
  /** `upTo` of the last checkpoint, 0 before the first. */
  readonly checkpointed: Position;
  /** `lastRowOf` covers all rows up to this one. Later rows must be scanned. */
  readonly indexedRow: number;
  /** The number of writes that changed or removed stored rows. */
  readonly rewrites: number;
  /** The newest commit that ended the erasure of a deleted session, 0 before the first. */
  readonly erased: number;
  /** The newest commit in the snapshot of the newest compact copy, 0 before the first. Commits do not change it. */
  readonly compacted: number;
}

/**
 * The highest row that was ever given out, 0 for none. It may be above the last row, because a checkpoint may cover
 * rows whose write was refused. If such a number were given out again, the checkpoint would seem to cover the new row
 * (E2).
 */
export function lastGivenRow({ lastRow, indexedRow, checkpointed }: EngineState): number {
  return Math.max(lastRow, indexedRow, rowOf(checkpointed));
}

/**
 * The contents of one write, which are written completely or not at all. In the maps, `undefined` removes an entry. A
 * later value of a key replaces an earlier one.
 */
export interface WriteBatch {
  /** New rows, ascending. The last one may grow until the batch is written. */
  readonly rows: Row[];
  /** New plain bytes of rows that are stored already. They are put before `rows`. */
  readonly rewrittenRows: Map<number, Buffer | undefined>;
  readonly erasures: Map<SessionKey, Erasure | undefined>;
  readonly starts: Map<SessionKey, LogStart | undefined>;
  readonly names: Map<string, SessionKey | undefined>;
  readonly keys: Map<SessionKey, string | undefined>;
  readonly heads: Map<SessionKey, Head | undefined>;
  readonly lastRows: Map<SessionKey, number | undefined>;
  /** Texts, or encrypted bytes as they are stored. */
  readonly blobs: Map<string, string | Buffer | undefined>;
  /** Wrapped data keys of sessions, see `encryption/vault.ts`. */
  readonly dataKeys: Map<SessionKey, string | undefined>;
  readonly drafts: Map<SessionKey, string | undefined>;
  /** Bytes by address, see `rows/media-text.ts`. */
  readonly media: Map<string, Buffer | undefined>;
  /** See `Journal.originOf`. */
  readonly origins: Map<SessionKey, string | undefined>;
  /** Rows of the audit log by number, see `stored-audit.ts`. */
  readonly audit: Map<number, string | undefined>;
  /** True if the batch ends the erasure of a removed session: no row has its entries any more. */
  isErased: boolean;
  nextKey: SessionKey | undefined;
  checkpoint: { readonly upTo: Position; readonly indexedRow: number } | undefined;
  /** UTF-8 bytes of the whole batch, roughly. */
  bytes: number;
}

/** One entry that a commit puts, or removes. */
export interface StoredChange {
  readonly table: TableName;
  /** The number of a row or the key of a session, or a text: a name, an address, the name of a record. */
  readonly key: string | number;
  /**
   * Missing: the entry is removed. Rows and media are bytes; so are blobs, but an engine in memory packs them as the
   * text that they hold. All other values are texts without a seal, see `rows/sealed-text.ts`.
   */
  readonly value: string | Buffer | undefined;
}

/**
 * One commit in its packed form. A decorator of an engine (`replica/replicated-engine.ts`) may append changes of the
 * table `meta`.
 */
export interface StoredBatch {
  /** The state of the engine after the commit. */
  readonly state: EngineState;
  /** The changes, in the order in which they are written. New rows ascend. */
  readonly changes: readonly StoredChange[];
  /** Bytes of the whole batch, roughly. */
  readonly bytes: number;
}

/** Creates an empty batch. */
export function createBatch(): WriteBatch {
  return {
    rows: [],
    rewrittenRows: new Map(),
    erasures: new Map(),
    starts: new Map(),
    names: new Map(),
    keys: new Map(),
    heads: new Map(),
    lastRows: new Map(),
    blobs: new Map(),
    dataKeys: new Map(),
    drafts: new Map(),
    media: new Map(),
    origins: new Map(),
    audit: new Map(),
    isErased: false,
    nextKey: undefined,
    checkpoint: undefined,
    bytes: 0,
  };
}

/** True when writing the batch would change nothing. */
export function isEmptyBatch(batch: WriteBatch): boolean {
  return (
    batch.rows.length === 0 &&
    batch.rewrittenRows.size === 0 &&
    batch.erasures.size === 0 &&
    batch.starts.size === 0 &&
    batch.keys.size === 0 &&
    batch.heads.size === 0 &&
    batch.lastRows.size === 0 &&
    batch.blobs.size === 0 &&
    batch.dataKeys.size === 0 &&
    batch.drafts.size === 0 &&
    batch.media.size === 0 &&
    batch.origins.size === 0 &&
    batch.audit.size === 0 &&
    batch.checkpoint === undefined
  );
}

/** The bytes of a store's file, and how many of them are free. */
export interface StoreUse {
  readonly bytes: number;
  readonly freeBytes: number;
}

/** The result of a compaction. */
export interface CompactionResult {
  /** Bytes of the store's file before and after. */
  readonly bytesBefore: number;
  readonly bytes: number;
  /** Milliseconds of the longest piece of work on the engine's thread. */
  readonly sliceMs: number;
}

/** Replaces a store by a compact copy of itself while the store is used; see `live-compaction.ts`. */
export interface StoreCompaction {
  /** True if bytes of deleted sessions may be left in the store's files, although no row has their entries any more. */
  readonly isOwed: boolean;
  /** True if a run is worth its cost although `isOwed` is false. Missing: the free pages of the store decide. */
  isDue?(): boolean;
  /** Reads a few pages of the store. */
  use(): StoreUse;
  /**
   * Runs a compaction. Rejects with `LimitError` if more is committed meanwhile than is kept for the copy, and with
   * `CancelledError` when the journal closes. Rejects with `StoreFullError` if the device has no room for the copy, and
   * with the other errors of a write. After a rejection the store is as before.
   */
  run(): Promise<CompactionResult>;
}

/**
 * Stores the bytes. Reads are synchronous and see only written data. Only the thread that opened the engine may call
 * it.
 */
export interface Engine {
  /** Fencing token taken when the engine was opened. */
  readonly fence: number;
  /** Path of the bytes on disk, for errors; missing for an engine in memory. */
  readonly path?: string;
  state(): EngineState;
  /** A row's bytes, valid until the next call of any method. */
  row(number: number): Buffer | undefined;
  /**
   * Up to `limit` rows starting at `from`, ascending; the bytes belong to the caller. `'table'` is for callers that
   * read only the header and the table of a row: the data after them may be missing.
   */
  rows(
    from: number,
    limit: number,
    part?: 'all' | 'table',
  ): readonly { readonly number: number; readonly bytes: Buffer }[];
  /** Numbers of up to `limit` rows starting at `from`, ascending. */
  rowNumbers(from: number, limit: number): readonly number[];
  /** A row's bytes as they are stored, see `row-packing.ts`; valid until the next call of any method. */
  storedRow(number: number): Buffer | undefined;
  /** The last row of a session as of `indexedRow`, 0 for none. */
  lastRowOf(key: SessionKey): number;
  keyOf(name: string): SessionKey | undefined;
  nameOf(key: SessionKey): string | undefined;
  /** Names starting at `from`, or after `from` if `exclusive` is true; ascending, at most `limit`. */
  names(from: string, exclusive: boolean, limit: number): readonly (readonly [string, SessionKey])[];
  head(key: SessionKey): Head | undefined;
  /** Keys whose head is marked runnable, ascending. */
  runnable(): readonly SessionKey[];
  blob(address: string): string | undefined;
  hasBlob(address: string): boolean;
  /** The addresses of the blobs that belong to a session. */
  blobsOf(key: SessionKey): readonly string[];
  /** The wrapped data key of a session; see `encryption/vault.ts`. */
  dataKey(key: SessionKey): string | undefined;
  /** Wrapped data keys of sessions above `after`, ascending, at most `limit`. */
  dataKeys(after: SessionKey, limit: number): readonly (readonly [SessionKey, string])[];
  /** The draft of a session, see `stored-drafts.ts`. */
  draft(key: SessionKey): string | undefined;
  /** The sessions that have a draft. */
  draftKeys(): readonly SessionKey[];
  /** See `Journal.originOf`. */
  originOf(key: SessionKey): string | undefined;
  /** Rows of the audit log above `after`, at most `limit`; ascending, or the newest first. */
  audit(range: {
    readonly after: number;
    readonly limit: number;
    readonly isNewestFirst?: boolean;
  }): readonly (readonly [number, string])[];
  /** The notes about removed sessions and removed parts of logs whose data may still be stored. */
  erasures(): ReadonlyMap<SessionKey, Erasure>;
  /** The beginning of a session's log; undefined if nothing of it was removed. */
  startOf(key: SessionKey): LogStart | undefined;
  /** A text of the table `meta`, such as one that a decorator appended to a packed batch. */
  record(name: string): string | undefined;
  /** A blob's bytes as they are stored, see `stored-text.ts`; valid until the next call of any method. */
  storedBlob(address: string): Buffer | undefined;
  /** The bytes of a medium, unchecked; they belong to the caller. */
  medium(address: string): Buffer | undefined;
  hasMedium(address: string): boolean;
  /** The addresses of a session's media. */
  mediaOf(key: SessionKey): readonly string[];
  /**
   * Writes all of a batch durably, or nothing. Never called while a write is in flight. Rejects with `StoreFullError`
   * when the device refuses, `StoreLockedError` when the store has a newer owner, `StoreCorruptError` when it is
   * damaged.
   */
  write(batch: WriteBatch): Promise<void>;
  /** The packed form of the batch that `write` would write next. Never called while a write is in flight. */
  pack(batch: WriteBatch): Promise<StoredBatch>;
  /**
   * Writes a packed batch like `write`. Rejects with `TroupeError` (`internal`) if the batch does not follow the newest
   * commit.
   */
  writeStored(stored: StoredBatch): Promise<void>;
  /**
   * Called after a rejected write. Leaves nothing half done and checks that the device accepts writes again. Rejects
   * like `write`.
   */
  reopen(): Promise<void>;
  /**
   * Writes a copy of one commit into `directory`, which exists: see `Journal.copyTo`. Missing for an engine in memory.
   * `close` and `reopen` wait for it.
   */
  copyTo?(directory: string, known: string | undefined): Promise<JournalCopy>;
  /** Replaces the store by a compact copy while writes continue. `close` and `reopen` end a compaction under way. */
  readonly compaction: StoreCompaction;
  /** Called when bytes that a read has returned were found damaged. Missing: the store cannot be built again. */
  foundDamaged?(error: StoreCorruptError): void;
  /** Writes snapshots of the store to its log outside this machine (`replica/snapshots.ts`). Missing: no such log. */
  readonly snapshots?: StoreCompaction;
  close(): Promise<void>;
}
