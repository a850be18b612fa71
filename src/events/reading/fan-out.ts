/**
 * `FanOut`: the registry of subscribers on the host thread.
 *
 * Owns: the subscribers, by session. Does not own: events, the log. Belongs to the host thread.
 *
 * N1 An event reaches every subscriber of its session and every subscriber of all sessions, in the order of
 *    publication.
 * N2 No subscriber delays or breaks the publisher or another subscriber: publishing only queues the event, also for a
 *   tap.
 * N3 A shard need not send the events of a session without readers. `onInterest` reports the first reader of a session,
 *    and that the last reader has left. `onFurther` reports each further reader.
 * N4 A `StreamNote` reaches only the readers of its session. A reader of all sessions gets only live deltas.
 */
import { SUBSCRIBERS_MAX } from '../../base/bounds.ts';
import { LimitError } from '../../base/errors.ts';
import type { PublishedEvent, SessionEvent } from '../event.ts';
import { EventQueue, type EventQueueOptions } from './event-queue.ts';
import { EventTap, type TapReader } from './event-tap.ts';

/** Ports of a fan-out. */
export interface FanOutOptions {
  /** Returns epoch ms. */
  readonly now: () => number;
  /**
   * Called when the live events of a session, or of all sessions (`undefined`), are wanted from now on, or are no
   * longer wanted. The call comes before the subscriber can read from the log. Must not throw.
   */
  readonly onInterest?: (session: string | undefined, isWanted: boolean) => void;
  /**
   * Called when a session that has readers gets a further reader; for the first reader `onInterest` is called. Must not
   * throw.
   */
  readonly onFurther?: (session: string) => void;
  readonly subscribersMax?: number;
}

/** The options of reading one session: those of `EventQueue`, such as `after`, `replay`, `until` and `signal`. */
export type SubscribeOptions = Omit<EventQueueOptions, 'session' | 'onClose' | 'now'> &
  Required<Pick<EventQueueOptions, 'replay'>>;
/**
 * The options of reading all sessions. Such a reader gets live events only. If the reader is too slow, it receives
 * `gap` events, and the lost events are not read again.
 */
export type SubscribeAllOptions = Omit<EventQueueOptions, 'session' | 'now' | 'after' | 'replay'>;

/** The host's registry of subscribers. */
export class FanOut {
  readonly #options: FanOutOptions;
  readonly #bySession: Map<string, Set<EventQueue>> = new Map();
  readonly #ofAll: Set<EventQueue | EventTap> = new Set();
  #size = 0;

  constructor(options: FanOutOptions) {
    this.#options = options;
  }

  /** The number of subscribers. */
  get size(): number {
    return this.#size;
  }

  /**
   * Reads one session. The iteration unsubscribes when it ends. Throws `LimitError` beyond the bound on subscribers.
   */
  subscribe(session: string, options: SubscribeOptions): EventQueue {
    const queues: Set<EventQueue> = this.#bySession.get(session) ?? new Set();
    const queue = this.#queue(session, queues, { ...options, session });
    if (!queue.isOver) {
      this.#bySession.set(session, queues);
      this.#add(session, queues, queue);
      if (queues.size > 1) this.#options.onFurther?.(session);
    }
    return queue;
  }

  /**
   * Reads the live events of all sessions. The iteration unsubscribes when it ends. Throws `LimitError` beyond the
   * bound on subscribers.
   */
  subscribeAll(options: SubscribeAllOptions = {}): EventQueue {
    const queue = this.#queue(undefined, this.#ofAll, options);
    if (!queue.isOver) this.#add(undefined, this.#ofAll, queue);
    return queue;
  }

  /**
   * Reads the live events of all sessions by calls: see `EventTap`. Throws `LimitError` beyond the bound on
   * subscribers.
   */
  tap(reader: TapReader): EventTap {
    this.#checkRoom();
    const tap: EventTap = new EventTap(reader, { onClose: () => this.#remove(undefined, this.#ofAll, tap) });
    this.#add(undefined, this.#ofAll, tap);
    return tap;
  }

  /** True when this session's events have a reader. */
  isRead(session: string): boolean {
    return this.#ofAll.size > 0 || this.#bySession.has(session);
  }

  /** Publishes events, in order. Never throws. */
  publish(events: readonly PublishedEvent[]): void {
    if (this.#bySession.size > 0) for (const event of events) this.publishToSession(event);
    if (this.#ofAll.size === 0) return;
    const live = withoutNotes(events);
    for (const reader of this.#ofAll) reader.pushAll(live);
  }

  /** Publishes an event to the readers of its session only. Never throws. */
  publishToSession(event: PublishedEvent): void {
    for (const queue of this.#bySession.get(event.session) ?? []) {
      if (event.type === 'streamed') queue.join(event);
      else queue.push(event);
    }
  }

  /** Sessions that have readers; a fresh array. */
  sessions(): readonly string[] {
    return [...this.#bySession.keys()];
  }

  /**
   * Ends the reading of one session after its buffered events. Without an error the session was deleted, and taps are
   * notified. With an error the session can no longer be read.
   */
  end(session: string, error?: unknown): void {
    const queues = this.#bySession.get(session);
    if (queues !== undefined) this.#endAll(session, queues, error);
    if (error !== undefined) return;
    for (const reader of this.#ofAll) if (reader instanceof EventTap) reader.end(session);
  }

  /** Ends all reading after the buffered events. */
  close(error?: unknown): void {
    for (const [session, queues] of [...this.#bySession]) this.#endAll(session, queues, error);
    this.#endAll(undefined, this.#ofAll, error);
  }

  /**
   * Ends the readers and removes them at once, because a reader that is never read to its end must not be held here.
   */
  #endAll<R extends EventQueue | EventTap>(session: string | undefined, readers: Set<R>, error: unknown): void {
    for (const reader of [...readers]) {
      if (error === undefined) reader.close();
      else reader.fail(error);
      this.#remove(session, readers, reader);
    }
  }

  #checkRoom(): void {
    const most = this.#options.subscribersMax ?? SUBSCRIBERS_MAX;
    if (this.#size < most) return;
    throw new LimitError(`at most ${most} subscribers`, { retryable: true, data: { limit: 'subscribers' } });
  }

  #queue(
    session: string | undefined,
    readers: Set<EventQueue> | Set<EventQueue | EventTap>,
    options: Omit<EventQueueOptions, 'now'>,
  ): EventQueue {
    this.#checkRoom();
    const onClose = (): void => {
      this.#remove(session, readers, queue);
      options.onClose?.();
    };
    const queue = new EventQueue({ ...options, onClose, now: this.#options.now });
    return queue;
  }

  #add<R>(session: string | undefined, readers: Set<R>, reader: R): void {
    const isFirst = readers.size === 0;
    readers.add(reader);
    this.#size += 1;
    if (isFirst) this.#options.onInterest?.(session, true);
  }

  #remove<R>(session: string | undefined, readers: Set<R>, reader: R): void {
    if (!readers.delete(reader)) return;
    this.#size -= 1;
    if (readers.size > 0) return;
    if (session !== undefined) this.#bySession.delete(session);
    this.#options.onInterest?.(session, false);
  }
}

/**
 * The events without notes, for readers of all sessions. Usually there are no notes, and the list itself is returned.
 */
function withoutNotes(events: readonly PublishedEvent[]): readonly SessionEvent[] {
  return events.every(isEvent) ? events : events.filter(isEvent);
}

function isEvent(event: PublishedEvent): event is SessionEvent {
  return event.type !== 'streamed';
}
