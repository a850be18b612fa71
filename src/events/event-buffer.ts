/**
 * What one subscriber has not read yet.
 *
 * Owns: events in the order they were told, a bound on how many and how large. Does not own: sequence numbers, replay.
 *
 *  B1  The buffer never holds more than its bounds; one event alone may be larger than the bound on size.
 *  B2  What is put beyond the bounds empties it first: a reader that is behind reads the log, not the memory of its host.
 *  B3  Deltas of one text that follow one another are one event while nobody reads: a slow reader misses no text by it.
 */
import { SUBSCRIBER_CHARACTERS_MAX, SUBSCRIBER_EVENTS_MAX } from '../base/bounds.ts';
import type { SessionEvent } from './event.ts';

/** Bounds of a buffer: events, and approximate UTF-16 units of what they carry. */
export interface BufferBounds {
  readonly eventsMax: number;
  readonly charactersMax: number;
}

/** Bounds of a subscriber that asked for none. */
export const SUBSCRIBER_BOUNDS: BufferBounds = Object.freeze({
  eventsMax: SUBSCRIBER_EVENTS_MAX,
  charactersMax: SUBSCRIBER_CHARACTERS_MAX,
});

/** An event that waits. `after`: the durable event known to come before it, for an ephemeral one. */
export interface BufferedEvent {
  readonly event: SessionEvent;
  readonly after: number;
  readonly characters: number;
}

/** A bounded queue of events. One thread, one owner. */
export class EventBuffer {
  readonly #bounds: BufferBounds;
  /** Taken from `#head` on; what is before it is gone and is cut off in passing. */
  #items: (BufferedEvent | undefined)[] = [];
  #head = 0;
  #characters = 0;

  constructor(bounds: BufferBounds = SUBSCRIBER_BOUNDS) {
    this.#bounds = bounds;
  }

  /** Events waiting. */
  get size(): number {
    return this.#items.length - this.#head;
  }

  /** Approximate UTF-16 units waiting. */
  get characters(): number {
    return this.#characters;
  }

  /**
   * Puts an event last, or joins it to the delta before it. Returns what was thrown out to make room, oldest first:
   * nothing, or all that waited.
   */
  put(event: SessionEvent, after: number): readonly BufferedEvent[] {
    const last = this.#items.at(-1);
    const joined =
      last !== undefined && this.size > 0 && last.after === after ? joinDeltas(last.event, event) : undefined;
    const characters = charactersOf(event);
    const isOver = this.#characters + characters > this.#bounds.charactersMax;
    if (joined !== undefined && last !== undefined && !isOver) {
      this.#items[this.#items.length - 1] = { event: joined, after, characters: last.characters + characters };
      this.#characters += characters;
      return NONE;
    }
    const lost = this.size > 0 && (isOver || this.size >= this.#bounds.eventsMax) ? this.clear() : NONE;
    this.#items.push({ event, after, characters });
    this.#characters += characters;
    return lost;
  }

  /** The oldest event, without taking it. */
  peek(): BufferedEvent | undefined {
    return this.#items[this.#head];
  }

  /** Takes the oldest event. */
  take(): BufferedEvent | undefined {
    const item = this.#items[this.#head];
    if (item === undefined) return undefined;
    this.#items[this.#head] = undefined;
    this.#head += 1;
    this.#characters -= item.characters;
    // Half of the array is cut off at a time: each event is moved once on average, whatever waits behind it.
    if (this.#head * 2 >= this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }

  /** Empties the buffer; returns what was in it, oldest first. */
  clear(): readonly BufferedEvent[] {
    const items = this.#items.slice(this.#head).filter((item) => item !== undefined);
    this.#items = [];
    this.#head = 0;
    this.#characters = 0;
    return items;
  }
}

/** Two pieces of one text as one event, or undefined when they are not that. */
function joinDeltas(first: SessionEvent, second: SessionEvent): SessionEvent | undefined {
  if (first.type !== 'text.delta' && first.type !== 'thinking.delta') return undefined;
  if (second.type !== first.type || second.turn !== first.turn || second.session !== first.session) return undefined;
  if (first.seq !== undefined || second.seq !== undefined) return undefined;
  return { ...first, text: first.text + second.text };
}

/** Values looked at in one event; what lies beyond is not measured. */
const VALUES_MEASURED_MAX = 1_000;
/** Charged for an event, and for each value in it, beside its text. */
const VALUE_CHARACTERS = 16;
/** Charged for the envelope and the names of what is measured without a look at each of its values. */
const MEMBERS_CHARACTERS = 12 * VALUE_CHARACTERS;
const NONE: readonly BufferedEvent[] = Object.freeze([]);

/** Approximately how much memory an event holds, in UTF-16 units: the lengths of its strings, and a little per value. */
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
      return MEMBERS_CHARACTERS + charactersOfText(event.message.content) + charactersOfText(event.message.input);
    case 'pending.created':
      return MEMBERS_CHARACTERS + charactersOfText(event.pending.content);
    default:
      return charactersIn(event, { left: VALUES_MEASURED_MAX });
  }
}

/** Of a content or an input, which is a short text most of the time. */
function charactersOfText(value: unknown): number {
  if (value === undefined) return 0;
  return typeof value === 'string' ? value.length : charactersIn(value, { left: VALUES_MEASURED_MAX });
}

/** No list is made on the way: this is done for each event of each reader. */
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
