/** Reads the notices of a session from its log. Runs on the session's thread; no session becomes resident. */
import type { Journal } from '../../journal/journal.ts';
import type { Position, SessionKey } from '../../journal/position.ts';
import { type Notice, noticeOf } from '../../session/rules/notices.ts';
import { restoreState } from '../../session/state/snapshot.ts';
import type { SessionState } from '../../session/state/state.ts';
import { beginningOf, snapshotOf } from './log-beginning.ts';
import { foldEntry, type LogObserver } from './session-reader.ts';

/** The log to read. */
export interface NoticeLog {
  readonly journal: Journal;
  readonly session: string;
  readonly key: SessionKey;
  /** How long calls of a session wait for a decision, in milliseconds; null: forever. */
  readonly expiresMs: (state: SessionState) => number | null;
  /** True if the reader needs no notice up to this point, so that the fold may begin there. */
  readonly isKnown: (position: Position, seq: number) => boolean;
}

/**
 * The notices of a log, with the positions of their transitions, oldest first. Throws `StoreCorruptError` from the
 * iteration for a log that cannot be folded.
 */
export function* readNotices(log: NoticeLog): Generator<{ readonly notice: Notice; readonly position: Position }> {
  const { journal, key, expiresMs } = log;
  const { state, after } = begin(log);
  const found: Notice[] = [];
  let at = 0;
  const observer: LogObserver = {
    turn: (turnAt) => {
      at = turnAt;
    },
    announced: (event, seq, turn) => {
      const notice = noticeOf(state, { event, seq, at, turn }, expiresMs(state));
      if (notice !== undefined) found.push(notice);
    },
  };
  let isFirst = after === 0;
  for (const entry of journal.read(key, after)) {
    foldEntry(journal, state, entry, isFirst, observer);
    isFirst = false;
    for (const notice of found.splice(0)) yield { notice, position: entry.position };
  }
}

function begin({ journal, session, key, isKnown }: NoticeLog): {
  readonly state: SessionState;
  readonly after: Position;
} {
  const found = snapshotOf(journal, key, journal.head(key));
  if (found !== undefined) {
    const state = restoreState(found.stored);
    if (isKnown(found.snapshot.position, state.eventSeq)) return { state, after: found.snapshot.position };
  }
  const { state, position } = beginningOf(journal, session, key);
  return { state, after: position };
}
