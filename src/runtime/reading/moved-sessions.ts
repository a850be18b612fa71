/** Reads sessions for a move to other shards. `journal/layout/move-sessions.ts` moves them, but cannot decode them. */
import type { Journal } from '../../journal/journal.ts';
import type { SessionReading } from '../../journal/layout/move-sessions.ts';
import type { Head, SessionKey } from '../../journal/position.ts';
import { decodeTransition } from '../../session/state/records.ts';
import { emptyState } from '../../session/state/state.ts';
import { encodeSeed, seedOf } from './fork-reader.ts';
import { decodeHead, movedHead } from './head.ts';
import { headOf, withBase } from './session-head.ts';
import { readActor } from './session-reader.ts';

/** The functions that a move calls. */
export const MOVED_SESSIONS: SessionReading = {
  moveHead: movedHead,
  sharedWith,
  beginning,
  headOf: wholeHead,
  withBase,
};

/** The session whose log has the beginning of a fork with this first entry; undefined for other first entries. */
function sharedWith(firstEntry: string): string | undefined {
  const [record] = decodeTransition(firstEntry).records;
  return record?.type === 'forked' && record.seed === undefined ? record.origin.session : undefined;
}

/** The text of a fork's beginning; undefined if the text is stored separately, or if the session is not a fork. */
function beginning(journal: Journal, name: string, key: SessionKey): string | undefined {
  const head = journal.head(key);
  if (head !== undefined && decodeHead(head.data).base !== undefined) return undefined;
  for (const { data } of journal.read(key, 0)) {
    const [record] = decodeTransition(data).records;
    if (record?.type !== 'forked') break;
    return encodeSeed(seedOf(journal, { id: name, key, origin: record.origin }, emptyState(name).keepsAll).seed);
  }
  return undefined;
}

function wholeHead(journal: Journal, name: string, key: SessionKey): Head {
  return journal.head(key) ?? headOf(readActor(journal, name, key));
}
