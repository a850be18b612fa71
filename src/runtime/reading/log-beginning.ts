/**
 * The state with which a session's log begins: an empty state, or the base that replaces a removed part
 * (`journal/log-starts.ts`). Code that folds a log from its beginning gets its first state from this file.
 */
import { StoreCorruptError } from '../../base/errors.ts';
import type { Journal } from '../../journal/journal.ts';
import type { Head, Position, SessionKey } from '../../journal/position.ts';
import { everyMessage } from '../../session/history/branch.ts';
import type { SharedMedia } from '../../session/state/shared-media.ts';
import { restoreState, snapshotState } from '../../session/state/snapshot.ts';
import { emptyState, type SessionState } from '../../session/state/state.ts';
import { decodeHead, type SnapshotReference } from './head.ts';

/** The part of a journal from which the beginnings of logs are read. */
export interface BeginningSource extends Pick<Journal, 'blob'> {
  readonly starts: Pick<Journal['starts'], 'of'>;
}

/** A state, and the position of the last transition that it includes; 0: none. */
export interface Beginning {
  readonly state: SessionState;
  readonly position: Position;
}

/**
 * The first characters of the text of a base. They make the text differ from every snapshot. Otherwise a base and a
 * snapshot of the same state could have one address, and a checkpoint could remove the base as an outdated snapshot.
 */
const BASE_BEGINS = '{"base":1,"state":';

/** The text of a base. */
export function encodeBase(state: SessionState): string {
  return `${BASE_BEGINS}${snapshotState(state)}}`;
}

/** The state of a base. `keepsAll`: the state is folded only to read all messages. Throws an Error for other texts. */
export function decodeBase(text: string, keepsAll = false, media?: SharedMedia): SessionState {
  if (!text.startsWith(BASE_BEGINS)) throw new Error('the stored beginning of the log has an unknown format');
  const state = restoreState(text.slice(BASE_BEGINS.length, -1), media);
  if (!keepsAll) return state;
  state.keepsAll = true;
  [state.messages, state.hidden] = [everyMessage(state).slice(), []];
  return state;
}

/** The beginning of a log. `session`: its id. Throws `StoreCorruptError` if the base is missing. */
export function beginningOf(
  source: BeginningSource,
  session: string,
  key: SessionKey,
  keepsAll = false,
  media?: SharedMedia,
): Beginning {
  const start = source.starts.of(key);
  if (start === undefined) {
    const state = emptyState(session);
    state.keepsAll = keepsAll;
    return { state, position: 0 };
  }
  const text = source.blob(start.base);
  if (text === undefined) {
    throw new StoreCorruptError(`the beginning of the log of session ${JSON.stringify(session)} is missing`, {
      data: { session, key },
    });
  }
  return { state: decodeBase(text, keepsAll, media), position: start.position };
}

/** The snapshot that a head names; undefined if it names none, if it is not stored, or if the log begins after it. */
export function snapshotOf(
  source: Pick<BeginningSource, 'starts' | 'blob'>,
  key: SessionKey,
  head: Pick<Head, 'data'> | undefined,
): { readonly snapshot: SnapshotReference; readonly stored: string } | undefined {
  const snapshot = head === undefined ? undefined : decodeHead(head.data).snapshot;
  const stored = snapshot === undefined ? undefined : source.blob(snapshot.address);
  if (snapshot === undefined || stored === undefined) return undefined;
  return snapshot.position < (source.starts.of(key)?.position ?? 0) ? undefined : { snapshot, stored };
}
