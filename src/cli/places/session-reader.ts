/** Reads the sessions of a place. Changes nothing. */
import type { HistoryMessage } from '../../base/history-message.ts';
import type { Message } from '../../base/messages.ts';
import type { SessionEvent } from '../../events/event.ts';
import type { SessionSummary } from '../../runtime/protocol/protocol.ts';
import type { SessionFilter } from './session-filter.ts';
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

/** See the head of the file. */
export interface SessionReader {
  list(filter: SessionFilter, limit: number): Promise<SessionList>;
  /** One session with its facts. Rejects with `NotFoundError`. */
  session(id: string): Promise<StoredSession>;
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
}
