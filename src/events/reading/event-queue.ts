/**
 * `EventQueue`: one reader of events. It is an async iterable over the events of the log, followed by live events.
 *
 * Owns: the reader's cursor in a session's total order, the reader's buffered events, and the reads from the log when
 * the reader is behind. Does not own: the log (it calls `replay`), the other readers. Belongs to the thread that reads.
 *
 * E1 Each durable event after the reader's first cursor is read exactly once, in ascending order. Events that the log
 *    does not have are left out, and a `gap` announces them.
 * E2 A reader that is too slow loses its buffered events and receives a `gap` at its next read. Then it reads the lost
 *    durable events from the log.
 * E3 An ephemeral event is read between the durable events that came before and after it, or not at all.
 * E4 Memory is bounded by the buffer's bounds and one page of the log, whatever the reader does. All held data counts
 *    in the budget of the process (`reader-budget.ts`). When the budget asks, the queue drops its data: it reads the
 *    page again later, and the buffered events are lost as in E2.
 * E5 Once the iteration has ended, for any reason, nothing is held and `onClose` has been called once. If the signal
 *    was aborted before the iteration began, the iteration ends at once, and `onClose` is not called.
 * E6 A reader with `joins` gets all deltas of a model call, even if the reader begins while the call streams. It
 *    ignores deltas until a `StreamNote` brings the text that was streamed so far. It ignores every later note.
 *
 * The producer must push live events before the first page of the log is requested. So an event can arrive from both
 * sources; the reader gets it once.
 */
import { LOST_SESSIONS_MAX, REPLAY_PAGE_EVENTS } from '../../base/bounds.ts';
import { LimitError } from '../../base/errors.ts';
import type { SessionEvent, StreamNote } from '../event.ts';
import { type BufferBounds, charactersOf, EventBuffer } from './event-buffer.ts';
import { type BudgetedReader, READERS, type ReaderBudget } from './reader-budget.ts';

/**
 * Reads durable events of the session from the log: from `fromSeq` on, ascending without holes, at most `limit` events.
 * Resolves to an empty list when the log has no such event. A rejection fails the iteration with its error. Only one
 * call is made at a time.
 */
export type Replay = (fromSeq: number, limit: number) => Promise<readonly SessionEvent[]>;

/** The dependencies of an `EventQueue`. The functions are called on the reader's thread, while it reads. */
export interface EventQueueOptions {
  /**
   * The session to read. If `session` and `replay` are missing, the queue has the events of many sessions, live only,
   * in order of publication.
   */
  readonly session?: string;
  /** The reader gets the durable events after this seq. Missing: it begins with the first event published live. */
  readonly after?: number;
  readonly replay?: Replay;
  /** Ends the iteration after the first event for which this returns true. A throw fails the iteration. */
  readonly until?: (event: SessionEvent) => boolean;
  /** The event as this reader sees it, or undefined to leave it out. A throw fails the iteration. */
  readonly view?: (event: SessionEvent) => SessionEvent | undefined;
  /** False for a session whose live events are ignored and take no room in the buffer. Default: always true. */
  readonly isMeant?: (session: string) => boolean;
  /** False if text and thinking deltas are not wanted. */
  readonly deltas?: boolean;
  /** True if a `StreamNote` comes before the first delta that the reader should get (E6). */
  readonly joins?: boolean;
  /** Ends the iteration at once, without an error. */
  readonly signal?: AbortSignal;
  /** Called once, when the iteration ends; not when `signal` was aborted before it began. Must not throw. */
  readonly onClose?: () => void;
  readonly bounds?: BufferBounds;
  /** The budget that counts this queue. Default: the budget of the process. */
  readonly budget?: ReaderBudget;
  /** Epoch ms, for the gaps that the queue announces. */
  readonly now: () => number;
}

type Read = IteratorResult<SessionEvent, undefined>;

/** A read that waits until an event is available. */
interface WaitingRead {
  readonly resolve: (read: Read) => void;
  readonly reject: (error: unknown) => void;
}

const OVER: Read = Object.freeze({ done: true, value: undefined });
/** A resolved promise: its reactions run after the current synchronous code. */
const SOON: Promise<void> = Promise.resolve();

/** Stands for the seq of the durable event before an ephemeral event, if no durable event was known yet. */
const UNKNOWN = -1;

/** See the head of the file. A queue lies between one producer and one reader. */
export class EventQueue implements AsyncIterableIterator<SessionEvent>, BudgetedReader {
  readonly #options: EventQueueOptions;
  readonly #budget: ReaderBudget;
  readonly #buffer: EventBuffer;
  /** The seq of the next durable event that the reader gets; undefined until the first durable event is known. */
  #next: number | undefined;
  /** The seq of the newest durable event that was published live. */
  #highest: number | undefined;
  /** The number of durable events in the buffer. The seq of the oldest of them is `#highest - #durables + 1`. */
  #durables = 0;
  #isJoining: boolean;
  /** The seq of a durable event. Positions of ephemeral events are exact after it, and estimates before it. */
  #exactFrom: number | undefined;
  #isReplaying: boolean;
  #isFetching = false;
  #page: readonly SessionEvent[] = [];
  #pageAt = 0;
  #pageCharacters = 0;
  /** The size last reported to the budget. */
  #held = 0;
  /**
   * Losses that no `gap` has announced yet, by session. A reader of one session has at most one entry, a reader of all
   * sessions at most `LOST_SESSIONS_MAX`.
   */
  readonly #lost: Map<string, { readonly from: number; readonly to: number }> = new Map();
  /** Set when the producer has ended the iteration. The reader still gets the available events. */
  #ending: { readonly error?: unknown } | undefined;
  #isOver = false;
  /** The reads that wait, oldest first. They are served one after the other, however many are requested at once. */
  readonly #reads: WaitingRead[] = [];
  /** True while the serving of the waiting reads is scheduled. */
  #isRoused = false;

  constructor(options: EventQueueOptions) {
    this.#options = options;
    this.#budget = options.budget ?? READERS;
    this.#buffer = new EventBuffer(options.bounds);
    this.#isJoining = options.joins === true;
    this.#isReplaying = options.replay !== undefined && options.after !== undefined;
    this.#next = this.#isReplaying && options.after !== undefined ? options.after + 1 : undefined;
    if (options.signal?.aborted === true) this.#isOver = true;
    else options.signal?.addEventListener('abort', this.#onAbort, { once: true });
  }

  /** True when the iteration has ended. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** The number of waiting events, including the rest of a page of the log. */
  get waiting(): number {
    return this.#buffer.size + this.#page.length - this.#pageAt;
  }

  /** Approximate UTF-16 units waiting, including the whole page of the log. */
  get held(): number {
    return this.#buffer.characters + this.#pageCharacters;
  }

  /** Drops all waiting events (E4). */
  giveUp(): void {
    this.#dropPage();
    for (const lost of this.#buffer.clear()) this.#lose(lost);
    this.#account();
    this.#rouse();
  }

  /**
   * Receives a live event; events of one session come in order. Ignores a durable event received before. Never throws.
   */
  push(event: SessionEvent): void {
    if (this.#isOver || this.#ending !== undefined) return;
    this.#receive(event);
    this.#account();
    this.#rouse();
  }

  /** Receives many live events, in order, as `push` does. */
  pushAll(events: readonly SessionEvent[]): void {
    for (let index = 0; index < events.length && !this.#isOver && this.#ending === undefined; index += 1) {
      const event = events[index];
      if (event !== undefined) this.#receive(event);
    }
    this.#account();
    this.#rouse();
  }

  /** Receives the text that a model call has streamed so far (E6). Never throws. */
  join({ session, at, after, turn, pieces }: StreamNote): void {
    if (!this.#isJoining || this.#isOver || this.#ending !== undefined) return;
    this.#isJoining = false;
    if (this.#options.deltas === false) return;
    this.#exactFrom = Math.min(this.#exactFrom ?? after, after);
    const place = Math.max(this.#highest ?? 0, after);
    for (const { type, text } of pieces) {
      this.#put({ session, at, type: type === 'text' ? 'text.delta' : 'thinking.delta', text, turn }, place);
    }
    this.#account();
    this.#rouse();
  }

  #receive(event: SessionEvent): void {
    if (this.#options.isMeant?.(event.session) === false) return;
    const isDelta = event.type === 'text.delta' || event.type === 'thinking.delta';
    if (isDelta && (this.#isJoining || this.#options.deltas === false)) return;
    if (this.#options.replay === undefined || event.seq === undefined) {
      this.#put(event, this.#horizon());
    } else if (event.seq >= (this.#next ?? 1) && event.seq > (this.#highest ?? 0)) {
      this.#next ??= event.seq;
      this.#highest = event.seq;
      this.#exactFrom ??= event.seq;
      this.#put(event, event.seq);
    }
  }

  /** Ends the iteration after the available events. */
  close(): void {
    this.#ending ??= {};
    this.#leaveBudget();
    this.#rouse();
  }

  /** Fails the iteration with this error, after the available events. */
  fail(error: unknown): void {
    this.#ending ??= { error };
    this.#leaveBudget();
    this.#rouse();
  }

  /**
   * Leaves the budget: no more events are added, and the budget must not keep a queue that is never read to its end.
   */
  #leaveBudget(): void {
    this.#budget.changed(this, this.#held, 0);
    this.#held = 0;
  }

  /** The next event. Rejects once, when the iteration fails; every later call resolves as done. */
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

  /**
   * The result of a read that need not wait; undefined if the read must wait. If the iteration fails, ends the
   * iteration and throws its error.
   */
  #readNow(): Read | undefined {
    try {
      const seen = this.#atHandSeen();
      if (seen !== undefined) return { done: false, value: seen };
      if (this.#isOver) return OVER;
      if (this.#ending === undefined) return undefined;
      if ('error' in this.#ending) throw this.#ending.error;
      this.#finish();
      return OVER;
    } catch (error) {
      this.#finish();
      throw error;
    } finally {
      this.#account();
    }
  }

  /** Gives the available events to the waiting reads, oldest read first. */
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

  /** The next available event that this reader may see; undefined if there is none. */
  #atHandSeen(): SessionEvent | undefined {
    while (!this.#isOver) {
      const event = this.#atHand();
      if (event === undefined) return undefined;
      const seen = this.#see(event);
      if (seen !== undefined) return seen;
    }
    return undefined;
  }

  /** Ends the iteration, as `break` does. A waiting read resolves as done. */
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

  /** The reader's view of an event; ends the iteration if this event is the last. */
  #see(event: SessionEvent): SessionEvent | undefined {
    const isLast = this.#options.until?.(event) === true;
    const seen = this.#options.view === undefined ? event : this.#options.view(event);
    if (isLast) this.#finish();
    return seen;
  }

  /** The next event that is available without waiting. Requests a page of the log when the reader needs a page. */
  #atHand(): SessionEvent | undefined {
    const gap = this.#announcement();
    if (gap !== undefined) return gap;
    if (this.#options.replay === undefined) return this.#buffer.take();
    this.#trim();
    const between = this.#betweenReplayed();
    if (between !== undefined) return between;
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

  /** A gap not yet announced. */
  #announcement(): SessionEvent | undefined {
    for (const [session, { from, to }] of this.#lost) {
      this.#lost.delete(session);
      return { type: 'gap', session, at: this.#options.now(), from, to };
    }
    return undefined;
  }

  /** Takes the next live event if it is ephemeral and is known to come before the next event of the page (E3). */
  #betweenReplayed(): SessionEvent | undefined {
    if (this.#pageAt >= this.#page.length || this.#exactFrom === undefined || this.#next === undefined)
      return undefined;
    const after = this.#buffer.peekAfter();
    if (after === undefined || after < this.#exactFrom || after !== this.#next - 1) return undefined;
    return this.#buffer.peek()?.seq === undefined ? this.#drop() : undefined;
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

  /**
   * Leaves out events that the log does not have: a gap announces them, and the reader continues after the gap (E1).
   */
  #skip(from: number, to: number): void {
    this.#next = to + 1;
    this.#noteLost(this.#options.session ?? '', from, to);
  }

  /**
   * Drops events from the buffer's front that were already read from the log, and ephemeral events that are older than
   * the last event read (E3).
   */
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

  /**
   * The seq of the oldest durable event in the buffer, or of the next durable event that will be published. Undefined
   * when no durable event was published live.
   */
  #oldestLive(): number | undefined {
    return this.#highest === undefined ? undefined : this.#highest - this.#durables + 1;
  }

  /** Takes the next event. The caller has made sure that there is no hole before it. */
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

  /**
   * Takes a page of the log. `known`: the seq of the newest durable event that had been published when the page was
   * requested. The log had this event already at that time, if it has the event at all.
   */
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
      // Events that were published and dropped while the page was in flight are in the log by now. The next read finds
      // the hole and reads them.
      this.#isReplaying = false;
    }
    // If a read waits, it takes its event before the page is reported to the budget. Otherwise the budget could drop
    // the page at once, and the page would be requested again and again.
    if (this.#reads.length === 0) this.#account();
    this.#rouse();
  }

  /** The seq of the last durable event before an ephemeral event that arrives now, as far as the queue knows. */
  #horizon(): number {
    if (this.#options.replay === undefined || this.#next === undefined) return UNKNOWN;
    return Math.max(this.#highest ?? 0, this.#next - 1, this.#exactFrom ?? 0);
  }

  #put(event: SessionEvent, after: number): void {
    if (event.seq !== undefined && this.#options.replay !== undefined) this.#durables += 1;
    const thrownOut = this.#buffer.put(event, after);
    // Tested first, because a loop over an empty list would create an iterator for each event of each reader.
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

  /** Serves waiting reads in a microtask, so that they do not delay the publisher and find all events of one note. */
  #rouse(): void {
    if (this.#isRoused || this.#reads.length === 0) return;
    this.#isRoused = true;
    void SOON.then(this.#serve);
  }

  /** Reports the held size to the budget if it changed. */
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
