/**
 * The port of a shard's log outside this machine: the truth of a shard in a cluster. An entry is one commit, as
 * `batch-codec.ts` encodes it. The files of the journal are a copy of what the log says.
 *
 * Invariants of every implementation (checked by `runShardLogConformance`):
 *  SL1 entries have the numbers 1, 2, 3 …, each once. The digest of an entry is `digestAfter` the previous digest and
 *      the bytes of the entry;
 *  SL2 an append is durable when it resolves. An append that rejects may have taken effect;
 *  SL3 after a later claim of the shard no append and no `reclaim` of an earlier claim takes effect: both reject with
 *     `ShardMovedError`. A claim is identified by a random token, never by its epoch alone: a database that was set
 *     back to an earlier state may give out an epoch twice;
 *  SL4 after `reclaim` no earlier append of this claim takes effect any more, even one that is still on its way;
 *  SL5 an append of an entry that is there already, with the same digest, resolves and changes nothing.
 */
import { createHash } from 'node:crypto';

/** Bytes of a digest and of a token. */
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
  /** Ends the connection. Never rejects. */
  close(): Promise<void>;
}

/** The digest of an entry, made from the digest of the entry before it and from the entry's bytes. */
export function digestAfter(before: Buffer, bytes: Buffer): Buffer {
  return createHash('sha256').update(before).update(bytes).digest().subarray(0, DIGEST_BYTES);
}
