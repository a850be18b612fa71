/**
 * Reads one session from its log on the thread of the index. This file requests bounded pieces from the session's shard
 * and applies their records with the core's `apply`, as the shard would (a fold). The beginning of a fork is its stored
 * copy, or is read from the log of the forked session up to the fork's marker (K5 of `fork-reader.ts`).
 *
 * Owns: nothing that outlives a call. Does not own: the logs, the index.
 */
import { SEARCH_PAGE_ROWS } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { asError, StoreCorruptError, TroupeError } from '../../base/errors.ts';
import { shippedBlob, shippedRows, transitionsOf } from '../../journal/rows/shipped-rows.ts';
import { apply } from '../../session/apply/apply.ts';
import { forkSeed, plantSeed } from '../../session/history/fork-seed.ts';
import type { ForkSeed } from '../../session/state/fork-seed.ts';
import { decodeTransition, type SessionRecord, type TransitionRecords } from '../../session/state/records.ts';
import { emptyState, type SessionState } from '../../session/state/state.ts';
import type { ShardMethods } from '../protocol/protocol.ts';
import { decodeSeed } from '../reading/fork-reader.ts';
import { decodeBase } from '../reading/log-beginning.ts';

/** The methods of a shard that the index uses. */
export type SearchMethod =
  | 'search.log'
  | 'search.rows'
  | 'search.chain'
  | 'search.names'
  | 'search.session'
  | 'search.blob';

/** Sends a request to a shard, by its number. */
export type AskShard = <M extends SearchMethod>(
  shard: number,
  method: M,
  request: ShardMethods[M]['request'],
) => Promise<ShardMethods[M]['answer']>;

/** A session and its log. */
export interface SessionPlace {
  readonly shard: number;
  readonly session: string;
  /** The journal's key of the session. The same id with another key is another session. */
  readonly key: number;
}

/** A session's state from its log, up to a row. */
export interface SessionReading {
  readonly state: SessionState;
  /** The newest row that was read. */
  readonly row: number;
}

/** Options of a fold. */
export interface ReadingOptions {
  /** Folds like a state whose member `keepsAll` is true: no message leaves the window, and every branch is shown. */
  readonly keepsAll: boolean;
}

type Forked = Extract<SessionRecord, { type: 'forked' }>;
type ForkMade = Extract<SessionRecord, { type: 'forkMade' }>;

/**
 * The present state of a session; `undefined`: its log is empty, or it was deleted. Rejects with the error of the
 * shard, and with `StoreCorruptError` for a log that cannot be folded.
 */
export async function readSession(
  ask: AskShard,
  place: SessionPlace,
  options: ReadingOptions,
): Promise<SessionReading | undefined> {
  const state = folding(place.session, options);
  const { row } = await fold(ask, place, state);
  return row === 0 ? undefined : { state, row };
}

/** The transitions of a session in rows after `row`, oldest first. Rejects like `readSession`. */
export async function* turnsBehind(ask: AskShard, place: SessionPlace, row: number): AsyncIterable<TransitionRecords> {
  for await (const { turn } of turnsIn(ask, place, row)) yield turn;
}

function folding(session: string, { keepsAll }: ReadingOptions): SessionState {
  const state = emptyState(session);
  state.keepsAll = keepsAll;
  return state;
}

/** Folds a log into an empty state, to its end or to the marker of the fork `fork`. Returns the marker if found. */
async function fold(
  ask: AskShard,
  place: SessionPlace,
  state: SessionState,
  fork?: number,
): Promise<{ readonly row: number; readonly marker?: ForkMade }> {
  let last = 0;
  let marker: ForkMade | undefined;
  const start = await startOf(ask, place);
  if (start !== undefined) await plantBase(ask, place, state, start);
  for await (const { row, turn } of turnsIn(ask, place, 0)) {
    if (last === 0 && start === undefined) await plant(ask, place, state, turn);
    last = row;
    for (const record of turn.records) {
      if (fork !== undefined && record.type === 'forkMade' && record.fork === fork) {
        marker = record;
        break;
      }
      folded(place, row, () => apply(state, record, turn.at));
    }
    if (marker !== undefined) break;
  }
  // If the beginning was replaced during the fold, transitions between the base and the first row may be missing.
  if ((await startOf(ask, place)) !== start) throw replaced(place);
  return { row: last, ...defined({ marker }) };
}

async function* turnsIn(
  ask: AskShard,
  place: SessionPlace,
  until: number,
): AsyncIterable<{ readonly row: number; readonly turn: TransitionRecords }> {
  const { shard, key } = place;
  const rows = await rowsOf(ask, place, until);
  for (let at = 0; at < rows.length; ) {
    const wanted = rows.slice(at, at + SEARCH_PAGE_ROWS);
    const came = await shippedRows((offset) => ask(shard, 'search.rows', { rows: wanted, offset }));
    if (came.rows.length === 0) throw corrupt(place, wanted[0] ?? 0, new Error('the row is missing'));
    for (const shipped of came.rows) {
      const { row } = shipped;
      for (const turn of folded(place, row, () => transitionsOf(shipped, key).map((text) => decodeTransition(text))))
        yield { row, turn };
    }
    at += came.rows.length;
  }
}

/** The rows of a session after row `until`, oldest first. The journal links the rows from new to old. */
async function rowsOf(ask: AskShard, { shard, key }: SessionPlace, until: number): Promise<readonly number[]> {
  const rows: number[] = [];
  for (let from: number | undefined; from !== 0; ) {
    const chain = await ask(shard, 'search.chain', { key, until, ...defined({ from }) });
    for (const row of chain.rows) rows.push(row);
    from = chain.next;
  }
  return rows.reverse();
}

/** The address of the base with which a log begins; undefined for a whole log. */
async function startOf(ask: AskShard, { shard, session, key }: SessionPlace): Promise<string | undefined> {
  const known = await ask(shard, 'search.session', { session });
  return known?.key === key ? known.start : undefined;
}

/** Works like `beginningOf`: replaces a state by the base of a log whose older part was removed. */
async function plantBase(ask: AskShard, place: SessionPlace, state: SessionState, address: string): Promise<void> {
  const text = await shippedBlob(address, (offset) => ask(place.shard, 'search.blob', { address, offset }));
  if (text === undefined) throw replaced(place);
  folded(place, 0, () => Object.assign(state, decodeBase(text, state.keepsAll)));
}

/** The error when the older part of the log was removed during the read. The next pass reads the session again. */
function replaced(place: SessionPlace): StoreCorruptError {
  return corrupt(place, 0, new Error('the beginning of the log was replaced while it was read'));
}

/**
 * Works like `plantFork`: adds the beginning of a fork to a state, if `first` is the first transition of a fork and
 * does not hold the beginning itself.
 */
async function plant(ask: AskShard, place: SessionPlace, state: SessionState, first: TransitionRecords): Promise<void> {
  const [record] = first.records;
  if (record?.type !== 'forked' || record.seed !== undefined) return;
  plantSeed(state, await seedOf(ask, place, record, state.keepsAll));
}

async function seedOf(ask: AskShard, place: SessionPlace, { origin }: Forked, keepsAll: boolean): Promise<ForkSeed> {
  const stored = await storedSeed(ask, place);
  if (stored !== undefined) return stored;
  const { shard, session } = place;
  const parent = await ask(shard, 'search.session', { session: origin.session });
  if (parent !== undefined && origin.fork !== undefined) {
    const state = folding(origin.session, { keepsAll });
    const { marker } = await fold(ask, { shard, session: origin.session, key: parent.key }, state, origin.fork);
    if (marker?.child === session && state.createdAt === origin.createdAt) {
      return folded(place, 0, () => forkSeed(state, origin.at));
    }
  }
  // The parent was deleted during the read; its deletion stored the beginning of the fork.
  const storedSince = await storedSeed(ask, place);
  if (storedSince !== undefined) return storedSince;
  throw corrupt(
    place,
    0,
    new Error(`the log of ${JSON.stringify(origin.session)}, with which the fork begins, is missing`),
  );
}

async function storedSeed(ask: AskShard, place: SessionPlace): Promise<ForkSeed | undefined> {
  const { shard, session, key } = place;
  const known = await ask(shard, 'search.session', { session });
  const address = known?.key === key ? known.base : undefined;
  if (address === undefined) return undefined;
  const text = await shippedBlob(address, (offset) => ask(shard, 'search.blob', { address, offset }));
  return text === undefined ? undefined : folded(place, 0, () => decodeSeed(text));
}

/**
 * Runs `work` on data of a log. An error that is not a `TroupeError` counts as damage of the log, because its cause
 * cannot be determined here.
 */
function folded<T>(place: SessionPlace, row: number, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw error instanceof TroupeError ? error : corrupt(place, row, asError(error));
  }
}

function corrupt({ session }: SessionPlace, row: number, cause: Error): StoreCorruptError {
  return new StoreCorruptError(`the log of session ${JSON.stringify(session)} cannot be read at row ${row}`, {
    cause,
    data: { session, row },
  });
}
