/**
 * The form in which a shard sends notices to its host, and the requests that read notices from the log. A notice is the
 * content of a webhook: a call waits for a person, or a turn ended.
 */
import type { Position, SessionKey } from '../../journal/position.ts';
import type { Notice, NoticeWish } from '../../session/rules/notices.ts';

/** A notice of one incarnation of a session. */
export interface KeyedNotice {
  readonly key: SessionKey;
  /** See `Journal.originOf`. */
  readonly origin?: string | undefined;
  readonly notice: Notice;
}

/** The notices of one transition. */
export interface NoticeNote {
  /** The position of the previous note. For a shard's first note: the end of the log when the shard began. */
  readonly previous: Position;
  readonly position: Position;
  readonly notices: readonly KeyedNotice[];
}

/**
 * Asks which sessions have wanted notices in the part of the log after a position. Without `after`, asks for the
 * positions alone.
 */
export interface NoticeScanRequest {
  readonly after?: Position;
  /**
   * Positions in earlier layouts of the store, that is, with another number of shards. The webhook has all notices up
   * to these positions. See `WebhookCursor.former`.
   */
  readonly former?: readonly (readonly Position[])[];
  readonly wish: NoticeWish;
}

/** The sessions with wanted notices in a part of the log. */
export interface NoticeScan {
  /** The seqs of each session's first and last wanted notice in that part. */
  readonly found: readonly {
    readonly session: string;
    readonly key: SessionKey;
    /** See `Journal.originOf`. */
    readonly origin?: string | undefined;
    readonly first: number;
    readonly last: number;
  }[];
  /** The position at which the part ends. */
  readonly end: Position;
  /** True if the log ended at `end` when it was read. */
  readonly isLast: boolean;
  /** The end of the log when the shard began. */
  readonly opened: Position;
}

/** Asks for wanted notices of one session: those after the seq `after`, up to `until`. */
export interface NoticePageRequest {
  readonly session: string;
  readonly key: SessionKey;
  readonly after: number;
  readonly until: number;
  readonly wish: NoticeWish;
}
