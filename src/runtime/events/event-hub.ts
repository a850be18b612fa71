/**
 * Between the readers of events on the host thread and the shards that tell them.
 *
 * Owns: the wiring, the pages of the logs under way, and who reads all sessions from places of his own. The other readers are the
 * fan-out's, the log is the shard's.
 *  B1 a session is watched on its shard exactly while a reader of it is open.
 */
import { z } from 'zod';
import { EVENT_PLACES_MAX } from '../../base/bounds.ts';
import { ConfigError, LimitError } from '../../base/errors.ts';
import { checkSessionId } from '../../base/ids.ts';
import { parseOption } from '../../base/settings.ts';
import type { SessionEvent } from '../../events/event.ts';
import type { EventTap, TapReader } from '../../events/reading/event-tap.ts';
import { FanOut } from '../../events/reading/fan-out.ts';
import type { ViewMode } from '../../events/rendered.ts';
import { checkViewMode } from '../../events/view-modes.ts';
import { viewEvent } from '../../events/viewed-event.ts';
import { Receipt } from '../handles/receipt.ts';
import type { ShardLink } from '../host/shard-link.ts';
import { CursoredEvents } from './cursored-events.ts';
import { EventPages } from './event-pages.ts';

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
  /**
   * How much to see. `basic` and `verbose` carry ids, counts and reasons, and content only as `rendered`, where the mode shows it: see
   * `ViewedEvent`. Live reasoning and progress are left out of `basic`. `debug` carries all, with `rendered` beside messages and mailbox
   * entries. Default: every event, whole, without `rendered`.
   */
  readonly mode?: ViewMode;
  readonly signal?: AbortSignal;
}

/** How to read the events of all sessions. */
export interface AllEventOptions {
  /**
   * By session: durable events after this number are replayed first, as numbers are counted by session; 0: all of it. Of these
   * sessions nothing is missed and nothing comes twice, also where this reader is slow; of all others it sees what happens live.
   */
  readonly after?: Readonly<Record<string, number>>;
  readonly filter?: (event: SessionEvent) => boolean;
  /** As for one session. */
  readonly mode?: ViewMode;
  readonly signal?: AbortSignal;
}

type Until = NonNullable<EventOptions['until']>;
type View = (event: SessionEvent) => SessionEvent | undefined;

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

  /**
   * A reader of one session: replays, then goes live, without gap or duplicate. Throws `LimitError` for too many readers,
   * `ConfigError` for a mode that is none.
   */
  session(session: string, given: EventOptions): AsyncIterableIterator<SessionEvent> {
    const options = checkEventOptions(session, given);
    // Throws where the runtime is closed.
    this.#linkOf(session);
    return this.#fanOut.subscribe(session, {
      after: options.after ?? defaultAfter(options.until),
      deltas: options.deltas ?? true,
      replay: (fromSeq, limit) => this.#pages.page(session, fromSeq - 1, limit),
      ...(options.until === undefined ? {} : { until: untilOf(options.until) }),
      ...(options.mode === undefined ? {} : { view: viewOf(options.mode) }),
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    });
  }

  /**
   * A reader of all sessions, live, but for those it names a place in. Throws `LimitError` for too many readers or places,
   * `ConfigError` for a mode or places that are none, `InvalidNameError` for the name of a place.
   */
  all(options: AllEventOptions): AsyncIterableIterator<SessionEvent> {
    const { filter, mode, signal, after: places } = parseOption(allEventsSchema, 'events', options);
    const show: View = mode === undefined ? (event) => event : viewOf(mode);
    const view: View = filter === undefined ? show : (event) => (filter(event) ? show(event) : undefined);
    const after = places === undefined ? undefined : checkPlaces(places);
    if (after !== undefined && after.size > 0) return this.#placed(after, view, signal);
    return this.#fanOut.subscribeAll({
      ...(filter === undefined && mode === undefined ? {} : { view }),
      ...(signal === undefined ? {} : { signal }),
    });
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

const signalSchema = z.instanceof(AbortSignal).optional();
const functionSchema = z.custom<(event: SessionEvent) => boolean>((value) => typeof value === 'function', {
  message: 'expected a function',
});
const eventsSchema = z.strictObject({
  after: z.number().int().min(0).optional(),
  until: z.union([z.instanceof(Receipt), z.number().int().min(0), functionSchema]).optional(),
  deltas: z.boolean().optional(),
  // Checked by its own rule, which names the modes.
  mode: z.custom<ViewMode>().optional(),
  signal: signalSchema,
});
const allEventsSchema = z.strictObject({
  after: z.unknown().optional(),
  filter: functionSchema.optional(),
  mode: z.custom<ViewMode>().optional(),
  signal: signalSchema,
});

/** A receipt of another session would never be met. */
function checkEventOptions(session: string, given: EventOptions): z.infer<typeof eventsSchema> {
  const options = parseOption(eventsSchema, 'events', given);
  const { until } = options;
  if (until instanceof Receipt && until.session !== session) {
    throw new ConfigError(
      `option "events.until": expected a receipt of ${JSON.stringify(session)}; got one of ${JSON.stringify(until.session)}`,
      { data: { key: 'events.until' } },
    );
  }
  return options;
}

const placesSchema = z.record(z.string(), z.number().int().min(0));

function checkPlaces(given: unknown): ReadonlyMap<string, number> {
  const places = Object.entries(parseOption(placesSchema, 'after', given));
  if (places.length > EVENT_PLACES_MAX) {
    throw new LimitError(`events of at most ${EVENT_PLACES_MAX} sessions can be replayed to one reader`, {
      data: { limit: 'eventPlaces', value: places.length },
    });
  }
  return new Map(places.map(([session, after]) => [checkSessionId(session), after]));
}

function viewOf(mode: ViewMode): View {
  const checked = checkViewMode(mode);
  // The queues hand on what a view gives and look at nothing in it; the signatures of `events` say what a reader gets.
  return (event) => viewEvent(event, checked) as SessionEvent | undefined;
}

function defaultAfter(until: Until | undefined): number {
  return typeof until === 'object' ? Math.max(0, until.seq - 1) : 0;
}

function untilOf(until: Until): (event: SessionEvent) => boolean {
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
