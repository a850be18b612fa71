/**
 * Replays durable events of sessions from their logs, page by page. Each page begins where the previous one ended. Runs
 * on the session's thread.
 *
 * Owns: the folds of the pages that were served last. A fold is a state to which the records of a log were applied up
 * to some position. Does not own: the journal, the position of a reader.
 * Invariants:
 *  Y1 a page holds the events that a fold of the whole log publishes after the requested number: the same events with
 *     the same numbers, in order;
 *  Y2 at most `REPLAYS_MAX` folds are kept. While the fold of a reader is kept, a page reads only transitions after
 *     those of the previous page. A new reader reads from the start of the log, or from the snapshot if the snapshot is
 *     not later than the reader's position;
 *  Y3 no outdated fold is used: `clear` runs when the log may have lost transitions, and a later session of the same id
 *     has another key.
 *  Y4 memory is bounded in bytes. The bound of a request limits its page, not counting the first event.
 *     `REPLAYS_BYTES_MAX` limits all folds and their events beyond the pages, not counting the fold served last.
 *  Y5 a page that would begin in a removed part of the log begins with the first event after that part. The reader of
 *     the page sees that numbers are missing, and announces a `gap`.
 */
import { BYTES_PER_TOKEN, REPLAYS_BYTES_MAX, REPLAYS_MAX } from '../../base/bounds.ts';
import type { SessionEvent } from '../../events/event.ts';
import { charactersOf, charactersOfContent } from '../../events/reading/event-buffer.ts';
import type { Journal } from '../../journal/journal.ts';
import type { Position, SessionKey, StoredEntry } from '../../journal/position.ts';
import { restoreState } from '../../session/state/snapshot.ts';
import type { SessionState } from '../../session/state/state.ts';
import { beginningOf, snapshotOf } from './log-beginning.ts';
import { foldEntry, type LogObserver } from './session-reader.ts';

/** A part of the events in a session's log. */
export interface EventPage {
  readonly events: readonly SessionEvent[];
  /** True if the log has no events after these. */
  readonly isComplete: boolean;
}

/** A fold that has reached a transition of the log. */
interface Replay {
  readonly key: SessionKey;
  readonly state: SessionState;
  /** The position of the last transition in the state. */
  position: Position;
  /** The log after `position`, as the last look-up found it. It is kept, because a look-up in a long log takes long. */
  entries: Iterator<StoredEntry> | undefined;
  /** The number of the last event that was served. */
  readUpTo: number;
  /** Events of the last transition that did not fit the page. */
  rest: readonly SessionEvent[];
  /** Approximate bytes of `rest` and of the state. */
  bytes: number;
}

/** Bounds of a page: a number of events, and approximate bytes, not counting the first event. */
export interface PageBounds {
  readonly limit: number;
  readonly bytesMax: number;
}

/** See the head of the file. */
export class EventReplays {
  readonly #journal: Journal;
  /** Least recently served first. */
  #replays: readonly Replay[] = [];

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  /**
   * Durable events of a session after the event `after`, oldest first, within the bounds; at least one if there is one.
   * Throws `StoreCorruptError` for a log that cannot be folded.
   */
  page(session: string, key: SessionKey, after: number, { limit, bytesMax }: PageBounds): EventPage {
    const known = this.#replays.find((each) => each.key === key && each.readUpTo === after);
    const replay = known ?? begin(this.#journal, session, key, after);
    // The fold is removed until the read succeeds: a read that throws may leave the state within a transition.
    this.#replays = this.#replays.filter((each) => each !== replay);
    const found: SessionEvent[] = [];
    let bytes = 0;
    // Number of events that fit the page: all found events until the first that does not fit.
    let fitting = 0;
    const find = (event: SessionEvent): void => {
      bytes += charactersOf(event);
      const fits = fitting < limit && (fitting === 0 || bytes <= bytesMax);
      if (fits && fitting === found.length) fitting += 1;
      found.push(event);
    };
    for (const event of replay.rest) find(event);
    let at = 0;
    const observer: LogObserver = {
      turn: (turnAt) => {
        at = turnAt;
      },
      event: (body, seq) => {
        if (seq > after) find({ session, at, seq, ...body });
      },
    };
    // Reads one event more than fits, to know whether there are more.
    while (found.length === fitting) {
      const entry = next(this.#journal, replay);
      if (entry === undefined) break;
      foldEntry(this.#journal, replay.state, entry, replay.position === 0, observer);
      replay.position = entry.position;
    }
    const events = found.splice(0, fitting);
    replay.rest = found;
    replay.readUpTo = events.at(-1)?.seq ?? after;
    replay.bytes = found.reduce((sum, event) => sum + charactersOf(event), bytesOf(replay.state));
    this.#keep(replay);
    return { events, isComplete: found.length === 0 };
  }

  /** Keeps this fold, and as many of the other folds as fit, the most recently served first (Y4). */
  #keep(replay: Replay): void {
    const known = [...this.#replays, replay].slice(-REPLAYS_MAX);
    let left = REPLAYS_BYTES_MAX - replay.bytes;
    let first = known.length - 1;
    for (let each = known[first - 1]; each !== undefined && each.bytes <= left; each = known[first - 1]) {
      left -= each.bytes;
      first -= 1;
    }
    this.#replays = known.slice(first);
  }

  /** Drops all folds, because transitions were lost or reappeared. The next pages are read again from the log. */
  clear(): void {
    this.#replays = [];
  }
}

function begin(journal: Journal, session: string, key: SessionKey, after: number): Replay {
  const common = { key, entries: undefined, readUpTo: after, rest: [], bytes: 0 };
  const found = after === 0 ? undefined : snapshotOf(journal, key, journal.head(key));
  if (found !== undefined) {
    const state = restoreState(found.stored);
    if (state.eventSeq <= after) return { ...common, state, position: found.snapshot.position };
  }
  return { ...common, ...beginningOf(journal, session, key) };
}

/** The next transition of the log; undefined if there is none so far. */
function next(journal: Journal, replay: Replay): StoredEntry | undefined {
  const step = replay.entries?.next();
  if (step?.done === false) return step.value;
  // Another look-up finds the transitions written since the last look-up. At the end of the log there are none.
  replay.entries = journal.read(replay.key, replay.position)[Symbol.iterator]();
  const later = replay.entries.next();
  if (later.done !== true) return later.value;
  replay.entries = undefined;
  return undefined;
}

/** Approximate bytes of the texts in a state. */
function bytesOf({ tokens, hidden, mailbox }: SessionState): number {
  const shown = hidden.reduce((sum, message) => sum + message.tokens, tokens) * BYTES_PER_TOKEN;
  return mailbox.reduce((sum, { content }) => sum + charactersOfContent(content), shown);
}
