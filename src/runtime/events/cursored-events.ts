/**
 * A reader of the events of all sessions that resumes at its cursors. For each session that has a cursor, it reads
 * first the log and then live events.
 *
 * Owns: its cursors, one page of the log. Does not own: the log (it calls `replay`), the live events (an `EventQueue`
 * over all sessions, opened before the first call of `replay`).
 *
 *  C1 A named session is a session with a cursor. Each durable event after its cursor is read exactly once, ascending.
 *     A `gap` announces events that the log does not have. While sessions catch up, they are read one after the other:
 *     there is no order between sessions.
 *  C2 When the reader is too slow, lost events of a named session come from the log. For other sessions a `gap`
 *     announces the loss, as for a reader without cursors.
 *  C3 An ephemeral event of a named session is left out if a later event of the session was already read.
 *  C4 Memory is bounded: the cursors, the queue's bounds, one page of the log. The page is counted in the budget of the
 *     readers. A page that was given up is read again.
 */
import { REPLAY_PAGE_EVENTS } from '../../base/bounds.ts';
import type { SessionEvent } from '../../events/event.ts';
import { charactersOf } from '../../events/reading/event-buffer.ts';
import type { EventQueue } from '../../events/reading/event-queue.ts';
import { type BudgetedReader, READERS } from '../../events/reading/reader-budget.ts';

/** The options of a reader. The functions are called while it reads. */
export interface CursoredEventsOptions {
  /** The event number for each session; the reader receives the durable events after it. */
  readonly after: ReadonlyMap<string, number>;
  /** Live events of all sessions, or of one tenant's, before `view`. The queue ends with this reader. */
  readonly live: EventQueue;
  /** Durable events of a session after a number, ascending without holes; none when there are no later ones. */
  readonly replay: (session: string, after: number, limit: number) => Promise<readonly SessionEvent[]>;
  /** The event as the reader sees it, or undefined to leave it out. A throw fails the iteration. */
  readonly view?: (event: SessionEvent) => SessionEvent | undefined;
  /** Epoch ms, for the gaps that the reader announces. */
  readonly now: () => number;
}

/** The cursor of the reader in a session. */
interface Place {
  /** The number of the next durable event to be read. */
  next: number;
  /** The number of the newest durable event that arrived live; 0: none yet. */
  readUpTo: number;
  /** Time of the last event that was read, epoch ms. */
  at: number;
  /** True once the session was deleted. An event with number 1 then belongs to another session of the same id. */
  isDeleted: boolean;
}

type Read = IteratorResult<SessionEvent, undefined>;
type Numbered = SessionEvent & { readonly seq: number };

/** See the head of the file. Host thread. */
export class CursoredEvents implements AsyncIterableIterator<SessionEvent>, BudgetedReader {
  readonly #options: CursoredEventsOptions;
  readonly #places = new Map<string, Place>();
  /** Sessions whose log may have unread events. */
  readonly #behind: Set<string>;
  #page: readonly SessionEvent[] = [];
  #pageAt = 0;
  #pageCharacters = 0;
  /** The size last reported to the budget. */
  #counted = 0;
  /** A live event that waits until the log has given all events before it. */
  #held: Numbered | undefined;
  #reads: Promise<unknown> = Promise.resolve();

  constructor(options: CursoredEventsOptions) {
    this.#options = options;
    for (const [session, after] of options.after) {
      this.#places.set(session, { next: after + 1, readUpTo: 0, at: 0, isDeleted: false });
    }
    this.#behind = new Set(this.#places.keys());
  }

  /** The sessions in which the reader has a cursor. */
  sessions(): Iterable<string> {
    return this.#places.keys();
  }

  /**
   * Marks sessions as behind: durable events of these sessions may not have been published, so they are read from the
   * log.
   */
  refill(isMeant: (session: string) => boolean): void {
    let last: string | undefined;
    for (const session of this.#places.keys()) {
      if (!isMeant(session)) continue;
      this.#behind.add(session);
      last = session;
    }
    // Wakes a read that waits for live events.
    const at = this.#options.now();
    if (last !== undefined) this.#options.live.push({ type: 'gap', session: last, at, from: 0, to: 0 });
  }

  /** Notes that the session was deleted. */
  forget(session: string): void {
    const place = this.#places.get(session);
    if (place !== undefined) place.isDeleted = true;
  }

  /** Fails the iteration with this error, after the events already in memory. */
  fail(error: unknown): void {
    this.#options.live.fail(error);
  }

  /** Approximate UTF-16 units of the page; the queue counts the waiting live events. */
  get held(): number {
    return this.#pageCharacters;
  }

  /** Drops the page. The session of the page counts as behind until an empty page arrives, so it is read again. */
  giveUp(): void {
    this.#setPage([]);
    this.#account();
  }

  #setPage(page: readonly SessionEvent[]): void {
    this.#page = page;
    this.#pageAt = 0;
    this.#pageCharacters = page.reduce((sum, event) => sum + charactersOf(event), 0);
  }

  #account(): void {
    const before = this.#counted;
    this.#counted = this.#pageCharacters;
    READERS.changed(this, before, this.#counted);
  }

  /** The next event. Rejects once, when the iteration fails; every later call resolves as done. */
  next(): Promise<Read> {
    const result = this.#reads.then(() => this.#read());
    this.#reads = result.catch(() => undefined);
    return result;
  }

  /** Ends the iteration, as `break` does. A waiting read resolves as done. */
  async return(): Promise<Read> {
    await this.#options.live.return();
    this.giveUp();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  async #read(): Promise<Read> {
    const { live, view } = this.#options;
    try {
      for (;;) {
        const event = live.isOver ? undefined : (this.#atHand() ?? (await this.#further()));
        if (live.isOver || event === undefined) {
          this.#setPage([]);
          return { done: true, value: undefined };
        }
        const seen = event === 'again' || view === undefined ? event : view(event);
        if (seen !== undefined && seen !== 'again') return { done: false, value: seen };
      }
    } catch (error) {
      await live.return();
      this.#setPage([]);
      throw error;
    } finally {
      // The held size is reported after the event was taken. Otherwise a page that is given up at once would be
      // requested again and again.
      this.#account();
    }
  }

  /** The next event in memory: from the page, or the live event that waited for the page. */
  #atHand(): SessionEvent | undefined {
    while (this.#pageAt < this.#page.length) {
      const event = this.#page[this.#pageAt];
      const place = event === undefined ? undefined : this.#places.get(event.session);
      if (event?.seq !== undefined && place !== undefined && event.seq > place.next) {
        return this.#gap(event.session, place, event.seq);
      }
      this.#pageAt += 1;
      if (event?.seq === undefined || event.seq !== place?.next) continue;
      place.next += 1;
      place.at = event.at;
      return event;
    }
    const held = this.#held;
    if (held === undefined || this.#behind.has(held.session)) return undefined;
    const place = this.#places.get(held.session);
    if (place !== undefined && held.seq > place.next) return this.#gap(held.session, place, held.seq);
    this.#held = undefined;
    if (place === undefined || held.seq < place.next) return undefined;
    place.next = held.seq + 1;
    return held;
  }

  /** A gap over events that neither the log nor a subscription has. */
  #gap(session: string, place: Place, to: number): SessionEvent {
    const from = place.next;
    place.next = to;
    return { type: 'gap', session, at: this.#options.now(), from, to: to - 1 };
  }

  /**
   * Requests another page of the log for a session that is behind, or takes the next live event. `again`: a page has
   * arrived, or the live event is not the next event of its session.
   */
  async #further(): Promise<SessionEvent | 'again' | undefined> {
    const { live } = this.#options;
    for (const session of this.#behind) {
      const after = (this.#places.get(session)?.next ?? 1) - 1;
      this.#behind.delete(session);
      const page = await this.#options.replay(session, after, REPLAY_PAGE_EVENTS);
      if (page.length > 0) this.#behind.add(session);
      this.#setPage(live.isOver ? [] : page);
      return 'again';
    }
    const { value: event } = await live.next();
    return event === undefined ? undefined : (this.#placed(event) ?? 'again');
  }

  /** Returns a live event if it is the next event of its session; otherwise undefined. */
  #placed(event: SessionEvent): SessionEvent | undefined {
    const { session, seq } = event;
    const place = this.#places.get(session);
    if (place === undefined) return event;
    if (event.type === 'gap') {
      this.#behind.add(session);
      return undefined;
    }
    if (seq === undefined) return isStale(event, place) ? undefined : event;
    if (seq === 1 && place.isDeleted) {
      place.isDeleted = false;
      place.next = 1;
    }
    place.readUpTo = seq;
    if (seq < place.next) return undefined;
    if (seq === place.next) {
      place.next += 1;
      return event;
    }
    this.#held = { ...event, seq };
    this.#behind.add(session);
    return undefined;
  }
}

/**
 * True if a later event of the session was already read (C3). Before the first live durable event, the time alone
 * decides.
 */
function isStale(event: SessionEvent, { readUpTo, next, at }: Place): boolean {
  return readUpTo > 0 ? readUpTo < next - 1 : event.at < at;
}
