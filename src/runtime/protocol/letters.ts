/**
 * The protocol for dead letters between the host and the shards: the methods, the order of the list, and a position in
 * the list. The list is over all sessions. Pure. Shards, the host, and commands that read a directory share this file.
 */
import { SESSION_ID_FORM } from '../../base/ids.ts';
import type { DeadLetter, DeadLetterSummary } from '../../session/state/letters.ts';
import type { OfSession, ReceiptName } from './addresses.ts';

/** A position in the list: the session and the id of a letter. Id 0 stands before the session's first letter. */
export interface LetterPlace {
  readonly session: string;
  readonly id: number;
}

/** A part of a shard's list. `reached`: the part ends at this position; missing: no session is left. */
export interface LetterPart {
  readonly items: readonly DeadLetterSummary[];
  readonly reached?: LetterPlace;
}

/** The methods of a shard whose names begin with `letters.`. */
export interface LetterMethods {
  /**
   * A part of the shard's dead letters. `session`: only letters of this session and its descendants. `tenant`: only
   * letters of this tenant's sessions.
   */
  'letters.page': {
    request: {
      readonly after?: LetterPlace;
      readonly limit: number;
      readonly bytesMax: number;
      readonly session?: string;
      readonly tenant?: string;
    };
    answer: LetterPart;
  };
  /** The letters of one session, oldest first. */
  'letters.list': { request: OfSession; answer: readonly DeadLetterSummary[] };
  'letters.get': { request: OfSession & { readonly letter: number }; answer: DeadLetter | undefined };
  'letters.resend': {
    request: OfSession & { readonly letter: number; readonly as?: 'user'; readonly by?: string };
    answer: ReceiptName & { readonly seq: number; readonly duplicate: boolean };
  };
  'letters.drop': { request: OfSession & { readonly letter: number; readonly by?: string }; answer: boolean };
}

/** The form of a position as text (the `next` of a page). */
const PLACE = new RegExp(`^(\\d{1,16})-(${SESSION_ID_FORM})`);

/**
 * Compares two positions: by session, and within a session in the order in which its letters were accepted into the
 * mailbox.
 */
export function byLetter(a: LetterPlace, b: LetterPlace): number {
  if (a.session !== b.session) return a.session < b.session ? -1 : 1;
  return a.id - b.id;
}

/** The position of a letter, as text. */
export function letterPlaceText({ session, id }: LetterPlace): string {
  return `${id}-${session}`;
}

/** Reads a position from a text; undefined if the text is no position. */
export function readLetterPlace(text: string): LetterPlace | undefined {
  const [, id, session] = PLACE.exec(text) ?? [];
  return id === undefined || session === undefined ? undefined : { id: Number(id), session };
}

/**
 * The size of a letter in a list, in UTF-16 units. Most of it is the letter's error, which may quote the entry's
 * source.
 */
export function letterSize(letter: DeadLetterSummary): number {
  return JSON.stringify(letter).length;
}
