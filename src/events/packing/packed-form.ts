/**
 * The form in which events cross between threads: one flat list of values. Each event begins with a number, its head:
 * its kind, the optional members that follow, and its enumerated values. Cloning a flat list takes a fraction of the
 * time of cloning objects, whose member names are written and looked up each time. An enumerated value that both sides
 * know costs nothing.
 *
 * Both sides belong to one process and one version: this form is stored and sent nowhere else.
 */
import type { Message, Pending, Source, Usage } from '../../base/messages.ts';

/** Values in the order of the events they belong to. Made by `EventPacking`, read only by `unpackEvents`. */
export type PackedEvents = readonly unknown[];

/** The kinds of a head: its lowest bits. */
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

/** The other facts of a head: one bit each. */
export const FLAG = {
  /** A time follows. Otherwise the time is that of the event, and for a place that of the previous place. */
  time: 16,
  /** For a place: the number of the next durable event follows; later events count on from it. */
  number: 32,
  toolUseId: 64,
  /** Same call id as the last one packed. */
  sameToolUseId: 128,
  toolName: 256,
  /** Same tool as the last one packed. */
  sameToolName: 512,
  /** Same content as the last one packed: an entry and its message share it. */
  sameContent: 1_024,
  input: 2_048,
  /** `success` is present. */
  ended: 4_096,
  success: 8_192,
  ms: 16_384,
  sourceName: 32_768,
  usage: 65_536,
  usageCreated: 131_072,
  usageRead: 262_144,
  deliver: 524_288,
  background: 1_048_576,
} as const;

/** Two enumerated values above the flags, each with room for 15: 0 is none, otherwise the index in its list, from 1. */
export const WORD_MASK = 15;
/** The type of a message or an entry, a state, a reason. */
export const TYPE_SHIFT = 21;
/** The type of the source. */
export const SOURCE_SHIFT = 25;

/**
 * True only if `Known` names every member of `T`. A new member must be added here, and where a session shows its
 * messages and entries (`publicMessage`, `publicEntry`), or it would be lost in transit.
 */
type Covers<T, Known extends keyof T> = Exclude<keyof T, Known> extends never ? true : never;
const MESSAGE_IS_WHOLE: Covers<
  Message,
  'seq' | 'type' | 'content' | 'at' | 'tokens' | 'toolUseId' | 'toolName' | 'input' | 'success' | 'source' | 'usage'
> = true;
const PENDING_IS_WHOLE: Covers<
  Pending,
  'id' | 'type' | 'kind' | 'content' | 'at' | 'source' | 'toolUseId' | 'success' | 'deliver'
> = true;
const SOURCE_IS_WHOLE: Covers<Source, 'type' | 'name'> = true;
const USAGE_IS_WHOLE: Covers<
  Usage,
  'input_tokens' | 'output_tokens' | 'cache_creation_input_tokens' | 'cache_read_input_tokens'
> = true;
void [MESSAGE_IS_WHOLE, PENDING_IS_WHOLE, SOURCE_IS_WHOLE, USAGE_IS_WHOLE];
