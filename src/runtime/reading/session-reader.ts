/** Reads a session from its log: folds everything since its last snapshot (A10). */

import { SessionActor } from '../../../actors/session-actor.ts';
import { STORED_CONTENT_BYTES_MIN } from '../../base/bounds.ts';
import { StoreCorruptError } from '../../base/errors.ts';
import type { Journal } from '../../journal/journal.ts';
import type { SessionKey, StoredEntry } from '../../journal/position.ts';
import { applyAll } from '../../session/apply/apply.ts';
import type { Observer } from '../../session/apply/fold.ts';
import { storeContents } from '../../session/rules/waiting-content.ts';
import { decodeTransition } from '../../session/state/records.ts';
import { SharedMedia } from '../../session/state/shared-media.ts';
import { restoreState } from '../../session/state/snapshot.ts';
import type { SessionState } from '../../session/state/state.ts';
import { contentReader } from './content-reader.ts';
import { plantFork } from './fork-reader.ts';
import { decodeHead } from './head.ts';
import { beginningOf, snapshotOf } from './log-beginning.ts';

/** The actor of a session, from its log. Throws `StoreCorruptError` for a log that cannot be folded. */
export function readActor(journal: Journal, id: string, key: SessionKey): SessionActor {
  const head = journal.head(key);
  const known = head === undefined ? undefined : decodeHead(head.data);
  const found = snapshotOf(journal, key, head);
  const media = new SharedMedia();
  const begun =
    found === undefined
      ? beginningOf(journal, id, key, false, media)
      : { state: restoreState(found.stored, media), position: found.snapshot.position };
  const { state } = begun;
  const { turns, position } = foldLog(journal, key, state, begun.position, undefined, media);
  const actor = new SessionActor(id, key, state, { turns, position: Math.max(position, begun.position) });
  if (found !== undefined) actor.snapshot = found.snapshot;
  actor.base = known?.base;
  actor.isHeadRunnable = head?.runnable === true;
  return actor;
}

/** An observer of a fold. `turn` is called before each transition, with its epoch ms. */
export type LogObserver = Observer & { readonly turn?: (at: number) => void };

/**
 * Folds a session's log after a position into a state, and notifies an observer. At the start of a fork's log, the
 * state first gets the fork's beginning. The observer is not notified of the beginning. `media`: the shared media of
 * the state. Returns the last position, and how many transitions were read, including those of other logs.
 */
export function foldLog(
  journal: Journal,
  key: SessionKey,
  state: SessionState,
  after: number,
  observer?: LogObserver,
  media: SharedMedia = new SharedMedia(),
): { readonly turns: number; readonly position: number } {
  let turns = 0;
  let position = after;
  for (const entry of journal.read(key, after)) {
    turns += foldEntry(journal, state, entry, turns === 0 && after === 0, observer, media);
    position = entry.position;
  }
  return { turns, position };
}

/**
 * Folds one entry of a session's log. `isFirst`: true for the first entry of the log. Returns the number of transitions
 * read for the entry, including those of other logs. Throws `StoreCorruptError` when the entry cannot be folded; the
 * state must not be used then.
 */
export function foldEntry(
  journal: Journal,
  state: SessionState,
  entry: StoredEntry,
  isFirst: boolean,
  observer?: LogObserver,
  media?: SharedMedia,
): number {
  try {
    const turn = decodeTransition(entry.data, media);
    const planted = isFirst ? plantFork(journal, entry.key, state, turn) : 0;
    observer?.turn?.(turn.at);
    applyAll(state, turn.records, turn.at, observer, contentReader(journal, entry.key, media));
    storeContents(state, turn.records, entry.position, STORED_CONTENT_BYTES_MIN);
    return planted + 1;
  } catch (error) {
    throw new StoreCorruptError(`the log of session ${JSON.stringify(state.id)} cannot be read at ${entry.position}`, {
      cause: error,
      data: { session: state.id, position: entry.position },
    });
  }
}

/** Folds a whole log from its beginning, and notifies an observer. `keepsAll`: see `SessionState`. */
export function foldWhole(
  journal: Journal,
  { id, key }: Pick<SessionActor, 'id' | 'key'>,
  { keepsAll = false, observer }: { readonly keepsAll?: boolean; readonly observer?: LogObserver },
): SessionState {
  const { state, position } = beginningOf(journal, id, key, keepsAll);
  foldLog(journal, key, state, position, observer);
  return state;
}
