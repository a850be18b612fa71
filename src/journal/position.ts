/** Positions in a journal and keys of sessions. Plain data. */

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
