/**
 * Plain data that a journal and its engines exchange: positions, keys of sessions, heads, and notes about removed
 * sessions.
 */

/** The number that a journal gave to a session's name: small, stable, never reused. */
export type SessionKey = number;

/** A position in the log. Positions rise in the order of the log, with gaps. */
export type Position = number;

/**
 * A session's folded state as of `position`. It contains every entry of the session up to and including that position.
 */
export interface Head {
  readonly key: SessionKey;
  readonly position: Position;
  readonly data: string;
  /** True if the session has work to do: it then belongs to the runnable set. */
  readonly runnable: boolean;
}

/** The entry that one transition wrote for one session: `data` is the caller's text (JSON), opaque to the journal. */
export interface TurnEntry {
  readonly key: SessionKey;
  readonly data: string;
}

/** One entry read back. */
export interface StoredEntry extends TurnEntry {
  readonly position: Position;
}

/** The beginning of a session's log after the older part of the log was removed. */
export interface LogStart {
  /** The last position of the removed part. It is the end of a row, so no row has entries before and after it. */
  readonly position: Position;
  /** Address of the blob that stands for the removed part. */
  readonly base: string;
}

/** The note about a removed session, or about the removed part of a log, whose data may still be stored. */
export interface Erasure {
  readonly name: string;
  /** The newest row that still has removed entries of the session; 0: no row has any. */
  readonly row: number;
  /**
   * The session's forks. While one of them exists, the session's results, which are stored outside the journal, are not
   * erased.
   */
  readonly heirs: readonly SessionKey[];
  /** True if the session is still there: only the older part of its log was removed. */
  readonly keeps?: true;
  /**
   * The parts that were removed earlier, newest first. `row`: the last row of the part. `left`: the newest row of the
   * part that is not erased yet, 0 for none. Up to `row`, only `left` and the rows that its back pointers lead to
   * still have entries of the session.
   */
  readonly earlier?: readonly { readonly row: number; readonly left: number }[];
}

/** A copy of a journal. */
export interface JournalCopy {
  /** Identifies the contents. If two copies of a journal have the same mark, no commit came between them. */
  readonly mark: string;
  /** Bytes of the copy; undefined if no copy was made, because the caller has one with this mark. */
  readonly bytes?: number;
}
