/**
 * `EventBuffer`: holds the events that one subscriber has not read yet.
 *
 * Owns: events in the order they were published, a bound on their number and size. Does not own: sequence numbers,
 * replay.
 *
 * B1 The buffer never holds more than its bounds; one event alone may exceed the bound on size.
 * B2 If an event would exceed the bounds, the buffer is emptied before the event is put in. A reader that is too slow
 *    must read the log instead of filling the memory of its host.
 * B3 Successive deltas of one text are joined into one event while they are unread. So a slow reader gets the text in
 *   fewer, larger pieces.
 */
import { SUBSCRIBER_CHARACTERS_MAX, SUBSCRIBER_EVENTS_MAX } from '../../base/bounds.ts';
import type { SessionEvent } from '../event.ts';

/** Bounds of a buffer: events, and approximate UTF-16 units of their content. */
export interface BufferBounds {
  readonly eventsMax: number;
  readonly charactersMax: number;
}

/** Bounds of a subscriber that asked for none. */
export const SUBSCRIBER_BOUNDS: BufferBounds = Object.freeze({
  eventsMax: SUBSCRIBER_EVENTS_MAX,
  charactersMax: SUBSCRIBER_CHARACTERS_MAX,
});

/** See the head of the file. A buffer belongs to one owner, on one thread. */
export class EventBuffer {
  readonly #bounds: BufferBounds;
  /**
   * A ring of events, as three lists of equal length, a power of two. For each event, `#events` has the event,
   * `#afters` the value `after` of `put`, and `#sizes` the size of the event. The ring is used for each event of each
   * reader, so its cost matters. A list of objects, or a list that shrinks and grows, would cost more.
   */
  #events = empty<SessionEvent | undefined>(RING_EVENTS, undefined);
  #afters = empty(RING_EVENTS, 0);
  #sizes = empty(RING_EVENTS, 0);
  /** Index of the oldest event. */
  #head = 0;
  #size = 0;
  #characters = 0;

  constructor(bounds: BufferBounds = SUBSCRIBER_BOUNDS) {
    this.#bounds = bounds;
  }

  /** The number of waiting events. */
  get size(): number {
    return this.#size;
  }

  /** Approximate UTF-16 units waiting. */
  get characters(): number {
    return this.#characters;
  }

  /**
   * Appends an event, or joins it to the delta before it. `after`: for a durable event, its seq; for an ephemeral
   * event, the seq of the last durable event before it. Returns the events that were dropped to make room, oldest
   * first: none, or all events that waited.
   */
  put(event: SessionEvent, after: number): readonly SessionEvent[] {
    const characters = charactersOf(event);
    const isOver = this.#characters + characters > this.#bounds.charactersMax;
    const isFirst = this.#size === 0;
    if (!isFirst && !isOver && event.seq === undefined && this.#join(event, after, characters)) return NONE;
    const lost = !isFirst && (isOver || this.#size >= this.#bounds.eventsMax) ? this.clear() : NONE;
    if (this.#size === this.#events.length) this.#grow();
    const place = this.#place(this.#size);
    this.#events[place] = event;
    this.#afters[place] = after;
    this.#sizes[place] = characters;
    this.#size += 1;
    this.#characters += characters;
    return lost;
  }

  /** The oldest event, without taking it. */
  peek(): SessionEvent | undefined {
    return this.#events[this.#head];
  }

  /** The value `after` that the oldest waiting event was put in with; undefined when no event waits. */
  peekAfter(): number | undefined {
    return this.#size === 0 ? undefined : this.#afters[this.#head];
  }

  /** Takes the oldest event. */
  take(): SessionEvent | undefined {
    const event = this.#events[this.#head];
    if (event === undefined) return undefined;
    this.#events[this.#head] = undefined;
    this.#characters -= this.#sizes[this.#head] ?? 0;
    this.#head = this.#place(1);
    this.#size -= 1;
    // Releases the memory of a large burst.
    if (this.#size === 0 && this.#events.length > RING_KEPT_EVENTS) this.#shrink();
    return event;
  }

  /** Empties the buffer; returns its events, oldest first. */
  clear(): readonly SessionEvent[] {
    const events: SessionEvent[] = [];
    for (let event = this.take(); event !== undefined; event = this.take()) events.push(event);
    return events;
  }

  /** The index in the three lists of the waiting event that has `index` waiting events before it. */
  #place(index: number): number {
    return (this.#head + index) & (this.#events.length - 1);
  }

  /** Doubles the lists of a full ring; the new lists begin with the oldest event. */
  #grow(): void {
    const turned = <T>(list: readonly T[], filler: T): T[] => [
      ...list.slice(this.#head),
      ...list.slice(0, this.#head),
      ...empty(list.length, filler),
    ];
    this.#events = turned<SessionEvent | undefined>(this.#events, undefined);
    this.#afters = turned(this.#afters, 0);
    this.#sizes = turned(this.#sizes, 0);
    this.#head = 0;
  }

  /**
   * Shrinks the empty ring to the kept size, not to the initial size. Otherwise the ring would grow again with every
   * burst.
   */
  #shrink(): void {
    this.#events = empty<SessionEvent | undefined>(RING_KEPT_EVENTS, undefined);
    this.#afters = empty(RING_KEPT_EVENTS, 0);
    this.#sizes = empty(RING_KEPT_EVENTS, 0);
    this.#head = 0;
  }

  /** Joins a delta to the last event if both are pieces of the same text. */
  #join(event: SessionEvent, after: number, characters: number): boolean {
    const place = this.#place(this.#size - 1);
    const before = this.#events[place];
    if (before === undefined || this.#afters[place] !== after) return false;
    const joined = joinDeltas(before, event);
    if (joined === undefined) return false;
    this.#events[place] = joined;
    this.#sizes[place] = (this.#sizes[place] ?? 0) + characters;
    this.#characters += characters;
    return true;
  }
}

function empty<T>(length: number, filler: T): T[] {
  return new Array<T>(length).fill(filler);
}

/** Joins two pieces of one text into one event; undefined when the events are not pieces of one text. */
function joinDeltas(first: SessionEvent, second: SessionEvent): SessionEvent | undefined {
  if (first.type !== 'text.delta' && first.type !== 'thinking.delta') return undefined;
  if (second.type !== first.type || second.turn !== first.turn || second.session !== first.session) return undefined;
  if (first.seq !== undefined || second.seq !== undefined) return undefined;
  return { ...first, text: first.text + second.text };
}

/**
 * Maximum number of values that are measured in one event. Further values count only in the contents and inputs that
 * `charactersOf` passes to `charactersOfContent`: these are plain data.
 */
const VALUES_MEASURED_MAX = 1_000;
/** UTF-16 units that are charged for an event, and for each value in it, in addition to its text. */
const VALUE_CHARACTERS = 16;
/**
 * UTF-16 units that are charged for the envelope and the member names of an event whose values are not measured one by
 * one.
 */
const MEMBERS_CHARACTERS = 12 * VALUE_CHARACTERS;
const NONE: readonly SessionEvent[] = Object.freeze([]);
/** Initial size of a ring. It is small because there are thousands of readers with one session each. */
const RING_EVENTS = 16;
/** Size that an empty ring keeps. A reader of all sessions receives bursts of this size, one for each flush. */
const RING_KEPT_EVENTS = 1_024;

/** The approximate memory of an event, in UTF-16 units: the lengths of its strings, and a little per value. */
export function charactersOf(event: SessionEvent): number {
  switch (event.type) {
    case 'text.delta':
    case 'thinking.delta':
      return VALUE_CHARACTERS + event.text.length;
    case 'session.state':
    case 'pending.removed':
      return MEMBERS_CHARACTERS;
    case 'tool.started':
    case 'tool.finished':
      return MEMBERS_CHARACTERS + event.toolUseId.length + event.toolName.length;
    case 'message.created':
      return (
        MEMBERS_CHARACTERS +
        charactersOfContent(event.message.content) +
        charactersOfContent(event.message.blocks) +
        charactersOfContent(event.message.input)
      );
    case 'history.changed':
      return (
        MEMBERS_CHARACTERS +
        charactersOfContent(event.removed) +
        charactersOfContent(event.created) +
        charactersOfContent(event.updated)
      );
    case 'pending.created':
      return MEMBERS_CHARACTERS + charactersOfContent(event.pending.content);
    case 'turn.finished':
      return (
        2 * MEMBERS_CHARACTERS +
        event.turn.length +
        charactersOfContent(event.output) +
        charactersOfContent(event.healedToolCallIds) +
        charactersOfContent(event.stopDetails)
      );
    default:
      return charactersIn(event, { left: VALUES_MEASURED_MAX });
  }
}

/**
 * The size of a content or an input. Usually it is a short text. A value with many parts is measured whole, and only
 * once.
 */
export function charactersOfContent(value: unknown): number {
  if (value === undefined) return 0;
  if (typeof value === 'string') return value.length;
  const measure = { left: VALUES_MEASURED_MAX };
  const characters = charactersIn(value, measure);
  if (measure.left > 0 || typeof value !== 'object' || value === null) return characters;
  const known = MEASURED.get(value) ?? charactersOfAll(value);
  MEASURED.set(value, known);
  return known;
}

/**
 * Sizes of contents with many values. All blocks of such a content are counted, but only once, not again for each
 * reader.
 */
const MEASURED = new WeakMap<object, number>();

/** The size of a plain value of any depth. */
function charactersOfAll(value: object): number {
  let characters = 0;
  const left: unknown[] = [value];
  while (left.length > 0) {
    const each = left.pop();
    characters += VALUE_CHARACTERS;
    if (typeof each === 'string') characters += each.length;
    else if (typeof each === 'object' && each !== null) for (const member of Object.values(each)) left.push(member);
  }
  return characters;
}

/** The size of a value and its members. It allocates no list, because it runs for each event of each reader. */
function charactersIn(value: unknown, measure: { left: number }): number {
  measure.left -= 1;
  if (typeof value === 'string') return VALUE_CHARACTERS + value.length;
  let characters = VALUE_CHARACTERS;
  if (typeof value !== 'object' || value === null) return characters;
  for (const key in value) {
    if (measure.left <= 0) break;
    characters += charactersIn((value as Readonly<Record<string, unknown>>)[key], measure);
  }
  return characters;
}
