/**
 * Removes the old history of one session: the messages that left the model's window before a given moment, together
 * with the part of the log that contains them. A base replaces that part (`log-beginning.ts`). The base is the state at
 * the end of the part.
 *
 * Owns: nothing that outlives a call. Does not own: the rows, which the eraser removes; the search for due sessions.
 *
 * Invariants:
 *  V1 before a base replaces a part of a log, the rest of the log is folded over the base: its records are applied. The
 *     result must be the state that the session has. So a log never loses data that its session needs;
 *  V2 the end of the removed part and the record `historyRemoved` are in one append; the base is in that append or an
 *     earlier one. So after a crash the session has its whole log, or the base and the record of the removal;
 *  V3 at the end of the part, no waiting entry has its content in the log alone (`waiting-content.ts`);
 *  V4 a step of a fold is bounded. Between two steps the thread does other work.
 */
import type { SessionActor } from '../../../../actors/session-actor.ts';
import { RETENTION_SLICE_CHARACTERS, RETENTION_SLICE_ROWS } from '../../../base/bounds.ts';
import type { Journal } from '../../../journal/journal.ts';
import type { Position, SessionKey, StoredEntry } from '../../../journal/position.ts';
import { rowOf } from '../../../journal/rows/row-codec.ts';
import { firstDeparture, isRemovedBefore, withoutArchived } from '../../../session/rules/eviction.ts';
import { isStored } from '../../../session/rules/waiting-content.ts';
import { decodeTransition } from '../../../session/state/records.ts';
import type { RemovedHistory } from '../../../session/state/retention.ts';
import { snapshotState } from '../../../session/state/snapshot.ts';
import type { SessionState } from '../../../session/state/state.ts';
import { beginningOf, encodeBase } from '../../reading/log-beginning.ts';
import { foldEntry } from '../../reading/session-reader.ts';

/** The parts of the shard that the removal needs. */
export interface OldHistoryParts {
  readonly journal: Journal;
  /** Finds the session, and loads it if necessary. Undefined if it does not exist, or the shard takes no transition. */
  readonly find: (id: string) => SessionActor | undefined;
  /** Ends a step. Resolves in a later tick, after a pause. */
  readonly pause: () => Promise<void>;
  /** Stores the beginnings of the forks that share the log. */
  readonly rootForks: (actor: SessionActor) => void;
  /** Removes the session's snapshot, which may contain removed messages. */
  readonly withoutSnapshot: (actor: SessionActor) => void;
  /** Appends the record to the open batch, which has the other changes. */
  readonly submit: (id: string, history: RemovedHistory) => void;
}

/** The state of a fold at the end of a row. */
interface Reached {
  readonly state: SessionState;
  /** The last position in the state; 0: none. */
  readonly position: Position;
}

/**
 * Removes the messages of a session that left the window before `before`, in epoch ms. Resolves to false if nothing was
 * removed.
 */
export async function removeOldHistory(
  parts: OldHistoryParts,
  id: string,
  key: SessionKey,
  before: number,
): Promise<boolean> {
  const end = await endOfOld(parts, id, key, before);
  // The row of the last removed entry must not grow any more, and only a durable row never grows.
  if (end === undefined || parts.journal.starts.isUnwritten(rowOf(end))) return false;
  // The base of the first attempt lacks the archived messages. If the rest of the log needs them, the second attempt
  // keeps them in the base.
  for (const isStripped of [true, false]) {
    const old = await foldTo(parts, id, key, (position) => position <= end);
    if (old.position !== end) return false;
    const { state } = old;
    const history = { before, firstEvent: state.eventSeq + 1, archives: state.compression?.chunk ?? 0 };
    if (isStripped) Object.assign(state, withoutArchived(state, history));
    const base = encodeBase(state);
    await parts.pause();
    const rest = await foldOn(parts, key, old, () => true);
    const actor = parts.find(id);
    if (actor === undefined || actor.key !== key) return false;
    // Entries may have been appended during the pauses of the fold.
    for (const entry of parts.journal.read(key, rest.position)) foldEntry(parts.journal, rest.state, entry, false);
    if (textAfter(rest.state, history) !== textAfter(actor.state, history)) continue;
    // The clock was set back: the record would change nothing.
    if (isRemovedBefore(actor.state, before)) return false;
    parts.rootForks(actor);
    const address = parts.journal.putBlob(base, key);
    parts.withoutSnapshot(actor);
    // Each step above may close the open batch. No such step is between the cut and the record, so both are in one
    // batch.
    if (!parts.journal.starts.cut(key, old.position, address)) return false;
    parts.submit(id, history);
    return true;
  }
  return false;
}

/** The text of a state after the removal. */
function textAfter(state: SessionState, history: RemovedHistory): string {
  return snapshotState({ ...state, ...withoutArchived(state, history) });
}

/**
 * The last position of the old part that can be removed (V3); undefined if no message had left the window before
 * `before`, or no position allows a removal.
 */
async function endOfOld(
  parts: OldHistoryParts,
  id: string,
  key: SessionKey,
  before: number,
): Promise<Position | undefined> {
  let end: Position | undefined;
  await foldTo(
    parts,
    id,
    key,
    (_position, at) => at < before,
    ({ state, position }) => {
      const departed = firstDeparture(state);
      if (departed !== undefined && departed < before && !needsLog(state)) end = position;
    },
  );
  return end;
}

/** True if the content of a waiting entry or of a dead letter is in the log alone. */
function needsLog({ mailbox, deadLetters }: SessionState): boolean {
  return mailbox.some(({ content }) => isStored(content)) || deadLetters.some(({ entry }) => isStored(entry.content));
}

/** Folds a log from its beginning, row by row, as long as all entries of the next row are wanted. */
function foldTo(
  parts: OldHistoryParts,
  id: string,
  key: SessionKey,
  isWanted: (position: Position, at: number) => boolean,
  reached?: (place: Reached) => void,
): Promise<Reached> {
  return foldOn(parts, key, beginningOf(parts.journal, id, key), isWanted, reached);
}

/** Continues a fold in bounded steps (V4). Changes the state of `from`. */
async function foldOn(
  { journal, pause }: OldHistoryParts,
  key: SessionKey,
  from: Reached,
  isWanted: (position: Position, at: number) => boolean,
  reached?: (place: Reached) => void,
): Promise<Reached> {
  const { state } = from;
  let { position } = from;
  let [rows, characters] = [0, 0];
  for (const row of rowsOf(journal.read(key, position))) {
    if (!row.every((entry) => isWanted(entry.position, decodeTransition(entry.data).at))) break;
    for (const entry of row) {
      foldEntry(journal, state, entry, position === 0);
      position = entry.position;
      characters += entry.data.length;
    }
    reached?.({ state, position });
    rows += 1;
    if (rows < RETENTION_SLICE_ROWS && characters < RETENTION_SLICE_CHARACTERS) continue;
    [rows, characters] = [0, 0];
    await pause();
  }
  return { state, position };
}

/** The entries, grouped by their rows. */
function* rowsOf(entries: Iterable<StoredEntry>): Iterable<readonly StoredEntry[]> {
  let row: StoredEntry[] = [];
  for (const entry of entries) {
    const [first] = row;
    if (first !== undefined && rowOf(first.position) !== rowOf(entry.position)) {
      yield row;
      row = [];
    }
    row.push(entry);
  }
  if (row.length > 0) yield row;
}
