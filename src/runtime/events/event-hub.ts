import { defined } from '../../base/defined.ts';
import { isOfTenant } from '../../base/ids.ts';
import type { PublishedEvent, SessionEvent } from '../../events/event.ts';
import type { EventTap, TapReader } from '../../events/reading/event-tap.ts';
import { FanOut, type SubscribeAllOptions } from '../../events/reading/fan-out.ts';
import type { ShardLink } from '../host/shard-link.ts';
import { CursoredEvents } from './cursored-events.ts';
import { EventPages } from './event-pages.ts';

/** The event as its reader sees it; undefined: it is left out. */
export type View = (event: SessionEvent) => SessionEvent | undefined;

/** A reading of one session, made from checked `EventOptions`. */
export interface SessionReading {
  readonly after: number;
  readonly deltas: boolean;
  readonly until?: (event: SessionEvent) => boolean;
  readonly view?: View;
  readonly signal?: AbortSignal;
}

/** A reading of all sessions, made from checked `AllEventOptions`. */
export interface AllReading {
  readonly after?: ReadonlyMap<string, number>;
  readonly view?: View;
  readonly signal?: AbortSignal;
  /** Only events of this tenant's sessions. */
  readonly tenant?: string;
}

/** Routes events from shards to subscribers on the host thread. */
export class EventHub {
  readonly #fanOut: FanOut;
  readonly #linkOf: (session: string) => ShardLink;
  readonly #now: () => number;
  readonly #pages: EventPages;
  readonly #placedReaders = new Set<CursoredEvents>();

  constructor(parts: {
    readonly linkOf: (session: string) => ShardLink;
    readonly links: () => readonly ShardLink[];
    readonly now: () => number;
  }) {
    this.#linkOf = parts.linkOf;
    this.#now = parts.now;
    this.#pages = new EventPages(parts.linkOf);
    this.#fanOut = new FanOut({
      now: parts.now,
      onInterest: (session, isWanted) => {
        const links = session === undefined ? parts.links() : [parts.linkOf(session)];
        for (const link of links) {
          // This request is sent before the first page of the log is requested, over the same connection, so events
          // between the two arrive live.
          link.watch(session, isWanted).catch((error: unknown) => {
            if (isWanted) this.#failed(session, error);
          });
        }
      },
      onFurther: (session) => {
        parts
          .linkOf(session)
          .watch(session, true)
          .catch((error: unknown) => this.#failed(session, error));
      },
    });
  }

  /** Takes the events of a shard. */
  dispatch(events: readonly PublishedEvent[]): void {
    this.#fanOut.publish(events);
  }

  /**
   * A reader of one session: replays the log, then continues live. It skips and repeats no durable event that the log
   * has. Throws `LimitError` for too many readers.
   */
  session(session: string, reading: SessionReading): AsyncIterableIterator<SessionEvent> {
    // This call throws when the runtime is closed.
    this.#linkOf(session);
    return this.#fanOut.subscribe(session, {
      ...reading,
      joins: true,
      replay: (fromSeq, limit) => this.#pages.page(session, fromSeq - 1, limit),
    });
  }

  /**
   * A reader of the live events of all sessions. For a session with a cursor, the reader reads the log first. Throws
   * `LimitError` for too many readers.
   */
  all({ after, tenant, ...given }: AllReading): AsyncIterableIterator<SessionEvent> {
    const isMeant = tenant === undefined ? undefined : (session: string): boolean => isOfTenant(tenant, session);
    const reading = { ...given, ...defined({ isMeant }) };
    if (after === undefined || after.size === 0) return this.#fanOut.subscribeAll(reading);
    return this.#placed(after, reading);
  }

  /** A live reader of all sessions that receives whole lists of events. Throws `LimitError` for too many readers. */
  tap(reader: TapReader): EventTap {
    return this.#fanOut.tap(reader);
  }

  #placed(
    after: ReadonlyMap<string, number>,
    { view = (event) => event, signal, isMeant }: Pick<SubscribeAllOptions, 'view' | 'signal' | 'isMeant'>,
  ): CursoredEvents {
    const live = this.#fanOut.subscribeAll({
      ...defined({ signal, isMeant }),
      onClose: () => void this.#placedReaders.delete(reader),
    });
    const replay = (session: string, from: number, limit: number): Promise<readonly SessionEvent[]> =>
      this.#pages.page(session, from, limit);
    const reader: CursoredEvents = new CursoredEvents({ after, live, replay, view, now: this.#now });
    if (!live.isOver) this.#placedReaders.add(reader);
    return reader;
  }

  /** Called when the session is deleted: its readers end after the events in memory. */
  end(session: string): void {
    this.#pages.forget();
    for (const reader of this.#placedReaders) reader.forget(session);
    this.#fanOut.end(session);
  }

  /**
   * Publishes the newest event of a session again, to readers of that session only. Readers that missed events notice
   * the gap.
   */
  remind(event: SessionEvent): void {
    this.#fanOut.publishToSession(event);
  }

  /** Called when the shards of these sessions serve again. Some of their durable events may not have been published. */
  resumed(isMeant: (session: string) => boolean): void {
    this.#pages.forget();
    for (const reader of this.#placedReaders) reader.refill(isMeant);
  }

  /**
   * Called when the shards of the sessions for which `isLost` is true will publish nothing more: the readers of these
   * sessions fail.
   */
  fail(isLost: (session: string) => boolean, error: Error): void {
    for (const session of this.#fanOut.sessions()) if (isLost(session)) this.#fanOut.end(session, error);
    for (const reader of this.#placedReaders) if ([...reader.sessions()].some(isLost)) reader.fail(error);
  }

  /** Called when the runtime closes: every reader ends after the events in memory. */
  close(): void {
    this.#pages.forget();
    this.#fanOut.close();
  }

  #failed(session: string | undefined, error: unknown): void {
    if (session === undefined) this.#fanOut.close(error);
    else this.#fanOut.end(session, error);
  }
}
