/** The options of event readers, and their translation for the event hub. Host thread. */
import { z } from 'zod';
import { EVENT_PLACES_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { ConfigError, LimitError } from '../../base/errors.ts';
import { filterId, isOfTenant } from '../../base/ids.ts';
import { parseOption } from '../../base/parse-option.ts';
import type { SessionEvent } from '../../events/event.ts';
import type { ViewMode } from '../../events/rendered.ts';
import { checkViewMode } from '../../events/view-modes.ts';
import { viewEvent } from '../../events/viewed-event.ts';
import type { AllReading, SessionReading, View } from '../events/event-hub.ts';
import { Receipt } from './receipt.ts';

/** Options for reading a session's events. */
export interface EventOptions {
  /**
   * The durable events after this seq are replayed first. Default: the replay begins at the receipt if `until` is a
   * receipt, otherwise at the first event of the session.
   */
  readonly after?: number;
  /**
   * Ends the iteration. A receipt: after the end of the turn that consumed its message, or after the message was
   * dropped. A number: after the event with this seq. A predicate: after the first event for which it returns true.
   */
  readonly until?: Receipt<unknown> | number | ((event: SessionEvent) => boolean);
  /** False: the reader gets no text deltas and no thinking deltas. Default true. */
  readonly deltas?: boolean;
  /**
   * The view mode. `basic` and `verbose` carry ids, counts and reasons, and carry content only as `rendered`, if the
   * mode shows it (see `ViewedEvent`). `basic` omits live reasoning and progress. `debug` carries everything, and adds
   * `rendered` to messages and mailbox entries. Default: every event, whole, without `rendered`.
   */
  readonly mode?: ViewMode;
  readonly signal?: AbortSignal;
}

/** Options for reading the events of all sessions. */
export interface AllEventOptions {
  /**
   * A cursor for each session, by its id. The cursor is a seq; the session's durable events after this seq are replayed
   * first. The cursor 0 replays all events of the session. The reader receives every event of these sessions exactly
   * once, even if the reader is slow. From all other sessions it receives live events only.
   */
  readonly after?: Readonly<Record<string, number>>;
  readonly filter?: (event: SessionEvent) => boolean;
  /** `mode` as in `EventOptions`. */
  readonly mode?: ViewMode;
  readonly signal?: AbortSignal;
}

type Until = NonNullable<EventOptions['until']>;

const signalSchema = z.instanceof(AbortSignal).optional();
const functionSchema = z.custom<(event: SessionEvent) => boolean>((value) => typeof value === 'function', {
  message: 'expected a function',
});
const eventsSchema = z.strictObject({
  after: z.number().int().min(0).optional(),
  until: z
    .union([
      z.custom<Receipt<unknown>>((value) => value instanceof Receipt, 'must be a receipt'),
      z.number().int().min(0),
      functionSchema,
    ])
    .optional(),
  deltas: z.boolean().optional(),
  // The mode is checked later, by `checkViewMode`, whose error names the modes.
  mode: z.custom<ViewMode>().optional(),
  signal: signalSchema,
});
const allEventsSchema = z.strictObject({
  after: z.unknown().optional(),
  filter: functionSchema.optional(),
  mode: z.custom<ViewMode>().optional(),
  signal: signalSchema,
});

/**
 * The options of `session.events`, checked. Throws `ConfigError` for invalid options, for an invalid mode, and for a
 * receipt of another session, because no event would ever match that receipt.
 */
export function sessionReading(session: string, given: EventOptions): SessionReading {
  const options = parseOption(eventsSchema, 'events', given);
  const { until } = options;
  if (until instanceof Receipt && until.session !== session) {
    throw new ConfigError(
      `option "events.until": expected a receipt of ${JSON.stringify(session)}; got one of ${JSON.stringify(until.session)}`,
      { data: { key: 'events.until' } },
    );
  }
  return {
    after: options.after ?? defaultAfter(until),
    deltas: options.deltas ?? true,
    ...(until === undefined ? {} : { until: untilOf(until) }),
    ...(options.mode === undefined ? {} : { view: viewOf(options.mode) }),
    ...defined({ signal: options.signal }),
  };
}

/**
 * The options of `runtime.events`, checked. `tenant`: only events of this tenant's sessions. Throws `LimitError` for
 * too many cursors, `ConfigError` for an invalid mode or invalid cursors, `InvalidNameError` for an invalid session id
 * of a cursor.
 */
export function allReading(given: AllEventOptions, tenant?: string): AllReading {
  const { filter, mode, signal, after } = parseOption(allEventsSchema, 'events', given);
  const show: View = mode === undefined ? (event) => event : viewOf(mode);
  return {
    ...(after === undefined ? {} : { after: checkPlaces(after, tenant) }),
    ...(filter === undefined && mode === undefined
      ? {}
      : { view: filter === undefined ? show : (event) => (filter(event) ? show(event) : undefined) }),
    ...defined({ signal, tenant }),
  };
}

const placesSchema = z.record(z.string(), z.number().int().min(0));

function checkPlaces(given: unknown, tenant: string | undefined): ReadonlyMap<string, number> {
  const places = Object.entries(parseOption(placesSchema, 'after', given));
  if (places.length > EVENT_PLACES_MAX) {
    throw new LimitError(`events of at most ${EVENT_PLACES_MAX} sessions can be replayed to one reader`, {
      data: { limit: 'eventPlaces', value: places.length },
    });
  }
  const named = places.map(([session, after]) => [filterId(tenant, session), after] as const);
  return new Map(named.filter(([session]) => isOfTenant(tenant, session)));
}

function viewOf(mode: ViewMode): View {
  const checked = checkViewMode(mode);
  // The cast is safe: the queues do not inspect the viewed event, and the signatures of `events` declare the type that
  // the reader gets.
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
