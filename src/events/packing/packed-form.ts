/**
 * The form in which events cross between threads: one flat list of values. Each event begins with a number, its head.
 * The head encodes the kind of the event, its enumerated values, and which optional members follow. Cloning a flat list
 * takes a fraction of the time of cloning objects. The reason: for each object, a clone writes and looks up the names
 * of its members.
 *
 * Both sides belong to one process and one version. This form is not stored, and does not leave the process.
 */
import type { Message, Pending, Source } from '../../base/messages.ts';

/** Packed values, in the order of the events they belong to. Made by `EventPacking`, read only by `unpackEvents`. */
export type PackedEvents = readonly unknown[];

/** Kinds of events, the lowest bits of a head. */
export const CODE = {
  /** An unpacked event. */
  whole: 0,
  /** The session, the time and the seq of the events that follow. */
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
   * A time follows. Without this flag, a message or entry has the time of its event, and a `place` has the time of the
   * previous `place`.
   */
  time: 16,
  /** For a `place`: the seq of the next durable event follows. The seqs of later events are counted from it. */
  number: 32,
  toolUseId: 64,
  /** The call id is the same as that of the previous packed call. */
  sameToolUseId: 128,
  toolName: 256,
  /** The tool is the same as that of the previous packed call. */
  sameToolName: 512,
  /**
   * The content is the same as the previous packed content. This saves a copy, because an entry and its message have
   * the same content.
   */
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
  /** The usage has more members than its four counters, so the usage follows as one object. */
  usageMore: 536_870_912,
} as const;

/**
 * A head also holds two enumerated values of four bits each, in bits that no flag uses. 0 means that there is no value.
 * Any other number is the position of the value in its list, counted from 1.
 */
export const WORD_MASK = 15;
/** Shift of the first enumerated value: types of messages and entries, states, reasons. */
export const TYPE_SHIFT = 21;
/** Shift of the second enumerated value: the type of the source. */
export const SOURCE_SHIFT = 25;

/**
 * True only if `Known` names every member of `T`. A new member of a message or an entry must be added here, or it would
 * be lost between the threads. It must also be added in `publicMessage` or `publicEntry`, the functions that make the
 * public form of messages and entries.
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
