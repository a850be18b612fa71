/**
 * The Journal port: what a shard needs of a store. The journal does not know the meaning of records.
 *
 * One log per shard, in commit order. A **transition** (`turn` in names here) is what one transition of an actor
 * appended, for one session or for several of one tree. It is atomic (A3, A6). A session's entries are found through
 * back pointers kept by the journal. A **head** is the folded state of a session up to some transition, written lazily.
 * The **runnable set** names the sessions that have work, so that opening a store reads those and not all. Recovery
 * reads heads and the transitions after them.
 *
 * Invariants of every implementation (checked by `runJournalConformance`):
 *  J1 transitions are read back in the order they were appended, each whole or not at all;
 *  J2 `flushed()` resolves only when every transition appended before the call is durable in the journal's mode;
 *  J3 after a failed write its data is not readable, and everything acknowledged before is still there;
 *  J4 a reader that sees a transition also sees all transitions at lower positions;
 *  J5 one owner: a journal opened with a lower fence than the store has seen refuses to write;
 *  J6 base64 of `MEDIA_CHARACTERS_MIN` characters or more, in a member `data` of an entry, takes space once for each
 *     session, however often the session's entries have it. A reader of an entry receives the text that was appended.
 */

import type { StoreLostError } from '../base/errors.ts';
import type { Head, Position, SessionKey, StoredEntry, TurnEntry } from './position.ts';
import type { StoredLog } from './stored-log.ts';

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

/** A copy of a journal. */
export interface JournalCopy {
  /** Names the contents. A journal whose contents have the same mark has had no commit in between. */
  readonly mark: string;
  /** Bytes of the copy; undefined if the caller has a copy with this mark, so that none was made. */
  readonly bytes?: number;
}

/** All state of one shard that outlives the process. All methods belong to the thread that opened it. */
export interface Journal {
  /** Fencing token of this owner: higher than that of any earlier owner. */
  readonly fence: number;

  /**
   * The number of a session's name; `undefined` when the name has no number. `intern` gives it a number, which becomes
   * durable with the next appended transition and is forgotten if the process dies before.
   */
  keyOf(name: string): SessionKey | undefined;
  nameOf(key: SessionKey): string | undefined;
  intern(name: string): SessionKey;

  /**
   * Puts one transition at the end of the log, atomically for all its entries, and returns its position at once. It is
   * visible to reads of this journal at once, and durable when a later `flushed()` resolves. Never waits and never
   * throws because of the disk: a failed write rejects `flushed()`.
   */
  append(entries: readonly TurnEntry[]): Position;

  /**
   * Resolves when every transition appended before this call is durable: after fsync in `flush` and `strict`, after the
   * write in `os`. Calls share flushes (group commit, no timer). Rejects with `StoreFullError` when the device refuses.
   * The transitions of that flush and of all later ones are then not in the log, and every further `flushed()`
   * rejects until `recover()`.
   */
  flushed(): Promise<void>;
  /**
   * Called after a rejected `flushed()`: forgets what could not be written and tries the device. Resolves with the
   * position of the last durable transition; states folded beyond it are stale and must be read again. Rejects when the
   * device still refuses.
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
  /** The first of them, at least `limit` if there are as many, and the position up to which they are all of them. */
  tailPage(after: Position, limit: number): TailPage;
  /** A position at or after every appended transition, and before every later one. */
  end(): Position;

  /** The newest head written for a session. */
  head(key: SessionKey): Head | undefined;
  /**
   * Writes heads and records that all heads are up to date as of `upTo`. Durable with the next flush; if it is lost,
   * recovery replays more. `outdated` lists addresses of blobs that no head names once these are written; the same
   * write removes them.
   */
  checkpoint(heads: readonly Head[], upTo: Position, outdated?: readonly string[]): void;
  /** The position that `tail` must replay from: the `upTo` of the last checkpoint, 0 before the first. */
  checkpointed(): Position;
  /** The runnable set as of the last checkpoint; the tail after it may add or remove. Ascending. */
  runnable(): Iterable<SessionKey>;

  /** Names with their keys, ascending by name, after `after` and starting with `prefix`. */
  names(options: {
    readonly after?: string;
    readonly prefix?: string;
    readonly limit?: number;
  }): readonly (readonly [string, SessionKey])[];
  /** Removes sessions: names, heads, readable entries and media. Atomic, durable with the next flush. */
  remove(keys: readonly SessionKey[]): void;

  /**
   * Stores a text of JSON under its content address (SHA-256 of its stored form, hex); the same text is stored once.
   * Durable with the next flush. `owner`: the session that the text belongs to. Its media are stored like those of the
   * session's entries, so the text cannot be read after the session was removed. Missing: the text is stored whole.
   */
  putBlob(text: string, owner?: SessionKey): string;
  blob(address: string): string | undefined;

  /** The durable part of the log, in pieces for another thread. */
  readonly stored: StoredLog;

  /**
   * Writes a copy of the journal's files into `directory`, which exists; a copy that is there is replaced. The copy is one
   * commit, with everything that was appended before this call, and is on the device when this resolves. Commits
   * continue meanwhile. `known`: the mark of a copy that the caller has. Rejects with `StoreFullError` when the device of
   * the copy refuses. Missing for a journal in memory.
   */
  readonly copyTo: ((directory: string, known?: string) => Promise<JournalCopy>) | undefined;

  statistics(): JournalStatistics;
  /** Flushes and closes. Further calls throw. */
  close(): Promise<void>;
}

/** The options for opening a journal. */
export interface JournalOptions {
  /** Directory of this shard, or undefined for memory. */
  readonly directory?: string;
  readonly durability: Durability;
  /** The gate of this thread; if missing, the thread is never ended while its script runs. */
  readonly gate?: ThreadGate;
  /**
   * Called once, when the files of the store are found removed, replaced or cut short. Every later write is refused
   * with this error.
   */
  readonly onLost?: (error: StoreLostError) => void;
}

/**
 * Guards a transaction of this thread's script against the end of the thread: a transaction that began must not be
 * torn.
 */
export interface ThreadGate {
  /** True if the thread is ended only after the gate is closed. False if it may also end without that. */
  readonly isClosedBeforeEnd: boolean;
  /** Enters the gate. False: the thread is about to end. */
  enter(): boolean;
  /** Leaves the gate. Call it only after `enter` returned true. */
  leave(): void;
}
