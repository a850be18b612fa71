/**
 * The port of a shard's log outside this machine: the truth of a shard in a cluster. An entry is one commit, as
 * `batch-codec.ts` encodes it. The files of the journal are a copy of what the log says. A **claim** makes one node the
 * owner of a shard (`src/cluster/plan.ts`).
 *
 * Invariants of every implementation (checked by `runShardLogConformance`):
 *  SL1 entries have the numbers 1, 2, 3 …, each once. The digest of an entry is `digestAfter` the previous digest and
 *      the bytes of the entry;
 *  SL2 an append is durable when it resolves. An append that rejects may have taken effect;
 *  SL3 after a later claim of the shard no append and no `reclaim` of an earlier claim takes effect: both reject with
 *     `ShardMovedError`. A claim is identified by a random token, never by its epoch alone: a database that was set
 *     back to an earlier state may give out an epoch twice;
 *  SL4 after `reclaim` no earlier append of this claim takes effect any more, even one that is still on its way;
 *  SL5 an append of an entry that is there already, with the same digest, resolves and changes nothing;
 *  SL6 a snapshot is there whole or not at all: it appears only if the log has all its pieces, and its entry with the
 *     same digest;
 *  SL7 entries are removed from the oldest on, and only if a snapshot covers them. After the removal `digestOf` still
 *     returns the digest of the snapshot's entry, and `reclaim` the end of the log;
 *  SL8 after a later claim, or after `reclaim`, a call that began before it neither makes a snapshot appear nor removes
 *     an entry.
 */
import { createHash } from 'node:crypto';

/** Bytes of a digest. */
const DIGEST_BYTES = 16;

/** The end of a log: the number and the digest of its last entry; 0 and an empty digest if there is none. */
export interface LogEnd {
  readonly number: number;
  readonly digest: Buffer;
}

/** One commit in the log. */
export interface LogEntry extends LogEnd {
  readonly bytes: Buffer;
}

/** The end of an empty log. */
export const LOG_START: LogEnd = Object.freeze({ number: 0, digest: Buffer.alloc(0) });

/** A snapshot: the file of the shard's store as of one entry of the log. */
export interface LogSnapshot extends LogEnd {
  /** Identifies the pieces of the snapshot: hexadecimal digits. */
  readonly id: string;
  /** The number of pieces. */
  readonly pieces: number;
  /** SHA-256 of the file. */
  readonly hash: Buffer;
}

/** The part of a log that was not removed. */
export interface LogHistory {
  /** The newest snapshot. */
  readonly snapshot?: LogSnapshot;
  /** The number of the first entry; if there is none, the number of the next one. */
  readonly first: number;
  /** Bytes of the entries after the snapshot, at least of the first `SNAPSHOT_ENTRIES_MIN` of them. */
  readonly bytes: number;
}

/**
 * The snapshots of a log. Its calls may run beside those of the log, one at a time. They reject like `append`, and with
 * `CancelledError` if the claim was made again by `reclaim` meanwhile.
 */
export interface SnapshotStore {
  history(): Promise<LogHistory>;
  /** A piece of a snapshot. Rejects with `StoreCorruptError` if it is missing. */
  piece(id: string, number: number): Promise<Buffer>;
  /** Writes a piece of a snapshot that is not there yet. Pieces have the numbers 0, 1, 2 … */
  putPiece(id: string, number: number, bytes: Buffer): Promise<void>;
  /** Completes a snapshot whose pieces are written. It replaces the snapshot before it (SL6). */
  put(snapshot: LogSnapshot): Promise<void>;
  /**
   * Removes a bounded number of pieces that no snapshot has, or else of entries up to `upTo` (SL7). False: nothing was
   * left to remove.
   */
  trim(upTo: number): Promise<boolean>;
  /** Ends the connection, until the next call. Never rejects. */
  rest(): Promise<void>;
  /** Ends the connection. Calls under way reject. Never rejects. */
  close(): Promise<void>;
}

/** The log of one shard under one claim. Used by one thread, with one call at a time. */
export interface ShardLog {
  /**
   * The number of the claim. Each later claim of the shard has a higher number, unless the log was set back to an
   * earlier state.
   */
  readonly epoch: number;
  /**
   * Appends an entry, and waits a bounded time for a log that does not answer. Resolves with the end of the log. This
   * is the entry itself, or an earlier entry if the log has lost entries and this entry cannot follow. Rejects with
   * `ShardMovedError` if another claim was made, and with `StoreFullError` if the log does not answer in time. Rejects
   * with `StoreLostError` if the log has another entry under this number.
   */
  append(entry: LogEntry): Promise<LogEnd>;
  /**
   * Proves that the claim holds, and fences its own earlier appends whose outcome is unknown (SL4). Resolves with the
   * end of the log. Rejects like `append`.
   */
  reclaim(): Promise<LogEnd>;
  /** Entries after `after`, ascending: at least one if there is any. Rejects with `StoreFullError`. */
  fetch(after: number): Promise<readonly LogEntry[]>;
  /** The digest of an entry; undefined if there is no such entry. Rejects with `StoreFullError`. */
  digestOf(number: number): Promise<Buffer | undefined>;
  /** Missing: the log keeps all its entries. */
  readonly snapshots?: SnapshotStore;
  /** Ends the connection. Never rejects. */
  close(): Promise<void>;
}

/** The digest of an entry, made from the digest of the entry before it and from the entry's bytes. */
export function digestAfter(before: Buffer, bytes: Buffer): Buffer {
  return createHash('sha256').update(before).update(bytes).digest().subarray(0, DIGEST_BYTES);
}
