/**
 * Who reads events on the host thread, and what the shards must tell for it.
 *
 * Owns: the open readers by session. Does not own: their place in the order (`EventQueue`), the log (the shard).
 *  B1 a session is watched on its shard exactly while a reader of it is open.
 */
import type { SessionEvent } from '../events/event.ts';
import { EventQueue } from '../events/subscriber.ts';
import type { Receipt } from './receipt.ts';
import type { ShardLink } from './shard-link.ts';

/** How to read a session's events. */
export interface EventOptions {
  /**
   * Durable events after this number are replayed first. Default: from the receipt on when `until` is one, else from the
   * first event of the session.
   */
  readonly after?: number;
  /** Ends the iteration: behind the end of the turn that consumed a receipt, behind a number, or where a predicate is true. */
  readonly until?: Receipt | number | ((event: SessionEvent) => boolean);
  /** False: no text and thinking deltas. */
  readonly deltas?: boolean;
  readonly signal?: AbortSignal;
}

/** How to read the events of all sessions: live only. */
export interface AllEventOptions {
  readonly filter?: (event: SessionEvent) => boolean;
  readonly signal?: AbortSignal;
}

/** See the head of the file. */
export class EventHub {
  readonly #bySession = new Map<string, Set<EventQueue>>();
  readonly #all = new Set<EventQueue>();
  readonly #linkOf: (session: string) => ShardLink;
  readonly #links: () => readonly ShardLink[];
  readonly #now: () => number;

  constructor(parts: {
    readonly linkOf: (session: string) => ShardLink;
    readonly links: () => readonly ShardLink[];
    readonly now: () => number;
  }) {
    this.#linkOf = parts.linkOf;
    this.#links = parts.links;
    this.#now = parts.now;
  }

  /** Takes what a shard tells. */
  dispatch(events: readonly SessionEvent[]): void {
    for (const event of events) {
      const readers = this.#bySession.get(event.session);
      if (readers !== undefined) for (const reader of readers) reader.push(event);
      for (const reader of this.#all) reader.push(event);
    }
  }

  /** A reader of one session: replays, then goes live, without gap or duplicate. */
  session(session: string, options: EventOptions): AsyncIterableIterator<SessionEvent> {
    const link = this.#linkOf(session);
    const deltas = options.deltas ?? true;
    const queue: EventQueue = new EventQueue({
      session,
      after: options.after ?? defaultAfter(options.until),
      deltas,
      now: this.#now,
      replay: async (fromSeq) =>
        (await link.call('session.events', { session, after: fromSeq - 1 }, true)).events,
      onClose: () => {
        this.#remove(session, queue);
        void link.watch(session, false, deltas).catch(() => undefined);
      },
      ...(options.until === undefined ? {} : { until: untilOf(options.until) }),
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    });
    if (queue.isOver) return queue;
    const readers = this.#bySession.get(session) ?? new Set();
    readers.add(queue);
    this.#bySession.set(session, readers);
    // Sent before the first page of the log is asked for, over the same line: what happens between comes live.
    link.watch(session, true, deltas).catch((error: unknown) => queue.fail(error));
    return queue;
  }

  /** A reader of all sessions, live. */
  all(options: AllEventOptions): AsyncIterableIterator<SessionEvent> {
    const { filter } = options;
    const queue: EventQueue = new EventQueue({
      now: this.#now,
      onClose: () => {
        this.#all.delete(queue);
        for (const link of this.#links()) void link.watchAll(false).catch(() => undefined);
      },
      ...(filter === undefined ? {} : { view: (event: SessionEvent) => (filter(event) ? event : undefined) }),
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    });
    if (queue.isOver) return queue;
    this.#all.add(queue);
    for (const link of this.#links()) link.watchAll(true).catch((error: unknown) => queue.fail(error));
    return queue;
  }

  /** The runtime closes: every reader ends behind what it has. */
  close(): void {
    for (const readers of this.#bySession.values()) for (const reader of readers) reader.close();
    for (const reader of this.#all) reader.close();
  }

  #remove(session: string, queue: EventQueue): void {
    const readers = this.#bySession.get(session);
    readers?.delete(queue);
    if (readers?.size === 0) this.#bySession.delete(session);
  }
}

function defaultAfter(until: EventOptions['until']): number {
  return typeof until === 'object' ? until.seq - 1 : 0;
}

function untilOf(until: NonNullable<EventOptions['until']>): (event: SessionEvent) => boolean {
  if (typeof until === 'function') return until;
  if (typeof until === 'number') return (event) => event.seq !== undefined && event.seq >= until;
  const { pendingId } = until;
  let isPromoted = false;
  return (event) => {
    if (event.type === 'pending.removed' && event.pendingId === pendingId) {
      isPromoted = event.reason === 'promoted';
      return !isPromoted;
    }
    return isPromoted && (event.type === 'turn.finished' || event.type === 'turn.failed');
  };
}
