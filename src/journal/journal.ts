/**
 * The Journal port: what a shard needs of a store, and nothing of what the records mean.
 *
 * One log per shard, in commit order. A **turn** is what one actor turn wrote, for one session or for several of one tree;
 * it is atomic (A3, A6). A session is found again through back pointers kept by the journal, a **head** is the folded state
 * of a session up to some turn, written lazily; the **runnable set** names the sessions that have work, so that opening a
 * store costs those and not all. Recovery is heads plus the turns after them.
 *
 * Invariants every implementation keeps (checked by `runJournalConformance`):
 *  J1 turns are read back in the order they were appended, each whole or not at all;
 *  J2 `flushed()` resolves only when every turn appended before the call is durable in the journal's mode;
 *  J3 what a failed write refused is not readable afterwards, and nothing acknowledged is lost by it;
 *  J4 a reader never sees a turn of a later position without those before it;
 *  J5 one owner: a journal opened with a lower fence than the store has seen refuses to write.
 */

import type { StoreLostError } from '../base/errors.ts';
import type { Head, Position, SessionKey, StoredEntry, TurnEntry } from './position.ts';
import type { StoredLog } from './stored-log.ts';

/** How durable an acknowledgement is. */
export type Durability = 'flush' | 'strict' | 'os';

/** Counters of a journal, for metrics. */
export interface JournalStatistics {
  readonly turns: number;
  readonly rows: number;
  readonly flushes: number;
  /** Milliseconds of the last flush. */
  readonly flushMs: number;
}

/** Everything of one shard that outlives the process. All methods belong to the thread that opened it. */
export interface Journal {
  /** Fencing token of this owner: higher than that of any owner before. */
  readonly fence: number;

  /**
   * The number of a session's name; `undefined` when the name has none. `intern` gives one: the name becomes durable with
   * the next turn appended, and is forgotten if the process dies before.
   */
  keyOf(name: string): SessionKey | undefined;
  nameOf(key: SessionKey): string | undefined;
  intern(name: string): SessionKey;

  /**
   * Puts one turn at the end of the log, atomically for all its entries, and returns its place at once. It is visible to
   * reads of this journal at once, and durable when a later `flushed()` resolves. Never waits, never throws for the disk:
   * a failed write rejects `flushed()`.
   */
  append(entries: readonly TurnEntry[]): Position;

  /**
   * Resolves when every turn appended before this call is durable: after fsync in `flush` and `strict`, after the write in
   * `os`. Calls share flushes (group commit, no timer). Rejects with `StoreFullError` when the device refuses; the turns
   * of that flush and of all later ones are then not in the log (J3), and every further `flushed()` rejects until
   * `recover()`.
   */
  flushed(): Promise<void>;
  /**
   * After a rejected `flushed()`: forgets what could not be written and tries the device. Resolves with the position of
   * the last durable turn; states folded beyond it are stale and must be read again. Rejects when the device still refuses.
   */
  recover(): Promise<Position>;

  /** What one turn wrote for a session; undefined when the turn of this position wrote nothing for it. */
  entry(key: SessionKey, position: Position): StoredEntry | undefined;
  /** The entries of one session after `after` (0: all), oldest first. */
  read(key: SessionKey, after: Position): Iterable<StoredEntry>;
  /** The entries of all sessions after `after`, oldest first; sessions deleted since are left out. */
  tail(after: Position): Iterable<StoredEntry>;
  /** The sessions of those entries, each once, and perhaps some deleted since. What they wrote is neither read nor checked. */
  tailKeys(after: Position): ReadonlySet<SessionKey>;

  /** The newest head written for a session. */
  head(key: SessionKey): Head | undefined;
  /**
   * Writes heads, and notes that everything up to `upTo` is contained in heads or belongs to sessions whose heads need
   * nothing more. Durable with the next flush; lost, recovery replays more. `outdated` are addresses of blobs that no head names any
   * more once these are written: they are removed with the same write.
   */
  checkpoint(heads: readonly Head[], upTo: Position, outdated?: readonly string[]): void;
  /** What `tail` must replay from: the `upTo` of the last checkpoint, 0 before the first. */
  checkpointed(): Position;
  /** The runnable set as of the last checkpoint; the tail after it may add or remove. Ascending. */
  runnable(): Iterable<SessionKey>;

  /** Names with their keys, ascending by name, after `after` and starting with `prefix`. */
  names(options: {
    readonly after?: string;
    readonly prefix?: string;
    readonly limit?: number;
  }): readonly (readonly [string, SessionKey])[];
  /** Forgets sessions: names, heads and readable entries. Atomic, durable with the next flush. */
  remove(keys: readonly SessionKey[]): void;

  /** Stores a text under its content address (SHA-256, hex); the same text is stored once. Durable with the next flush. */
  putBlob(text: string): string;
  blob(address: string): string | undefined;

  /** What is durable of it, in pieces for another thread. */
  readonly stored: StoredLog;

  statistics(): JournalStatistics;
  /** Flushes and closes. Further calls throw. */
  close(): Promise<void>;
}

/** How a journal is opened. */
export interface JournalOptions {
  /** Directory of this shard, or undefined for memory. */
  readonly directory?: string;
  readonly durability: Durability;
  /** Missing: nobody ends this thread while its script runs. */
  readonly gate?: ThreadGate;
  /** Called once, when the files of the store are found removed, replaced or cut short; every later write is refused so. */
  readonly onLost?: (error: StoreLostError) => void;
}

/** What stands between this thread's script and whoever ends the thread: a transaction begun by the script must not be torn. */
export interface ThreadGate {
  /** Whoever ends the thread closes the gate first. False: it may also be ended unasked. */
  readonly isTold: boolean;
  /** Goes inside. False: the thread is about to end. */
  enter(): boolean;
  /** Leaves; only after an `enter` that was let in. */
  leave(): void;
}
