import type { SessionEvent } from '../../events/event.ts';
import type { EventTap, TapReader } from '../../events/reading/event-tap.ts';
import { FanOut } from '../../events/reading/fan-out.ts';
import type { ShardLink } from '../host/shard-link.ts';
import { CursoredEvents } from './cursored-events.ts';
import { EventPages } from './event-pages.ts';

/** What a reader is shown of an event; undefined: it is left out. */
export type View = (event: SessionEvent) => SessionEvent | undefined;

/** A reading of one session, checked: as `EventOptions`, each told as what is done with it. */
export interface SessionReading {
  readonly after: number;
  readonly deltas: boolean;
  readonly until?: (event: SessionEvent) => boolean;
  readonly view?: View;
  readonly signal?: AbortSignal;
}

/** A reading of all sessions, checked. */
export interface AllReading {
  readonly after?: ReadonlyMap<string, number>;
  readonly view?: View;
  readonly signal?: AbortSignal;
}

/** See the head of the file. */
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
          // Sent before the first page of the log is asked for, over the same line: what happens between comes live.
          link.watch(session, isWanted).catch((error: unknown) => {
            if (isWanted) this.#failed(session, error);
          });
        }
      },
    });
  }

  /** Takes what a shard tells. */
  dispatch(events: readonly SessionEvent[]): void {
    this.#fanOut.publish(events);
  }

  /** A reader of one session: replays, then goes live, without gap or duplicate. Throws `LimitError` for too many readers. */
  session(session: string, reading: SessionReading): AsyncIterableIterator<SessionEvent> {
    // Throws where the runtime is closed.
    this.#linkOf(session);
    return this.#fanOut.subscribe(session, {
      ...reading,
      replay: (fromSeq, limit) => this.#pages.page(session, fromSeq - 1, limit),
    });
  }

  /** A reader of all sessions, live, but for those it names a place in. Throws `LimitError` for too many readers. */
  all({ after, ...reading }: AllReading): AsyncIterableIterator<SessionEvent> {
    if (after === undefined || after.size === 0) return this.#fanOut.subscribeAll(reading);
    return this.#placed(after, reading.view ?? ((event) => event), reading.signal);
  }

  /** A reader of all sessions, live, that is handed lists as they come. Throws `LimitError` for too many readers. */
  tap(reader: TapReader): EventTap {
    return this.#fanOut.tap(reader);
  }

  #placed(after: ReadonlyMap<string, number>, view: View, signal: AbortSignal | undefined): CursoredEvents {
    const live = this.#fanOut.subscribeAll({
      ...(signal === undefined ? {} : { signal }),
      onClose: () => void this.#placedReaders.delete(reader),
    });
    const replay = (session: string, from: number, limit: number): Promise<readonly SessionEvent[]> =>
      this.#pages.page(session, from, limit);
    const reader: CursoredEvents = new CursoredEvents({ after, live, replay, view, now: this.#now });
    if (!live.isOver) this.#placedReaders.add(reader);
    return reader;
  }

  /** The session is deleted: its readers end behind what they have. */
  end(session: string): void {
    this.#pages.forget();
    for (const reader of this.#placedReaders) reader.forget(session);
    this.#fanOut.end(session);
  }

  /** The newest event of a session, told again to its own readers: those that missed some find the hole. */
  remind(event: SessionEvent): void {
    this.#fanOut.publishToSession(event);
  }

  /** The shards of these sessions serve again after they did not: what they made durable meanwhile may not have been told. */
  resumed(isMeant: (session: string) => boolean): void {
    this.#pages.forget();
    for (const reader of this.#placedReaders) reader.refill(isMeant);
  }

  /** The shards that `isLost` names the sessions of will tell nothing any more: their readers fail. */
  fail(isLost: (session: string) => boolean, error: Error): void {
    for (const session of this.#fanOut.sessions()) if (isLost(session)) this.#fanOut.end(session, error);
    for (const reader of this.#placedReaders) if ([...reader.sessions()].some(isLost)) reader.fail(error);
  }

  /** The runtime closes: every reader ends behind what it has. */
  close(): void {
    this.#pages.forget();
    this.#fanOut.close();
  }

  #failed(session: string | undefined, error: unknown): void {
    if (session === undefined) this.#fanOut.close(error);
    else this.#fanOut.end(session, error);
  }
}
