/**
 * What a journal needs of the thing that keeps its bytes: reads of what is durable, and one atomic write at a time. Everything
 * that is a matter of meaning (turns, back pointers, what is visible before it is durable, group commit) is above it, in
 * `engine-journal.ts`, so that memory and LMDB cannot differ in it.
 */
import type { Head, Position, SessionKey } from './position.ts';
import type { Row } from './rows/row-codec.ts';

/** Where the log stands in an engine. */
export interface EngineState {
  /** Number of the last row, 0 when there is none. */
  readonly lastRow: number;
  /** The next session key to give: above every key ever given. */
  readonly nextKey: SessionKey;
  /** `upTo` of the last checkpoint, 0 before the first. */
  readonly checkpointed: Position;
  /** `lastRowOf` is right for every session as of this row; later rows must be looked at. */
  readonly indexedRow: number;
}

/** What one write carries; all of it or nothing. In the maps `undefined` removes. Later settings replace earlier ones. */
export interface WriteBatch {
  /** Sealed or growing rows, ascending; the last one grows until the batch is written. */
  readonly rows: Row[];
  readonly names: Map<string, SessionKey | undefined>;
  readonly keys: Map<SessionKey, string | undefined>;
  readonly heads: Map<SessionKey, Head | undefined>;
  readonly lastRows: Map<SessionKey, number | undefined>;
  readonly blobs: Map<string, string | undefined>;
  nextKey: SessionKey | undefined;
  checkpoint: { readonly upTo: Position; readonly indexedRow: number } | undefined;
  /** UTF-8 bytes of everything in it, roughly. */
  bytes: number;
}

/** A batch with nothing in it. */
export function createBatch(): WriteBatch {
  return {
    rows: [],
    names: new Map(),
    keys: new Map(),
    heads: new Map(),
    lastRows: new Map(),
    blobs: new Map(),
    nextKey: undefined,
    checkpoint: undefined,
    bytes: 0,
  };
}

/** True when writing the batch would change nothing. */
export function isEmptyBatch(batch: WriteBatch): boolean {
  return (
    batch.rows.length === 0 &&
    batch.keys.size === 0 &&
    batch.heads.size === 0 &&
    batch.blobs.size === 0 &&
    batch.checkpoint === undefined
  );
}

/** Keeps the bytes. Reads see what was written and nothing else; they are synchronous and belong to the opening thread. */
export interface Engine {
  /** Fencing token taken when it was opened. */
  readonly fence: number;
  /** Where the bytes lie, for errors; missing in memory. */
  readonly path?: string;
  state(): EngineState;
  /** A row's bytes, valid until the next call of any method. */
  row(number: number): Buffer | undefined;
  /**
   * Up to `limit` rows from `from` on, ascending; the bytes are the caller's. With `'table'` the data behind header and table may be
   * missing: it is for those who do not look at it.
   */
  rows(
    from: number,
    limit: number,
    part?: 'all' | 'table',
  ): readonly { readonly number: number; readonly bytes: Buffer }[];
  /** Numbers of up to `limit` rows from `from` on, ascending. */
  rowNumbers(from: number, limit: number): readonly number[];
  /** A row's bytes as they are stored, see `row-packing.ts`; valid until the next call of any method. */
  storedRow(number: number): Buffer | undefined;
  /** The last row of a session as of `indexedRow`, 0 for none. */
  lastRowOf(key: SessionKey): number;
  keyOf(name: string): SessionKey | undefined;
  nameOf(key: SessionKey): string | undefined;
  /** Up to `limit` names from `from` on (`exclusive`: after it), ascending. */
  names(from: string, exclusive: boolean, limit: number): readonly (readonly [string, SessionKey])[];
  head(key: SessionKey): Head | undefined;
  /** Keys whose head says runnable, ascending. */
  runnable(): readonly SessionKey[];
  blob(address: string): string | undefined;
  hasBlob(address: string): boolean;
  /** A blob's bytes as they are stored, see `stored-text.ts`; valid until the next call of any method. */
  storedBlob(address: string): Buffer | undefined;
  /**
   * Writes all of a batch durably, or nothing. Never called while a write is under way. Rejects with `StoreFullError` when
   * the device refuses, `StoreLockedError` when the store has a newer owner, `StoreCorruptError` when it is damaged.
   */
  write(batch: WriteBatch): Promise<void>;
  /** After a rejected write: leaves nothing half done and proves that the device takes writes again; rejects as `write`. */
  reopen(): Promise<void>;
  close(): Promise<void>;
}
