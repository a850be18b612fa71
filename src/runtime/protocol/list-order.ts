/**
 * The order of the sessions in a list, a position in the list, and its filters. Pure. Shards, the host, and commands
 * that read a directory share this file.
 */
import { SESSION_ID_FORM } from '../../base/ids.ts';
import type { LastOutcome, SessionStateName, SessionStatus } from '../../events/event.ts';

/** The order of a list: the last changed session first, or by id, ascending. */
export type ListOrder = 'newest' | 'id';

/** A position in a list: the last session of the previous page. In the order `id`, the session's id is enough. */
export interface ListPlace {
  readonly id: string;
  readonly updatedAt?: number;
}

/** The filters of a list. A missing member lets every session pass. */
export interface ListFilter {
  /** Only children of this session; `null`: roots only. */
  readonly parent?: string | null;
  readonly state?: SessionStateName;
  readonly status?: readonly SessionStatus[];
  readonly outcome?: LastOutcome;
  readonly agent?: string;
  /** Only sessions of this tenant. */
  readonly tenant?: string;
  /** Epoch ms; both exclusive. */
  readonly changedAfter?: number;
  readonly changedBefore?: number;
}

/** The filters, the order and the wanted part of a list. */
export interface ListRequest extends ListFilter {
  readonly order: ListOrder;
  readonly after?: ListPlace;
  readonly limit: number;
}

/** The facts that every filter but `parent` reads. */
export interface ListedFacts {
  readonly updatedAt: number;
  readonly status: SessionStatus;
  readonly state: SessionStateName;
  readonly lastOutcome?: LastOutcome | undefined;
  readonly agent: string;
}

/** The form of a position as text (the `next` of a page). */
const PLACE = new RegExp(`^(\\d{1,16})-(${SESSION_ID_FORM})`);

/**
 * Returns the function that compares two positions. `newest`: the last changed session first, and sessions of the same
 * time by id. `id`: all by id.
 */
export function byOrder(order: ListOrder): (a: ListPlace, b: ListPlace) => number {
  const byId = (a: ListPlace, b: ListPlace): number => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
  if (order === 'id') return byId;
  return (a, b) => (b.updatedAt ?? 0) - (a.updatedAt ?? 0) || byId(a, b);
}

/** The position of a session, as text. */
export function listPlaceText(order: ListOrder, { id, updatedAt = 0 }: ListPlace): string {
  return order === 'id' ? id : `${updatedAt}-${id}`;
}

/** The position in a text; undefined for a text that is not a position. */
export function readListPlace(order: ListOrder, text: string): ListPlace | undefined {
  if (order === 'id') return { id: text };
  const [, updatedAt, id] = PLACE.exec(text) ?? [];
  return updatedAt === undefined || id === undefined ? undefined : { id, updatedAt: Number(updatedAt) };
}

/** True if the filter lets the session pass. */
export function passes(session: ListedFacts & { readonly parent?: string }, filter: ListFilter): boolean {
  const { parent } = filter;
  return (parent === undefined || (session.parent ?? null) === parent) && passesFacts(session, filter);
}

/** True if all filters but `parent` let a session with these facts pass. */
export function passesFacts(given: ListedFacts, filter: ListFilter): boolean {
  const { state, status, outcome, agent, changedAfter, changedBefore } = filter;
  return (
    (state === undefined || given.state === state) &&
    (status === undefined || status.includes(given.status)) &&
    (outcome === undefined || given.lastOutcome === outcome) &&
    (agent === undefined || given.agent === agent) &&
    (changedAfter === undefined || given.updatedAt > changedAfter) &&
    (changedBefore === undefined || given.updatedAt < changedBefore)
  );
}
