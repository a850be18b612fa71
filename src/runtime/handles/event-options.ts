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
   * Durable events after this number are replayed first. Default: from the receipt on if `until` is one, else from the
   * first event of the session.
   */
  readonly after?: number;
  /**
   * Ends the iteration: after the end of the turn that consumed a receipt's message, after a number, or where a
   * predicate is true.
   */
  readonly until?: Receipt<unknown> | number | ((event: SessionEvent) => boolean);
  /** False: no text and thinking deltas. */
  readonly deltas?: boolean;
  /**
   * The view mode. `basic` and `verbose` carry ids, counts and reasons, and carry content only as `rendered`, if the
   * mode shows it (see `ViewedEvent`). `basic` omits live reasoning and progress. `debug` carries everything, with
   * `rendered` beside messages and mailbox entries. Default: every event, whole, without `rendered`.
   */
  readonly mode?: ViewMode;
  readonly signal?: AbortSignal;
}

/** Options for reading the events of all sessions. */
export interface AllEventOptions {
  /**
   * Cursors by session: the durable events after each number are replayed first. Numbers are counted per session, and 0
   * replays everything. For these sessions no event is missed and none comes twice, even if the reader is slow. For all
   * other sessions the reader receives live events.
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
  // Checked separately by a rule that names the modes.
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
 * The options of `session.events`, checked. Throws `ConfigError` for invalid options, an invalid mode, and a receipt of
 * another session, which would never match.
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
 * The options of `runtime.events`, checked. `tenant`: only events of this tenant's sessions. Throws `LimitError` for too many cursors, `ConfigError` for an invalid mode
 * or invalid cursors, `InvalidNameError` for an invalid session id of a cursor.
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
  // The queues pass on the result of a view without inspecting it. The signatures of `events` declare the reader's
  // type.
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
