/**
 * The order of the calls that wait for a person, and a position in that order. Pure. Shards and the host share this
 * file.
 */
import { SESSION_ID_FORM } from '../../base/ids.ts';
import type { NumberedWait } from '../../session/rules/queued-calls.ts';

/** A position in the queue: the position of one call. */
export interface WaitingPlace {
  readonly at: number;
  readonly session: string;
  readonly seq: number;
}

/** The method of the queue of waiting calls. */
export interface WaitingMethods {
  /**
   * A page of the calls that wait for a person, oldest first. If the queue continues, the answer has one call more than
   * the page. `session`: only calls of this session and its descendants. `tenant`: only calls of this tenant's
   * sessions.
   */
  'waiting.page': {
    request: {
      readonly after?: WaitingPlace;
      readonly limit: number;
      readonly bytesMax: number;
      readonly session?: string;
      readonly tenant?: string;
    };
    answer: readonly NumberedWait[];
  };
}

/** The form of a position as text (the `next` of a page). */
const PLACE = new RegExp(`^(\\d{1,16})-(\\d{1,15})-(${SESSION_ID_FORM})`);

/** The oldest call first; calls of the same age by session, and within a session in the order of its calls. */
export function olderFirst(a: NumberedWait, b: NumberedWait): number {
  return compare(placeOf(a), placeOf(b));
}

/** True if the call comes behind a position. */
export function isBehind(wait: NumberedWait, place: WaitingPlace): boolean {
  return compare(placeOf(wait), place) > 0;
}

/** The position of a call, as text. */
export function placeText(wait: NumberedWait): string {
  const { at, session, seq } = placeOf(wait);
  return `${at}-${seq}-${session}`;
}

/** Reads a position from a text; undefined if the text is no position. */
export function readPlace(text: string): WaitingPlace | undefined {
  const [, at, seq, session] = PLACE.exec(text) ?? [];
  if (at === undefined || seq === undefined || session === undefined) return undefined;
  return { at: Number(at), seq: Number(seq), session };
}

function placeOf({ call, seq }: NumberedWait): WaitingPlace {
  return { at: call.at, session: call.session, seq };
}

function compare(a: WaitingPlace, b: WaitingPlace): number {
  if (a.at !== b.at) return a.at - b.at;
  if (a.session !== b.session) return a.session < b.session ? -1 : 1;
  return a.seq - b.seq;
}
