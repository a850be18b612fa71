/**
 * `EventTap`: one reader of all sessions that receives whole lists of published events by a plain call. It is for
 * readers that must keep up with all events: a call for a whole list costs far less than an async iteration for each
 * event.
 *
 * Owns: the published events that the reader has not taken yet, and the sessions that lost events. Does not own: the
 * other readers, the use of the events. Belongs to the thread that reads.
 * T1 The reader takes events in the order in which they were published, in a separate microtask. The publisher only
 *    queues them (N2 of `fan-out.ts`).
 * T2 At most `eventsMax` events wait; a single list may be longer. If further events would exceed this bound, all
 *    waiting events are dropped. `cutOff` is called for each session that lost a durable event in this way, before any
 *    later event is taken.
 * T4 `over` is called once, when no more events will come. After that the tap holds nothing, and calls nothing else.
 */
import { LOST_SESSIONS_MAX, SUBSCRIBER_EVENTS_MAX } from '../../base/bounds.ts';
import { LimitError } from '../../base/errors.ts';
import type { SessionEvent } from '../event.ts';

/** The reader of a tap. An error thrown by `take` or `cutOff` ends the tap. */
export interface TapReader {
  /** Takes these events. Must not change the list. */
  take(events: readonly SessionEvent[]): void;
  /**
   * Called when events of this session were lost, or when the session was deleted. The reader will not get the ends of
   * the session's open operations. A later session with the same id may be a different session.
   */
  cutOff(session: string): void;
  /** Called when no more events come. `error`: the reason, unless the tap ended normally. Must not throw. */
  over(error: unknown): void;
}

/** Ports of a tap. */
export interface EventTapOptions {
  /** Called once, when the tap ends, before `over`. Must not throw. */
  readonly onClose?: () => void;
  readonly eventsMax?: number;
}

/** A waiting item: events, or the name of a session that was deleted. */
type Batch = readonly SessionEvent[] | string;

/** A resolved promise: its reactions run after the current synchronous code. */
const SOON: Promise<void> = Promise.resolve();

/** See the head of the file. */
export class EventTap {
  readonly #reader: TapReader;
  readonly #onClose: (() => void) | undefined;
  readonly #eventsMax: number;
  #waiting: Batch[] = [];
  /** Events in `#waiting`; a deletion counts as one. */
  #size = 0;
  /** Sessions for which `cutOff` must still be called. */
  readonly #cutOff = new Set<string>();
  #isRoused = false;
  /** Set when the publisher has ended the tap. The reader still takes the waiting events. */
  #ending: { readonly error?: unknown } | undefined;
  #isOver = false;

  constructor(reader: TapReader, { onClose, eventsMax = SUBSCRIBER_EVENTS_MAX }: EventTapOptions = {}) {
    this.#reader = reader;
    this.#onClose = onClose;
    this.#eventsMax = eventsMax;
  }

  /** Publishes events, in order; the list is kept without a copy. Never throws. */
  pushAll(events: readonly SessionEvent[]): void {
    this.#put(events, events.length);
  }

  /** Publishes that a session was deleted, after earlier events. Never throws. */
  end(session: string): void {
    this.#put(session, 1);
  }

  /** Ends the tap at once, for a reader that wants no more. */
  leave(): void {
    this.#finish(undefined);
  }

  /** Ends the tap after the waiting events. */
  close(): void {
    this.#ending ??= {};
    this.#rouse();
  }

  /** Ends the tap with this error, after the waiting events. */
  fail(error: unknown): void {
    this.#ending ??= { error };
    this.#rouse();
  }

  #put(batch: Batch, size: number): void {
    if (this.#isOver || this.#ending !== undefined) return;
    if (this.#size > 0 && this.#size + size > this.#eventsMax) this.#loseAll();
    this.#waiting.push(batch);
    this.#size += size;
    this.#rouse();
  }

  #loseAll(): void {
    const lost = this.#waiting;
    this.#waiting = [];
    this.#size = 0;
    for (const batch of lost) {
      if (typeof batch === 'string') this.#cutOff.add(batch);
      else for (const { seq, session } of batch) if (seq !== undefined) this.#cutOff.add(session);
    }
    if (this.#cutOff.size <= LOST_SESSIONS_MAX) return;
    this.fail(new LimitError('a reader of all sessions fell too far behind', { data: { limit: 'lostSessions' } }));
  }

  #rouse(): void {
    if (this.#isRoused || this.#isOver) return;
    this.#isRoused = true;
    void SOON.then(this.#serve);
  }

  readonly #serve = (): void => {
    this.#isRoused = false;
    try {
      this.#drain();
    } catch (error) {
      this.#finish(error);
    }
    if (this.#ending !== undefined && this.#waiting.length === 0) this.#finish(this.#ending.error);
  };

  #drain(): void {
    if (this.#cutOff.size > 0) this.#notifyCutOff();
    const list = this.#waiting;
    this.#waiting = [];
    this.#size = 0;
    for (const batch of list) {
      if (this.#isOver) return;
      if (typeof batch === 'string') this.#reader.cutOff(batch);
      else this.#reader.take(batch);
    }
  }

  #notifyCutOff(): void {
    const all = [...this.#cutOff];
    this.#cutOff.clear();
    for (const session of all) this.#reader.cutOff(session);
  }

  #finish(error: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#waiting = [];
    this.#size = 0;
    this.#cutOff.clear();
    this.#onClose?.();
    this.#reader.over(error);
  }
}
