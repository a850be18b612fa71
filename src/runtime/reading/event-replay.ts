/**
 * Durable events of sessions, told again from their logs: a page at a time, each beginning where the one before ended. Runs on the
 * session's thread.
 *
 * Owns: the folds behind the pages it gave last. Does not own: the journal, nor where a reader stands.
 * Invariants:
 *  Y1 a page is what a fold of the whole log tells after that event: the same events with the same numbers, in order;
 *  Y2 a page reads the turns it tells of and no others, while its reader is one of the last `REPLAYS_MAX`; a reader that comes new
 *     reads from the start of the log, or from its snapshot where that is no later than its place;
 *  Y3 nothing is held for longer than it is true: `clear` where the log may have lost turns, and another session of the same name
 *     has another key.
 *  Y4 memory is bounded in bytes: a page by the bound it is asked for with, beside its first event; the folds and what they told beyond
 *     their pages together by `REPLAYS_BYTES_MAX`, beside the one served last.
 */
import { BYTES_PER_TOKEN, REPLAYS_BYTES_MAX, REPLAYS_MAX } from '../../base/bounds.ts';
import type { SessionEvent } from '../../events/event.ts';
import { charactersOf, charactersOfContent } from '../../events/reading/event-buffer.ts';
import type { Journal } from '../../journal/journal.ts';
import type { Position, SessionKey, StoredEntry } from '../../journal/position.ts';
import { emptyState, restoreState, type SessionState } from '../../session/state/state.ts';
import { decodeHead } from './head.ts';
import { foldEntry, type LogObserver } from './session-reader.ts';

/** A part of what a session's log tells. */
export interface EventPage {
  readonly events: readonly SessionEvent[];
  /** The log tells nothing after them. */
  readonly isComplete: boolean;
}

/** A fold that stands behind a turn. */
interface Replay {
  readonly key: SessionKey;
  readonly state: SessionState;
  /** Of the last turn in the state. */
  position: Position;
  /** The way from there on, as far as the log went when it was looked up; it is long in a long log. */
  entries: Iterator<StoredEntry> | undefined;
  /** The last event that was given. */
  told: number;
  /** What the last turn told beyond the page. */
  rest: readonly SessionEvent[];
  /** Approximate bytes of `rest` and the state. */
  bytes: number;
}

/** What a page may have: events, and approximate bytes beside the first of them. */
export interface PageBounds {
  readonly limit: number;
  readonly bytesMax: number;
}

/** See the head of the file. */
export class EventReplays {
  readonly #journal: Journal;
  /** The one served longest ago first. */
  #replays: readonly Replay[] = [];

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  /**
   * Durable events of a session after the event `after`, oldest first, within the bounds; at least one, where there is one. Throws
   * `StoreCorruptError` for a log that cannot be folded.
   */
  page(session: string, key: SessionKey, after: number, { limit, bytesMax }: PageBounds): EventPage {
    const known = this.#replays.find((each) => each.key === key && each.told === after);
    const replay = known ?? begin(this.#journal, session, key, after);
    // One that throws is forgotten: its state may stand within a turn.
    this.#replays = this.#replays.filter((each) => each !== replay);
    const found: SessionEvent[] = [];
    let bytes = 0;
    // Events that fit the page: all that were found, until one did not.
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
    // One more than fits says that there is more.
    while (found.length === fitting) {
      const entry = next(this.#journal, replay);
      if (entry === undefined) break;
      foldEntry(this.#journal, replay.state, entry, replay.position === 0, observer);
      replay.position = entry.position;
    }
    const events = found.splice(0, fitting);
    replay.rest = found;
    replay.told = events.at(-1)?.seq ?? after;
    replay.bytes = found.reduce((sum, event) => sum + charactersOf(event), bytesOf(replay.state));
    this.#keep(replay);
    return { events, isComplete: found.length === 0 };
  }

  /** The newest always; of the others, from the newest on, as many as fit (Y4). */
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

  /** Turns were lost, or came back: everything is read again. */
  clear(): void {
    this.#replays = [];
  }
}

function begin(journal: Journal, session: string, key: SessionKey, after: number): Replay {
  const common = { key, entries: undefined, told: after, rest: [], bytes: 0 };
  const head = after === 0 ? undefined : journal.head(key);
  const snapshot = head === undefined ? undefined : decodeHead(head.data).snapshot;
  const stored = snapshot === undefined ? undefined : journal.blob(snapshot.address);
  if (snapshot !== undefined && stored !== undefined) {
    const state = restoreState(stored);
    if (state.eventSeq <= after) return { ...common, state, position: snapshot.position };
  }
  return { ...common, state: emptyState(session), position: 0 };
}

/** The next turn of the log; undefined: there is none so far. */
function next(journal: Journal, replay: Replay): StoredEntry | undefined {
  const step = replay.entries?.next();
  if (step?.done === false) return step.value;
  // What was written since the way was looked up; at the end of the log there is nothing.
  replay.entries = journal.read(replay.key, replay.position)[Symbol.iterator]();
  const later = replay.entries.next();
  if (later.done !== true) return later.value;
  replay.entries = undefined;
  return undefined;
}

/** Approximate bytes of the texts a state holds. */
function bytesOf({ tokens, hidden, mailbox }: SessionState): number {
  const shown = hidden.reduce((sum, message) => sum + message.tokens, tokens) * BYTES_PER_TOKEN;
  return mailbox.reduce((sum, { content }) => sum + charactersOfContent(content), shown);
}
