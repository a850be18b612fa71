/**
 * The form in which events cross between threads: one flat list of values. Each event begins with a number, its head.
 * The head encodes the kind of the event, its enumerated values, and which optional members follow. Cloning a flat list
 * takes a fraction of the time of cloning objects, because member names of objects are written and looked up each time.
 *
 * Both sides belong to one process and one version: this form is stored and sent nowhere else.
 */
import type { Message, Pending, Source } from '../../base/messages.ts';

/** Packed values, in the order of the events they belong to. Made by `EventPacking`, read only by `unpackEvents`. */
export type PackedEvents = readonly unknown[];

/** Kinds of events, the lowest bits of a head. */
export const CODE = {
  /** An unpacked event. */
  whole: 0,
  /** Session, time and number of the events that follow. */
  place: 1,
  state: 2,
  created: 3,
  accepted: 4,
  removed: 5,
  toolStarted: 6,
  toolFinished: 7,
  turnFinished: 8,
  text: 9,
  thought: 10,
} as const;
/** The bits of a head that are its code. */
export const CODE_MASK = 15;

/** Flags of a head, one bit each. */
export const FLAG = {
  /**
   * A time follows. Without it, a message or entry has the time of its event, and a `place` that of the last `place`.
   */
  time: 16,
  /**
   * For a `place`: the number of the next durable event follows. The numbers of later events are counted from that
   * number.
   */
  number: 32,
  toolUseId: 64,
  /** The call id is that of the last packed call. */
  sameToolUseId: 128,
  toolName: 256,
  /** The tool is that of the last packed call. */
  sameToolName: 512,
  /** The content is the last packed content: an entry and its message have the same. */
  sameContent: 1_024,
  input: 2_048,
  /** The member `success` is present. */
  ended: 4_096,
  success: 8_192,
  ms: 16_384,
  sourceName: 32_768,
  usage: 65_536,
  usageCreated: 131_072,
  usageRead: 262_144,
  deliver: 524_288,
  background: 1_048_576,
  /** The message or entry was sent with a key. */
  key: 1_073_741_824,
  /** The usage has members besides its counters: it follows as one object. */
  usageMore: 536_870_912,
} as const;

/**
 * Two enumerated values lie above the flags, each with room for 15 values. 0 means no value. Any other number is the
 * position in the list of values, counted from 1.
 */
export const WORD_MASK = 15;
/** Shift of the first enumerated value: types of messages and entries, states, reasons. */
export const TYPE_SHIFT = 21;
/** Shift of the second enumerated value: the type of the source. */
export const SOURCE_SHIFT = 25;

/**
 * True only if `Known` names every member of `T`. A new member must be added here, and in `publicMessage` or
 * `publicEntry`, which show a session's messages and entries. Otherwise it would be lost in transit.
 */
type Covers<T, Known extends keyof T> = Exclude<keyof T, Known> extends never ? true : never;
const MESSAGE_IS_WHOLE: Covers<
  Message,
  | 'seq'
  | 'type'
  | 'content'
  | 'at'
  | 'tokens'
  | 'toolUseId'
  | 'toolName'
  | 'input'
  | 'success'
  | 'source'
  | 'usage'
  | 'blocks'
  | 'key'
> = true;
const PENDING_IS_WHOLE: Covers<
  Pending,
  'id' | 'type' | 'kind' | 'content' | 'at' | 'source' | 'toolUseId' | 'success' | 'deliver' | 'key'
> = true;
const SOURCE_IS_WHOLE: Covers<Source, 'type' | 'name'> = true;
void [MESSAGE_IS_WHOLE, PENDING_IS_WHOLE, SOURCE_IS_WHOLE];
