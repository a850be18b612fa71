/**
 * The form in which events cross from thread to thread: one flat list of values. Each event begins with a number, its head: what it is,
 * which optional members follow, and which words of closed lists it holds. A list of values is cloned in a fraction of the time of the
 * objects it stands for, whose names would be written and looked up again each time; and a word that both sides know costs nothing.
 *
 * Both sides are of one process and one version: nothing of this is stored or sent anywhere else.
 */
import type { Message, Pending, Source, Usage } from '../../base/messages.ts';

/** Values in the order of the events they belong to. Made by `EventPacking`, read by `unpackEvents` alone. */
export type PackedEvents = readonly unknown[];

/** What a head begins: its lowest bits. */
export const CODE = {
  /** An event as it is. */
  whole: 0,
  /** Session, time and number of what follows. */
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

/** What else a head says: one bit each. */
export const FLAG = {
  /** A time follows; else it is that of the event, and of a place that of the place before. */
  time: 16,
  /** Of a place: the number of the next durable event follows; those behind it count on. */
  number: 32,
  toolUseId: 64,
  /** The call id last named. */
  sameToolUseId: 128,
  toolName: 256,
  /** The tool last named. */
  sameToolName: 512,
  /** The content last told: an entry's is its message's. */
  sameContent: 1_024,
  input: 2_048,
  /** `success` is there. */
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

/** Above the flags two words, each with room for 15: 0 is none, else the word's place in its list, from 1. */
export const WORD_MASK = 15;
/** The type of a message or an entry, a state, a reason. */
export const TYPE_SHIFT = 21;
/** Whom it comes from. */
export const SOURCE_SHIFT = 25;

/**
 * True only where `Known` names every member of `T`: a member that is new must get a place here, and where a session shows its
 * messages and entries (`publicMessage`, `publicEntry`), or it would be lost on the way.
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
