/**
 * What a fork begins with, read from where it lies: stored by itself, or in the log of the session it was forked from, up to the
 * marker of the fork there.
 *
 * Invariant: K5 a log that forks share is removed only behind what they begin with (`fork-roots.ts`), so one of the two
 * places always has it.
 */
import { isRecord } from '../../base/json.ts';
import type { Journal } from '../../journal/journal.ts';
import type { Head, SessionKey } from '../../journal/position.ts';
import { apply } from '../../session/apply/apply.ts';
import { forkSeed, plantSeed } from '../../session/history/fork-seed.ts';
import type { ForkSeed } from '../../session/state/fork-seed.ts';
import { decodeTurn, type RecordTurn, type SessionRecord } from '../../session/state/records.ts';
import type { ForkOrigin } from '../../session/state/state.ts';
import { emptyState, restoreState, type SessionState } from '../../session/state/state.ts';
import { contentReader } from './content-reader.ts';
import { decodeHead } from './head.ts';

/** The part of a journal that is read. */
export interface LogSource extends Pick<Journal, 'keyOf' | 'read' | 'entry' | 'blob'> {
  head(key: SessionKey): Pick<Head, 'data'> | undefined;
}

/**
 * Gives an empty state what its session begins with, if the turn is the first of a fork whose record does not have it. Returns
 * how many turns of other logs were read. Throws an Error where what it begins with is nowhere.
 */
export function plantFork(source: LogSource, key: SessionKey, state: SessionState, first: RecordTurn): number {
  const [record] = first.records;
  if (record?.type !== 'forked' || record.seed !== undefined) return 0;
  const { seed, turns } = readSeed(source, { id: state.id, key, origin: record.origin }, state.keepsAll);
  plantSeed(state, seed);
  return turns;
}

/** What a fork begins with; `keepsAll` is that of the state it is for. Throws an Error where it is nowhere. */
function readSeed(
  source: LogSource,
  fork: { readonly id: string; readonly key: SessionKey; readonly origin: ForkOrigin },
  keepsAll = false,
): { readonly seed: ForkSeed; readonly turns: number } {
  const head = source.head(fork.key);
  const base = head === undefined ? undefined : decodeHead(head.data).base;
  const stored = base === undefined ? undefined : source.blob(base);
  if (stored !== undefined) return { seed: decodeSeed(stored), turns: 0 };
  const { state, turns } = stateBefore(source, fork.id, fork.origin, keepsAll);
  return { seed: forkSeed(state, fork.origin.at), turns };
}

/** The state of the session that was forked, as it was when the fork was made. */
function stateBefore(
  source: LogSource,
  fork: string,
  origin: ForkOrigin,
  keepsAll: boolean,
): { readonly state: SessionState; readonly turns: number } {
  const key = source.keyOf(origin.session);
  if (key === undefined) throw new Error(`the log of ${JSON.stringify(origin.session)}, which it begins with, is gone`);
  for (const { marker, state, turns } of forksOf(source, origin.session, key, origin.fork ?? 0, keepsAll)) {
    if (marker.fork !== origin.fork) continue;
    if (marker.child === fork && state.createdAt === origin.createdAt) return { state, turns };
    break;
  }
  throw new Error(`the log of ${JSON.stringify(origin.session)} does not say where it was forked`);
}

/** A fork in the log of its parent. */
export interface ForkPlace {
  readonly marker: Extract<SessionRecord, { type: 'forkMade' }>;
  /** The parent as it was then; the next step of the iteration changes it. */
  readonly state: SessionState;
  /** Turns read so far, those of other logs included. */
  readonly turns: number;
}

/** The forks of a session from number `first` on, in the order they were made, in one pass over its log. */
export function* forksOf(
  source: LogSource,
  session: string,
  key: SessionKey,
  first: number,
  keepsAll = false,
): Iterable<ForkPlace> {
  const start = keepsAll ? undefined : snapshotBefore(source, key, first);
  const state = start?.state ?? emptyState(session);
  state.keepsAll = keepsAll;
  let turns = 0;
  const readContent = contentReader(source, key);
  for (const { data } of source.read(key, start?.position ?? 0)) {
    const turn = decodeTurn(data);
    if (turns === 0 && start === undefined) turns += plantFork(source, key, state, turn);
    turns += 1;
    for (const record of turn.records) {
      if (record.type === 'forkMade' && record.fork >= first) yield { marker: record, state, turns };
      apply(state, record, turn.at, undefined, readContent);
    }
  }
}

/** The snapshot of a session, where it was taken before its fork of this number. */
function snapshotBefore(
  source: LogSource,
  key: SessionKey,
  fork: number,
): { readonly state: SessionState; readonly position: number } | undefined {
  const head = source.head(key);
  const snapshot = head === undefined ? undefined : decodeHead(head.data).snapshot;
  const stored = snapshot === undefined ? undefined : source.blob(snapshot.address);
  if (snapshot === undefined || stored === undefined) return undefined;
  const state = restoreState(stored);
  return state.nextFork <= fork ? { state, position: snapshot.position } : undefined;
}

/** The text of a seed, for the store. */
export function encodeSeed(seed: ForkSeed): string {
  return JSON.stringify({ v: SEED_FORMAT, seed });
}

const SEED_FORMAT = 1;

/** Throws an Error for a text that is no seed. The envelope is checked; the rest was checked before it was written. */
export function decodeSeed(text: string): ForkSeed {
  const parsed: unknown = JSON.parse(text);
  if (!isRecord(parsed) || parsed['v'] !== SEED_FORMAT || !isRecord(parsed['seed'])) {
    throw new Error('what the session begins with is not of a known format');
  }
  return parsed['seed'] as unknown as ForkSeed;
}
