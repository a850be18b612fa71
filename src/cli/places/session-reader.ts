/** Reads the sessions of a place. Changes nothing. */
import type { AuditEntry } from '../../base/audit/audit-entry.ts';
import type { HistoryMessage } from '../../base/history-message.ts';
import type { Message, Usage } from '../../base/messages.ts';
import type { SessionEvent } from '../../events/event.ts';
import type { AuditOptions } from '../../runtime/handles/audit.ts';
import type { ListFilter } from '../../runtime/protocol/list-order.ts';
import type { SessionSummary } from '../../runtime/protocol/protocol.ts';
import type { DeadLetter, DeadLetterSummary } from '../../session/state/letters.ts';
import type { StoredSession } from './stored-sessions.ts';
import type { WaitingCall } from './waiting-call.ts';

/** The sessions of a list, the last changed one first; `isCut`: there are more. */
export interface SessionList {
  readonly sessions: readonly SessionSummary[];
  readonly isCut: boolean;
}

/** The calls that wait for a person, the oldest first; `isCut`: there are more. */
export interface WaitingList {
  readonly calls: readonly WaitingCall[];
  readonly isCut: boolean;
}

/** The dead letters of a list; `isCut`: there are more. */
export interface DeadLetterList {
  readonly letters: readonly DeadLetterSummary[];
  readonly isCut: boolean;
}

/** The entries of an audit log; `next`: there may be more, behind this position. */
export interface AuditList {
  readonly entries: readonly AuditEntry[];
  readonly next?: string;
}

/** See the head of the file. */
export interface SessionReader {
  list(filter: ListFilter, limit: number): Promise<SessionList>;
  /** One session with its facts. Rejects with `NotFoundError`. */
  session(id: string): Promise<StoredSession>;
  /** The tokens of a session and all its descendants. Rejects with `NotFoundError`. */
  treeUsage(id: string): Promise<Usage>;
  /** All messages that were logged and are not removed, the oldest first. Rejects with `NotFoundError`. */
  messages(id: string): Promise<readonly Message[]>;
  /** The conversation as `session.history` presents it. Rejects with `NotFoundError`. */
  history(id: string): Promise<readonly HistoryMessage[]>;
  /**
   * Durable events after `after`, the oldest first, at most `limit`; without `after` the last ones. Rejects with
   * `NotFoundError`.
   */
  events(
    id: string,
    wanted: { readonly after?: number | undefined; readonly limit: number },
  ): Promise<readonly SessionEvent[]>;
  waiting(limit: number): Promise<WaitingList>;
  /** Dead letters by session and age, at most `limit`; with `session` only those of its tree. */
  deadLetters(session: string | undefined, limit: number): Promise<DeadLetterList>;
  /** A dead letter with its content. Rejects with `NotFoundError`. */
  deadLetter(session: string, id: number): Promise<DeadLetter>;
  /** Entries of the audit log, oldest first, at most `limit`. */
  audit(wanted: Omit<AuditOptions, 'limit'>, limit: number): Promise<AuditList>;
}
