/**
 * Who reads which session's events on the host thread.
 *
 * Owns: the subscribers, by session. Does not own: events, the log. Belongs to the host thread.
 *
 *  N1  An event reaches every subscriber of its session and every subscriber of all sessions, in the order it was told.
 *  N2  No subscriber delays or breaks another, or the one who tells: a push only queues.
 *  N3  Where nobody reads, nothing need be sent: `onInterest` says when the first reader comes and the last one goes.
 */
import { SUBSCRIBERS_MAX } from '../base/bounds.ts';
import { LimitError } from '../base/errors.ts';
import type { SessionEvent } from './event.ts';
import { EventQueue, type EventQueueOptions } from './subscriber.ts';

/** Ports of a fan-out. */
export interface FanOutOptions {
  /** Epoch ms. */
  readonly now: () => number;
  /**
   * The live events of a session, or of all (`undefined`), are wanted from now on, or no longer. Called before the
   * subscriber can ask its log for anything. Must not throw.
   */
  readonly onInterest?: (session: string | undefined, isWanted: boolean) => void;
  readonly subscribersMax?: number;
}

/** How one session is read: `after`, `replay`, `until`, `view`, `deltas`, `signal` as an `EventQueue` has them. */
export type SubscribeOptions = Omit<EventQueueOptions, 'session' | 'onClose' | 'now'> &
  Required<Pick<EventQueueOptions, 'replay'>>;
/** How all sessions are read: live only. A reader that is too slow is told of gaps, which are not filled. */
export type SubscribeAllOptions = Omit<EventQueueOptions, 'session' | 'now' | 'after' | 'replay'>;

/** The host's registry of subscribers. */
export class FanOut {
  readonly #options: FanOutOptions;
  readonly #bySession: Map<string, Set<EventQueue>> = new Map();
  readonly #ofAll: Set<EventQueue> = new Set();
  #size = 0;

  constructor(options: FanOutOptions) {
    this.#options = options;
  }

  /** Subscribers there are. */
  get size(): number {
    return this.#size;
  }

  /** Reads one session. The iteration unsubscribes when it ends. Throws `LimitError` beyond the bound on subscribers. */
  subscribe(session: string, options: SubscribeOptions): EventQueue {
    const queues = this.#bySession.get(session) ?? new Set();
    return this.#add(session, queues, { ...options, session });
  }

  /** Reads all sessions, live. The iteration unsubscribes when it ends. Throws `LimitError` beyond the bound. */
  subscribeAll(options: SubscribeAllOptions = {}): EventQueue {
    return this.#add(undefined, this.#ofAll, options);
  }

  /** True when somebody reads this session's events. */
  isRead(session: string): boolean {
    return this.#ofAll.size > 0 || this.#bySession.has(session);
  }

  /** Tells events, in their order. Never throws. */
  publish(events: readonly SessionEvent[]): void {
    if (this.#bySession.size > 0) for (const event of events) this.publishToSession(event);
    for (const queue of this.#ofAll) queue.pushAll(events);
  }

  /** Tells an event to the readers of its session only. Never throws. */
  publishToSession(event: SessionEvent): void {
    for (const queue of this.#bySession.get(event.session) ?? []) queue.push(event);
  }

  /** Sessions that are read; a fresh array. */
  sessions(): readonly string[] {
    return [...this.#bySession.keys()];
  }

  /** Ends the reading of one session behind what is at hand: it is deleted, or, with an error, can be read no longer. */
  end(session: string, error?: unknown): void {
    const queues = this.#bySession.get(session);
    if (queues !== undefined) this.#endAll(session, queues, error);
  }

  /** Ends all reading behind what is at hand. */
  close(error?: unknown): void {
    for (const session of [...this.#bySession.keys()]) this.end(session, error);
    this.#endAll(undefined, this.#ofAll, error);
  }

  /** Lets go of the queues at once: one that is never read to its end must not be held here. */
  #endAll(session: string | undefined, queues: Set<EventQueue>, error: unknown): void {
    for (const queue of [...queues]) {
      if (error === undefined) queue.close();
      else queue.fail(error);
      this.#remove(session, queues, queue);
    }
  }

  #add(session: string | undefined, queues: Set<EventQueue>, options: Omit<EventQueueOptions, 'now'>): EventQueue {
    const most = this.#options.subscribersMax ?? SUBSCRIBERS_MAX;
    if (this.#size >= most) {
      throw new LimitError(`at most ${most} subscribers`, { retryable: true, data: { limit: 'subscribers' } });
    }
    const onClose = (): void => {
      this.#remove(session, queues, queue);
      options.onClose?.();
    };
    const queue: EventQueue = new EventQueue({ ...options, onClose, now: this.#options.now });
    if (queue.isOver) return queue;
    const isFirst = queues.size === 0;
    queues.add(queue);
    this.#size += 1;
    if (session !== undefined) this.#bySession.set(session, queues);
    if (isFirst) this.#options.onInterest?.(session, true);
    return queue;
  }

  #remove(session: string | undefined, queues: Set<EventQueue>, queue: EventQueue): void {
    if (!queues.delete(queue)) return;
    this.#size -= 1;
    if (queues.size > 0) return;
    if (session !== undefined) this.#bySession.delete(session);
    this.#options.onInterest?.(session, false);
  }
}
