/**
 * One reader of events: an async iterable over what the log has and what happens live.
 *
 * Owns: the reader's place in a session's total order, what waits for it, the way back to the log when it fell behind.
 * Does not own: the log (it asks `replay`), who else reads. Belongs to the thread that reads.
 *
 *  E1  Each durable event after the place of subscription is read exactly once, ascending. What the log does not have
 *      is announced by a `gap` and left out.
 *  E2  A reader that is too slow loses what waits, is told so by a `gap` at its next read, and gets the durable events
 *      of it from the log.
 *  E3  An ephemeral event is read after the durable event it came after and before the next one, or not at all.
 *  E4  Memory is bounded, whatever the reader does: the buffer's bounds and one page of the log. All of it is counted in the budget of
 *      the process, at whose word it is given up: the page is read again, the buffer is lost as in E2.
 *  E5  Once the iteration is over, for any reason, nothing is held and `onClose` was called, once. One whose signal was
 *      aborted before is over from the start: it was never open, and `onClose` is not called.
 *
 * Live events must flow before the first page of the log is asked for; what comes twice by that is read once.
 */
import { LOST_SESSIONS_MAX, REPLAY_PAGE_EVENTS } from '../../base/bounds.ts';
import { LimitError } from '../../base/errors.ts';
import type { SessionEvent } from '../event.ts';
import { type BufferBounds, charactersOf, EventBuffer } from './event-buffer.ts';
import { type BudgetedReader, READERS, type ReaderBudget } from './reader-budget.ts';

/**
 * Reads durable events of the session from the log: `fromSeq` and later, ascending without holes, 1 to `limit` of them;
 * none when there are no later ones. May reject; the iteration then fails with its error. One call at a time.
 */
export type Replay = (fromSeq: number, limit: number) => Promise<readonly SessionEvent[]>;

/** What an `EventQueue` needs. The functions are called on the reader's thread, while it reads. */
export interface EventQueueOptions {
  /** The session read. Missing, with `replay`: events of many sessions, live only, in the order they are told. */
  readonly session?: string;
  /** Durable events after this number are wanted. Missing: from the first one told live. */
  readonly after?: number;
  readonly replay?: Replay;
  /** Ends the iteration behind the first event it is true for. A throw fails the iteration. */
  readonly until?: (event: SessionEvent) => boolean;
  /** The event as this reader sees it, or undefined to leave it out. A throw fails the iteration. */
  readonly view?: (event: SessionEvent) => SessionEvent | undefined;
  /** False: text and thinking deltas are not wanted. */
  readonly deltas?: boolean;
  /** Ends the iteration at once, without an error. */
  readonly signal?: AbortSignal;
  /** Called once, when the iteration is over; not when `signal` was aborted before it began. Must not throw. */
  readonly onClose?: () => void;
  readonly bounds?: BufferBounds;
  /** Default: that of the process. */
  readonly budget?: ReaderBudget;
  /** Epoch ms, for the gaps it tells of. */
  readonly now: () => number;
}

type Read = IteratorResult<SessionEvent, undefined>;

/** A read that waits for something to be at hand. */
interface WaitingRead {
  readonly resolve: (read: Read) => void;
  readonly reject: (error: unknown) => void;
}

const OVER: Read = Object.freeze({ done: true, value: undefined });
/** Its reactions run when the code under way is through. */
const SOON: Promise<void> = Promise.resolve();

/** Marks an ephemeral event that came before any durable one was known. */
const UNKNOWN = -1;

/** A bounded, re-filling queue of events between one producer and one reader. */
export class EventQueue implements AsyncIterableIterator<SessionEvent>, BudgetedReader {
  readonly #options: EventQueueOptions;
  readonly #budget: ReaderBudget;
  readonly #buffer: EventBuffer;
  /** The next durable event to be read; undefined until the first is known. */
  #next: number | undefined;
  /** The newest durable event told live. */
  #highest: number | undefined;
  /** Durable events in the buffer: the oldest of them is `#highest - #durables + 1`. */
  #durables = 0;
  #isReplaying: boolean;
  #isFetching = false;
  #page: readonly SessionEvent[] = [];
  #pageAt = 0;
  #pageCharacters = 0;
  /** What the budget was told last. */
  #held = 0;
  /** Lost and not yet announced, by session: one entry, or up to `LOST_SESSIONS_MAX` for a reader of all sessions. */
  readonly #lost: Map<string, { readonly from: number; readonly to: number }> = new Map();
  /** Set by the producer: what is at hand is still read. */
  #ending: { readonly error?: unknown } | undefined;
  #isOver = false;
  /** Reads are served one after the other, however many are asked for at once. */
  readonly #reads: WaitingRead[] = [];
  /** The reads that wait are looked at soon. */
  #isRoused = false;

  constructor(options: EventQueueOptions) {
    this.#options = options;
    this.#budget = options.budget ?? READERS;
    this.#buffer = new EventBuffer(options.bounds);
    this.#isReplaying = options.replay !== undefined && options.after !== undefined;
    this.#next = this.#isReplaying && options.after !== undefined ? options.after + 1 : undefined;
    if (options.signal?.aborted === true) this.#isOver = true;
    else options.signal?.addEventListener('abort', this.#onAbort, { once: true });
  }

  /** True when the iteration is over. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Events waiting, the rest of a page of the log included. */
  get waiting(): number {
    return this.#buffer.size + this.#page.length - this.#pageAt;
  }

  /** Approximate UTF-16 units waiting, all of the page of the log included. */
  get held(): number {
    return this.#buffer.characters + this.#pageCharacters;
  }

  /** Lets go of all that waits (E4). */
  giveUp(): void {
    this.#dropPage();
    for (const lost of this.#buffer.clear()) this.#lose(lost);
    this.#account();
    this.#rouse();
  }

  /** Tells a live event. Events of one session come in their order; durable ones told before are ignored. Never throws. */
  push(event: SessionEvent): void {
    if (this.#isOver || this.#ending !== undefined) return;
    this.#receive(event);
    this.#account();
    this.#rouse();
  }

  /** The same for many, in their order. */
  pushAll(events: readonly SessionEvent[]): void {
    for (let index = 0; index < events.length && !this.#isOver && this.#ending === undefined; index += 1) {
      const event = events[index];
      if (event !== undefined) this.#receive(event);
    }
    this.#account();
    this.#rouse();
  }

  #receive(event: SessionEvent): void {
    if (this.#options.deltas === false && (event.type === 'text.delta' || event.type === 'thinking.delta')) return;
    if (this.#options.replay === undefined || event.seq === undefined) {
      this.#put(event, this.#horizon());
    } else if (event.seq >= (this.#next ?? 1) && event.seq > (this.#highest ?? 0)) {
      this.#next ??= event.seq;
      this.#highest = event.seq;
      this.#put(event, event.seq);
    }
  }

  /** Ends the iteration behind what is at hand. */
  close(): void {
    this.#ending ??= {};
    this.#leaveBudget();
    this.#rouse();
  }

  /** Fails the iteration with this error, behind what is at hand. */
  fail(error: unknown): void {
    this.#ending ??= { error };
    this.#leaveBudget();
    this.#rouse();
  }

  /** Nothing is added any more. One that never reads to its end must not be held by the budget either. */
  #leaveBudget(): void {
    this.#budget.changed(this, this.#held, 0);
    this.#held = 0;
  }

  /** The next event. Rejects once, when the iteration fails, and is done ever after. */
  next(): Promise<Read> {
    if (this.#reads.length === 0) {
      try {
        const read = this.#readNow();
        if (read !== undefined) return Promise.resolve(read);
      } catch (error) {
        return Promise.reject(error);
      }
    }
    return new Promise((resolve, reject) => {
      this.#reads.push({ resolve, reject });
    });
  }

  /** What a read that need not wait gives; undefined: it must. Throws what the iteration fails with, which is then over. */
  #readNow(): Read | undefined {
    try {
      const seen = this.#atHandSeen();
      if (seen !== undefined) return { done: false, value: seen };
      if (this.#isOver) return OVER;
      if (this.#ending === undefined) return undefined;
      this.#end(this.#ending);
      return OVER;
    } catch (error) {
      this.#finish();
      throw error;
    } finally {
      this.#account();
    }
  }

  /** Gives the reads that wait what is there, oldest first. */
  readonly #serve = (): void => {
    this.#isRoused = false;
    while (this.#reads.length > 0) {
      try {
        const read = this.#readNow();
        if (read === undefined) return;
        this.#reads.shift()?.resolve(read);
      } catch (error) {
        this.#reads.shift()?.reject(error);
      }
    }
  };

  /** The next event this reader is to see, of those that need no waiting; undefined: there is none. */
  #atHandSeen(): SessionEvent | undefined {
    while (!this.#isOver) {
      const event = this.#atHand();
      if (event === undefined) return undefined;
      const seen = this.#see(event);
      if (seen !== undefined) return seen;
    }
    return undefined;
  }

  /** Ends the iteration: what `break` does. A read that waits is done. */
  return(): Promise<Read> {
    this.#finish();
    return Promise.resolve(OVER);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#finish();
    return Promise.resolve();
  }

  /** What the reader gets of an event; ends the iteration when this is the last. */
  #see(event: SessionEvent): SessionEvent | undefined {
    const isLast = this.#options.until?.(event) === true;
    const seen = this.#options.view === undefined ? event : this.#options.view(event);
    if (isLast) this.#finish();
    return seen;
  }

  #end(ending: { readonly error?: unknown }): void {
    this.#finish();
    if ('error' in ending) throw ending.error;
  }

  /** The next event that needs no waiting. Asks for a page of the log when one is needed. */
  #atHand(): SessionEvent | undefined {
    const gap = this.#announcement();
    if (gap !== undefined) return gap;
    if (this.#options.replay === undefined) return this.#buffer.take();
    const replayed = this.#fromPage();
    if (replayed !== undefined) return replayed;
    this.#trim();
    const oldest = this.#oldestLive();
    const next = this.#next;
    if (oldest !== undefined && next !== undefined) this.#isReplaying = oldest > next;
    if (!this.#isReplaying) return this.#take();
    if (next !== undefined) this.#fetch(this.#options.replay, next);
    return undefined;
  }

  /** A gap not yet told of. */
  #announcement(): SessionEvent | undefined {
    for (const [session, { from, to }] of this.#lost) {
      this.#lost.delete(session);
      return { type: 'gap', session, at: this.#options.now(), from, to };
    }
    return undefined;
  }

  #fromPage(): SessionEvent | undefined {
    while (this.#pageAt < this.#page.length) {
      const event = this.#page[this.#pageAt];
      const next = this.#next ?? 1;
      if (event?.seq !== undefined && event.seq > next) {
        this.#skip(next, event.seq - 1);
        return this.#announcement();
      }
      this.#pageAt += 1;
      if (event?.seq !== next) continue;
      this.#next = next + 1;
      return event;
    }
    this.#dropPage();
    return undefined;
  }

  #dropPage(): void {
    this.#page = [];
    this.#pageAt = 0;
    this.#pageCharacters = 0;
  }

  /** The log does not have these: the reader is told so, and goes on behind them (E1). */
  #skip(from: number, to: number): void {
    this.#next = to + 1;
    this.#noteLost(this.#options.session ?? '', from, to);
  }

  /** Drops from the buffer's front what the log gave already, and what was told before something read since (E3). */
  #trim(): void {
    const next = this.#next;
    if (next === undefined) return;
    for (let event = this.#buffer.peek(); event !== undefined; event = this.#buffer.peek()) {
      const { seq } = event;
      const after = this.#buffer.peekAfter() ?? UNKNOWN;
      const isStale = seq === undefined ? after !== UNKNOWN && after < next - 1 : seq < next;
      if (!isStale) return;
      this.#drop();
    }
  }

  /** The oldest durable event that is in the buffer, or would be the next told; undefined when none was told live. */
  #oldestLive(): number | undefined {
    return this.#highest === undefined ? undefined : this.#highest - this.#durables + 1;
  }

  /** Takes what is next; the caller made sure that there is no hole before it. */
  #take(): SessionEvent | undefined {
    const event = this.#drop();
    if (event?.seq !== undefined) this.#next = event.seq + 1;
    return event;
  }

  #drop(): SessionEvent | undefined {
    const event = this.#buffer.take();
    if (event?.seq !== undefined && this.#options.replay !== undefined) this.#durables -= 1;
    return event;
  }

  #fetch(replay: Replay, from: number): void {
    if (this.#isFetching || this.#ending !== undefined) return;
    this.#isFetching = true;
    const known = this.#highest ?? 0;
    replay(from, REPLAY_PAGE_EVENTS).then(
      (page) => this.#fetched(page, from, known),
      (error: unknown) => this.fail(error),
    );
  }

  /** `known`: the newest durable event told when the page was asked for; the log had it then, if it has it at all. */
  #fetched(page: readonly SessionEvent[], from: number, known: number): void {
    this.#isFetching = false;
    if (this.#isOver) return;
    this.#page = page;
    this.#pageAt = 0;
    this.#pageCharacters = page.reduce((sum, event) => sum + charactersOf(event), 0);
    const isEmpty = !page.some((event) => event.seq !== undefined && event.seq >= from);
    if (isEmpty) {
      const oldest = this.#oldestLive() ?? from;
      if (known >= from) this.#skip(from, Math.min(known, oldest - 1));
      // What was told and thrown out while the page was under way is in the log by now: the next read sees the hole.
      this.#isReplaying = false;
    }
    // A read that waits takes its event first: a page that is given up at once would be asked for without end.
    if (this.#reads.length === 0) this.#account();
    this.#rouse();
  }

  /** The durable event that an ephemeral one told now comes after, as far as is known. */
  #horizon(): number {
    if (this.#options.replay === undefined || this.#next === undefined) return UNKNOWN;
    return Math.max(this.#highest ?? 0, this.#next - 1);
  }

  #put(event: SessionEvent, after: number): void {
    if (event.seq !== undefined && this.#options.replay !== undefined) this.#durables += 1;
    const thrownOut = this.#buffer.put(event, after);
    // Looked at first: a loop over nothing makes an iterator, for each event of each reader.
    if (thrownOut.length > 0) for (const lost of thrownOut) this.#lose(lost);
  }

  #lose(event: SessionEvent): void {
    if (event.seq === undefined) return;
    if (this.#options.replay !== undefined) this.#durables -= 1;
    if (this.#options.replay !== undefined && event.seq < (this.#next ?? 1)) return;
    this.#noteLost(event.session, event.seq, event.seq);
  }

  #noteLost(session: string, from: number, to: number): void {
    const range = this.#lost.get(session);
    this.#lost.set(session, { from: Math.min(from, range?.from ?? from), to: Math.max(to, range?.to ?? to) });
    if (this.#lost.size <= LOST_SESSIONS_MAX) return;
    this.fail(new LimitError('a reader of all sessions fell too far behind', { data: { limit: 'lostSessions' } }));
  }

  /** Not at once: who tells is not held up by who reads, and what is told together is at hand together. */
  #rouse(): void {
    if (this.#isRoused || this.#reads.length === 0) return;
    this.#isRoused = true;
    void SOON.then(this.#serve);
  }

  /** Tells the budget what is held now, where that changed. */
  #account(): void {
    const before = this.#held;
    const held = this.#ending === undefined ? this.held : 0;
    if (held === before) return;
    this.#held = held;
    this.#budget.changed(this, before, held);
  }

  readonly #onAbort = (): void => this.#finish();

  #finish(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#buffer.clear();
    this.#lost.clear();
    this.#dropPage();
    this.#account();
    this.#options.signal?.removeEventListener('abort', this.#onAbort);
    this.#rouse();
    this.#options.onClose?.();
  }
}
