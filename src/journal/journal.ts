/**
 * The Journal port: everything that a shard stores. A **shard** is one part of a store, with the sessions in it; one
 * thread owns it. The journal does not know the meaning of what it stores.
 *
 * A shard has one log, in commit order. Here a **transition** means the entries that one transition of an actor
 * appended, for one session or for several of one tree. It is atomic (A3, A6). Names in this folder call it `turn`. A
 * **row** of the log holds the entries of one or more transitions. The journal finds a session's entries through back
 * pointers: a row with entries of a session has the number of the session's row before it. A **head** is the folded
 * state of a session up to some transition, written lazily. The **runnable set** lists the sessions that have work, so
 * that opening a store reads only those. Recovery reads heads and the transitions after them.
 *
 * Invariants of every implementation (checked by `runJournalConformance`):
 *  J1 transitions are read back in the order they were appended, each whole or not at all;
 *  J2 `flushed()` resolves only when every transition appended before the call is durable, as far as the journal's
 *     `Durability` promises;
 *  J3 the data of a failed write is not readable, and everything acknowledged before that write is still there;
 *  J4 a reader that sees a transition also sees all transitions at lower positions;
 *  J5 one owner: each opening of a store raises its **fence**, a number. A journal refuses to write once its store was
 *     opened with a higher fence;
 *  J6 base64 of `MEDIA_CHARACTERS_MIN` characters or more in a member `data` of an entry is stored once for each
 *     session, even if many entries contain it. A reader of an entry receives the text that was appended;
 *  J7 once `eraseSome` has returned false after a flush, no row has bytes of removed sessions' entries. The entries of
 *     other sessions are read as before, at their positions.
 */

import type { StoreLostError } from '../base/errors.ts';
import type { DataKey } from './encryption/data-key.ts';
import type { StoreEncryption } from './encryption/master-keys.ts';
import type { StoreCompaction } from './engine.ts';
import type { LogStarts } from './log-starts.ts';
import type { Erasure, Head, JournalCopy, Position, SessionKey, StoredEntry, TurnEntry } from './position.ts';
import type { AuditRows } from './stored-audit.ts';
import type { Drafts } from './stored-drafts.ts';
import type { StoredLog } from './stored-log.ts';
import type { ResultTexts } from './stored-results.ts';

/** How durable a transition is when it is acknowledged. */
export type Durability = 'flush' | 'strict' | 'os';

/** Counters of a journal, for metrics. */
export interface JournalStatistics {
  readonly turns: number;
  readonly rows: number;
  readonly flushes: number;
  /** Duration of the last flush, ms. */
  readonly flushMs: number;
}

/** The sessions written in a part of the log. */
export interface TailPage {
  readonly keys: ReadonlySet<SessionKey>;
  /** The part ends at this position. */
  readonly end: Position;
}

/** All state of one shard that outlives the process. Only the thread that opened the journal may call its methods. */
export interface Journal {
  /** Fencing token of this owner. Each owner's token is higher than all earlier ones. */
  readonly fence: number;

  /** The key of a session's name; `undefined` when the name has no key. */
  keyOf(name: string): SessionKey | undefined;
  nameOf(key: SessionKey): string | undefined;
  /**
   * The key of a name. A name without a key gets the next key. A new key becomes durable with the next appended
   * transition. If the process dies before that, the key is forgotten.
   */
  intern(name: string): SessionKey;

  /**
   * Puts one transition at the end of the log, atomically for all its entries, and returns its position at once. Reads
   * of this journal see the transition at once. It is durable when a later `flushed()` resolves. Never waits and never
   * throws because of the disk: a failed write rejects `flushed()`.
   */
  append(entries: readonly TurnEntry[]): Position;

  /**
   * Resolves when every transition appended before this call is durable: after fsync in `flush` and `strict`, after the
   * write in `os`. Calls share flushes (group commit, no timer). Rejects with `StoreFullError` when the device refuses.
   * The transitions of the refused flush and all later transitions are then not in the log, and every further
   * `flushed()` rejects until `recover()`.
   */
  flushed(): Promise<void>;
  /**
   * Called after a rejected `flushed()`: forgets the transitions that could not be written, and tries the device.
   * Resolves with the position of the last durable transition. A state that was folded from later transitions is stale
   * and must be read again. Rejects when the device still refuses.
   */
  recover(): Promise<Position>;

  /**
   * The entry that the transition at this position wrote for a session; undefined when the transition wrote nothing for
   * that session.
   */
  entry(key: SessionKey, position: Position): StoredEntry | undefined;
  /** The entries of one session after `after` (0: all), oldest first. */
  read(key: SessionKey, after: Position): Iterable<StoredEntry>;
  /** The entries of all sessions after `after`, oldest first, except those of deleted sessions. */
  tail(after: Position): Iterable<StoredEntry>;
  /**
   * The sessions that `tail` would list, each once, perhaps with some that were deleted since. Their data is neither
   * read nor checked.
   */
  tailKeys(after: Position): ReadonlySet<SessionKey>;
  /**
   * The first sessions of `tailKeys`: at least `limit`, or all if there are fewer. The page has every session that was
   * written after `after` and up to the page's `end`.
   */
  tailPage(after: Position, limit: number): TailPage;
  /** A position at or after every appended transition, and before every later one. */
  end(): Position;

  /** The newest head written for a session. */
  head(key: SessionKey): Head | undefined;
  /**
   * Writes heads, and notes that all heads are up to date as of `upTo`. Durable with the next flush; if the checkpoint
   * is lost, recovery replays more transitions. `outdated` lists the addresses of blobs that no head needs after this
   * write. The same write removes these blobs.
   */
  checkpoint(heads: readonly Head[], upTo: Position, outdated?: readonly string[]): void;
  /** The position that `tail` must replay from: the `upTo` of the last checkpoint, 0 before the first. */
  checkpointed(): Position;
  /** The runnable set as of the last checkpoint, ascending. Transitions after that checkpoint may change it. */
  runnable(): Iterable<SessionKey>;

  /** Names with their keys, ascending by name, after `after` and starting with `prefix`. */
  names(options: {
    readonly after?: string;
    readonly prefix?: string;
    readonly limit?: number;
  }): readonly (readonly [string, SessionKey])[];
  /**
   * Removes sessions: their names, heads, blobs, media and drafts. Their entries can no longer be read, but the rows
   * still have the bytes; a note in `erasures` says so. Atomic, durable with the next flush. `heirs`: for each key, the
   * sessions that still need the removed session's results, in files or in `results`. The results are kept as long as
   * one of these sessions exists.
   */
  remove(keys: readonly SessionKey[], heirs?: ReadonlyMap<SessionKey, readonly SessionKey[]>): void;
  /**
   * The notes about removed sessions and removed parts of logs whose data may still be stored. The notes survive a
   * crash.
   */
  erasures(): ReadonlyMap<SessionKey, Erasure>;
  /**
   * Takes entries of removed sessions and removed parts out of a bounded number of rows, durable with the next flush.
   * Returns false if nothing can be erased before a flush, or nothing is left to erase.
   */
  eraseSome(): boolean;
  /**
   * The origin of a session that was made while the store had another number of shards: the session's shard and key
   * of that time, such as `0-17`. Undefined for any other session. An origin is unique among all sessions of the
   * store, past and future. The file names of the session's results and the ids of its deliveries contain the origin.
   * The origin is kept until `erased` forgets the session.
   */
  originOf(key: SessionKey): string | undefined;
  /** The keys in `erasures` that are in no row any more, and have no heir. */
  erasable(): readonly SessionKey[];
  /**
   * Forgets notes of `erasures` whose sessions have no entries in rows any more. Call it when nothing else of those
   * sessions is stored either.
   */
  erased(keys: Iterable<SessionKey>): void;

  /**
   * Stores a text of JSON under its content address (SHA-256 of its stored form, hex); the same text is stored once for
   * each owner. Durable with the next flush. `owner`: the session that the text belongs to. The text is removed with
   * that session, and its media are stored like those of the session's entries. Without an owner, the text is stored
   * whole, until a checkpoint lists it as outdated.
   */
  putBlob(text: string, owner?: SessionKey): string;
  blob(address: string): string | undefined;

  /**
   * The data key of a session's shortened results. With `isNew`, a missing key is made. A new key becomes durable no
   * later than anything that is appended after this call. Undefined: the session has no key. The member is missing if
   * the store is not encrypted.
   */
  readonly resultKey: ((key: SessionKey, isNew: boolean) => DataKey | undefined) | undefined;

  /** The whole texts of shortened results. Only a shard in a cluster keeps some. */
  readonly results: ResultTexts;

  /** The drafts: for each session at most one text beside the log, replaced repeatedly. */
  readonly drafts: Drafts;

  /** The audit log. Its rows belong to no session. */
  readonly audit: AuditRows;

  /** The beginnings of the logs of sessions. */
  readonly starts: Pick<LogStarts, 'of' | 'cut' | 'isUnwritten'>;
  /** The durable part of the log, in pieces for another thread. */
  readonly stored: StoredLog;

  /**
   * Writes a copy of the journal's files into `directory`, which exists; a copy that is there is replaced. The copy
   * shows one commit and has everything that was appended before this call. It is on the device when the promise
   * resolves. Commits continue meanwhile. `known`: the mark of a copy that the caller has; if that copy is still up to
   * date, no copy is made. Rejects with `StoreFullError` when the device of the copy refuses. Missing for a journal in
   * memory.
   */
  readonly copyTo: ((directory: string, known?: string) => Promise<JournalCopy>) | undefined;

  /** Replaces the journal's files by a compact copy while the journal is used. `close` ends a compaction under way. */
  readonly compaction: StoreCompaction;
  /**
   * Writes snapshots to the log outside this machine, and removes entries of that log that a snapshot covers. Missing:
   * there is no such log.
   */
  readonly snapshots?: StoreCompaction | undefined;

  statistics(): JournalStatistics;
  /** Flushes and closes. Further calls throw. */
  close(): Promise<void>;
}

/** The options for opening a journal. */
export interface JournalOptions {
  /** Directory of this shard, or undefined for memory. */
  readonly directory?: string;
  readonly durability: Durability;
  /** The number of the shard; missing: 0. The numbers of the rows of the shard's audit log contain it. */
  readonly shard?: number;
  /** The gate of this thread; if missing, the thread is never ended while its script runs. */
  readonly gate?: ThreadGate;
  /**
   * Called once, when the files of the store are found removed, replaced or cut short. Every later write is refused
   * with this error.
   */
  readonly onLost?: (error: StoreLostError) => void;
  /** Missing: the store is not encrypted. */
  readonly encryption?: StoreEncryption;
}

/**
 * Keeps the thread from being ended during a transaction of its script: a transaction that has begun must not be cut
 * off.
 */
export interface ThreadGate {
  /**
   * True if the thread is ended only after the gate is closed. False if the thread may also end while the gate is open.
   */
  readonly isClosedBeforeEnd: boolean;
  /** Enters the gate. False: the thread is about to end. */
  enter(): boolean;
  /** Leaves the gate. Call it only after `enter` returned true. */
  leave(): void;
}
