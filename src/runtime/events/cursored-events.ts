/**
 * One reader of the events of all sessions that goes on where it was: what the log has of the sessions it names, then live.
 *
 * Owns: its place in each session it names, one page of the log. Does not own: the log (it asks `replay`), the live events (an
 * `EventQueue` over all sessions, open before anything is asked of the log).
 *
 *  C1  Each durable event of a named session after its place is read exactly once, ascending; what the log does not have is
 *      announced by a `gap`. Sessions follow one another while they catch up: there is no order between sessions.
 *  C2  What a reader that is too slow lost of a named session comes from the log. Of the others it is told by a `gap`, as without places.
 *  C3  An ephemeral event of a named session that is older than what was read of the session already is left out.
 *  C4  Memory is bounded: the places, the queue's bounds, one page of the log, which is counted in the budget of the readers and read
 *      again where it was given up.
 */
import { REPLAY_PAGE_EVENTS } from '../../base/bounds.ts';
import type { SessionEvent } from '../../events/event.ts';
import { charactersOf } from '../../events/reading/event-buffer.ts';
import { type BudgetedReader, READERS } from '../../events/reading/reader-budget.ts';
import type { EventQueue } from '../../events/reading/subscriber.ts';

/** What a reader needs. The functions are called while it reads. */
export interface CursoredEventsOptions {
  /** By session: durable events after this number are wanted. */
  readonly after: ReadonlyMap<string, number>;
  /** All sessions, live, with nothing left out. Ends with this reader. */
  readonly live: EventQueue;
  /** Durable events of a session after a number, ascending without holes; none when there are no later ones. */
  readonly replay: (session: string, after: number, limit: number) => Promise<readonly SessionEvent[]>;
  /** The event as the reader sees it, or undefined to leave it out. A throw fails the iteration. */
  readonly view?: (event: SessionEvent) => SessionEvent | undefined;
  /** Epoch ms, for the gaps it tells of. */
  readonly now: () => number;
}

/** Where the reader is in a session. */
interface Place {
  /** The next durable event to be read. */
  next: number;
  /** The newest durable event that came live; 0: none yet. */
  told: number;
  /** When what was read last happened, epoch ms. */
  at: number;
  /** The session was deleted: an event 1 is the first of another one of its name. */
  isDeleted: boolean;
}

type Read = IteratorResult<SessionEvent, undefined>;
type Numbered = SessionEvent & { readonly seq: number };

/** See the head of the file. Host thread. */
export class CursoredEvents implements AsyncIterableIterator<SessionEvent>, BudgetedReader {
  readonly #options: CursoredEventsOptions;
  readonly #places = new Map<string, Place>();
  /** Sessions whose log may have more than was read. */
  readonly #behind: Set<string>;
  #page: readonly SessionEvent[] = [];
  #pageAt = 0;
  #pageCharacters = 0;
  /** What the budget was told last. */
  #counted = 0;
  /** A live event that waits until the log has given what comes before it. */
  #held: Numbered | undefined;
  #reads: Promise<unknown> = Promise.resolve();

  constructor(options: CursoredEventsOptions) {
    this.#options = options;
    for (const [session, after] of options.after) {
      this.#places.set(session, { next: after + 1, told: 0, at: 0, isDeleted: false });
    }
    this.#behind = new Set(this.#places.keys());
  }

  /** Sessions it names. */
  sessions(): Iterable<string> {
    return this.#places.keys();
  }

  /** What was made durable in these sessions may not have been told: they are looked up in the log. */
  refill(isMeant: (session: string) => boolean): void {
    let last: string | undefined;
    for (const session of this.#places.keys()) {
      if (!isMeant(session)) continue;
      this.#behind.add(session);
      last = session;
    }
    // A read that waits for live events must look.
    const at = this.#options.now();
    if (last !== undefined) this.#options.live.push({ type: 'gap', session: last, at, from: 0, to: 0 });
  }

  /** The session is deleted. */
  forget(session: string): void {
    const place = this.#places.get(session);
    if (place !== undefined) place.isDeleted = true;
  }

  /** Fails the iteration with this error, behind what is at hand. */
  fail(error: unknown): void {
    this.#options.live.fail(error);
  }

  /** Approximate UTF-16 units of the page; what waits live is the queue's. */
  get held(): number {
    return this.#pageCharacters;
  }

  /** Lets go of the page: its session counts as behind until an empty one came, so that it is asked for again. */
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

  /** The next event. Rejects once, when the iteration fails, and is done ever after. */
  next(): Promise<Read> {
    const result = this.#reads.then(() => this.#read());
    this.#reads = result.catch(() => undefined);
    return result;
  }

  /** Ends the iteration: what `break` does. A read that waits is done. */
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
      // Behind the event that was taken: a page that is given up at once would be asked for without end.
      this.#account();
    }
  }

  /** The next event of the page, or the one that waited for it. */
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

  /** Neither the log nor who told of it has these. */
  #gap(session: string, place: Place, to: number): SessionEvent {
    const from = place.next;
    place.next = to;
    return { type: 'gap', session, at: this.#options.now(), from, to: to - 1 };
  }

  /** Another page of the log, where there may be one, else the next live event. `again`: what came must be looked at. */
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

  /** A live event, if it is the next one to be read. */
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
    place.told = seq;
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

/** Something of the session that came later was read already (C3). Until a durable event came live, only the time tells. */
function isStale(event: SessionEvent, { told, next, at }: Place): boolean {
  return told > 0 ? told < next - 1 : event.at < at;
}
