/**
 * One reader of all sessions that is handed whole lists of events as they are told, and takes them by a plain call: for what must
 * keep up with everything at a small part of what an iteration costs.
 *
 * Owns: what was told and is not taken yet, the sessions of which something was lost. Does not own: who else reads, what is made of
 * events. Belongs to the thread that reads.
 *  T1 Events are taken in the order they were told, in a microtask of their own: who tells only queues (N2).
 *  T2 At most `eventsMax` events wait, or one list that is longer; what is told beyond throws out all that waits, and each session
 *     that had a durable event among it is cut off before anything that was told later is taken.
 *  T3 A reader that can take no more is left alone until it says `resume`.
 *  T4 `over` is called once, when nothing more will come; nothing is held then, and nothing else is called.
 */
import { LOST_SESSIONS_MAX, SUBSCRIBER_EVENTS_MAX } from '../../base/bounds.ts';
import { LimitError } from '../../base/errors.ts';
import type { SessionEvent } from '../event.ts';

/** Who reads by a tap. What `take` or `cutOff` throw ends the tap. */
export interface TapReader {
  /**
   * Takes events from the place `from` on. Returns the place of the first it could not take now, their number when it took all. Must
   * not change the list.
   */
  take(events: readonly SessionEvent[], from: number): number;
  /**
   * Events of this session were lost, or, with `isGone`, it was deleted: of what began before, no end will be seen. What bears the
   * same name later may be another session.
   */
  cutOff(session: string, isGone: boolean): void;
  /** Nothing more comes. `error`: why, where it did not end by itself. Must not throw. */
  over(error: unknown): void;
}

/** Ports of a tap. */
export interface EventTapOptions {
  /** Called once, when it is over, before `over`. Must not throw. */
  readonly onClose?: () => void;
  readonly eventsMax?: number;
}

/** What waits: events, or the name of a session that was deleted. */
type Told = readonly SessionEvent[] | string;

/** Its reactions run when the code under way is through. */
const SOON: Promise<void> = Promise.resolve();

/** See the head of the file. */
export class EventTap {
  readonly #reader: TapReader;
  readonly #onClose: (() => void) | undefined;
  readonly #eventsMax: number;
  #waiting: Told[] = [];
  /** Events in `#waiting`; a deletion counts as one. */
  #size = 0;
  /** Sessions to be cut off, and whether they are gone. */
  readonly #cutOff: Map<string, boolean> = new Map();
  #isRoused = false;
  /** The reader could not take all (T3). */
  #isHeld = false;
  /** Set by who tells: what waits is still taken. */
  #ending: { readonly error?: unknown } | undefined;
  #isOver = false;

  constructor(reader: TapReader, { onClose, eventsMax = SUBSCRIBER_EVENTS_MAX }: EventTapOptions = {}) {
    this.#reader = reader;
    this.#onClose = onClose;
    this.#eventsMax = eventsMax;
  }

  /** Tells events, in their order; the list is kept as it is. Never throws. */
  pushAll(events: readonly SessionEvent[]): void {
    this.#put(events, events.length);
  }

  /** Tells that a session was deleted, behind what was told before. Never throws. */
  end(session: string): void {
    this.#put(session, 1);
  }

  /** The reader can take more. */
  resume(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    this.#rouse();
  }

  /** The reader wants no more: over at once. */
  leave(): void {
    this.#finish(undefined);
  }

  /** Ends it behind what waits. */
  close(): void {
    this.#ending ??= {};
    this.#rouse();
  }

  /** Ends it with this error, behind what waits. */
  fail(error: unknown): void {
    this.#ending ??= { error };
    this.#rouse();
  }

  #put(told: Told, size: number): void {
    if (this.#isOver || this.#ending !== undefined) return;
    if (this.#size > 0 && this.#size + size > this.#eventsMax) this.#loseAll();
    this.#waiting.push(told);
    this.#size += size;
    this.#rouse();
  }

  #loseAll(): void {
    const lost = this.#waiting;
    this.#waiting = [];
    this.#size = 0;
    for (const told of lost) {
      if (typeof told === 'string') this.#cutOff.set(told, true);
      else for (const { seq, session } of told) if (seq !== undefined) this.#loseOf(session);
    }
    if (this.#cutOff.size <= LOST_SESSIONS_MAX) return;
    this.fail(new LimitError('a reader of all sessions fell too far behind', { data: { limit: 'lostSessions' } }));
  }

  #loseOf(session: string): void {
    if (!this.#cutOff.has(session)) this.#cutOff.set(session, false);
  }

  #rouse(): void {
    if (this.#isRoused || this.#isHeld || this.#isOver) return;
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
    if (this.#cutOff.size > 0) this.#tellCutOff();
    const list = this.#waiting;
    this.#waiting = [];
    this.#size = 0;
    for (let index = 0; index < list.length && !this.#isOver; index += 1) {
      const told = list[index] ?? [];
      if (typeof told === 'string') {
        this.#reader.cutOff(told, true);
        continue;
      }
      const place = this.#reader.take(told, 0);
      if (place < told.length && !this.#isOver) {
        this.#putBack([told.slice(place), ...list.slice(index + 1)]);
        return;
      }
    }
  }

  #tellCutOff(): void {
    const all = [...this.#cutOff];
    this.#cutOff.clear();
    for (const [session, isGone] of all) this.#reader.cutOff(session, isGone);
  }

  /** Before what was told meanwhile. */
  #putBack(left: readonly Told[]): void {
    this.#isHeld = true;
    this.#waiting = [...left, ...this.#waiting];
    for (const told of left) this.#size += typeof told === 'string' ? 1 : told.length;
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
