/**
 * Between the readers of events on the host thread and the shards that tell them.
 *
 * Owns: nothing but the wiring: the readers are the fan-out's, the log is the shard's.
 *  B1 a session is watched on its shard exactly while a reader of it is open.
 */
import type { SessionEvent } from '../events/event.ts';
import { FanOut } from '../events/fan-out.ts';
import type { ViewMode } from '../events/rendered.ts';
import { checkViewMode, viewEvent } from '../events/view-modes.ts';
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
  /**
   * How much to see: an event of a message or a mailbox entry carries `rendered` where the mode shows it; live reasoning and
   * progress are left out of `basic`. Default: every event, without `rendered`.
   */
  readonly mode?: ViewMode;
  readonly signal?: AbortSignal;
}

/** How to read the events of all sessions: live only. */
export interface AllEventOptions {
  readonly filter?: (event: SessionEvent) => boolean;
  /** As for one session. */
  readonly mode?: ViewMode;
  readonly signal?: AbortSignal;
}

type View = (event: SessionEvent) => SessionEvent | undefined;

/** See the head of the file. */
export class EventHub {
  readonly #fanOut: FanOut;
  readonly #linkOf: (session: string) => ShardLink;

  constructor(parts: {
    readonly linkOf: (session: string) => ShardLink;
    readonly links: () => readonly ShardLink[];
    readonly now: () => number;
  }) {
    this.#linkOf = parts.linkOf;
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
  session(session: string, options: EventOptions): AsyncIterableIterator<SessionEvent> {
    const link = this.#linkOf(session);
    return this.#fanOut.subscribe(session, {
      after: options.after ?? defaultAfter(options.until),
      deltas: options.deltas ?? true,
      replay: async (fromSeq, limit) =>
        (await link.call('session.events', { session, after: fromSeq - 1, limit }, true)).events,
      ...(options.until === undefined ? {} : { until: untilOf(options.until) }),
      ...(options.mode === undefined ? {} : { view: viewOf(options.mode) }),
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    });
  }

  /** A reader of all sessions, live. Throws `LimitError` for too many readers, `ConfigError` for a mode that is none. */
  all(options: AllEventOptions): AsyncIterableIterator<SessionEvent> {
    const { filter, mode, signal } = options;
    const show: View = mode === undefined ? (event) => event : viewOf(mode);
    const view: View = filter === undefined ? show : (event) => (filter(event) ? show(event) : undefined);
    return this.#fanOut.subscribeAll({
      ...(filter === undefined && mode === undefined ? {} : { view }),
      ...(signal === undefined ? {} : { signal }),
    });
  }

  /** The session is deleted: its readers end behind what they have. */
  end(session: string): void {
    this.#fanOut.end(session);
  }

  /** The newest event of a session, told again to its own readers: those that missed some find the hole. */
  remind(event: SessionEvent): void {
    this.#fanOut.publishToSession(event);
  }

  /** The shards that `isLost` names the sessions of will tell nothing any more: their readers fail. */
  fail(isLost: (session: string) => boolean, error: Error): void {
    for (const session of this.#fanOut.sessions()) if (isLost(session)) this.#fanOut.end(session, error);
  }

  /** The runtime closes: every reader ends behind what it has. */
  close(): void {
    this.#fanOut.close();
  }

  #failed(session: string | undefined, error: unknown): void {
    if (session === undefined) this.#fanOut.close(error);
    else this.#fanOut.end(session, error);
  }
}

function viewOf(mode: ViewMode): View {
  const checked = checkViewMode(mode);
  return (event) => viewEvent(event, checked);
}

function defaultAfter(until: EventOptions['until']): number {
  return typeof until === 'object' ? Math.max(0, until.seq - 1) : 0;
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
