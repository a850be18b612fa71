/**
 * Reads the beginning of a fork from one of two places: a copy that is stored for the fork, or the log of the forked
 * session up to the fork's marker (the record `forkMade`).
 *
 * Invariant: K5 a log that forks share, or its older part, is removed only after the forks' beginnings are stored
 * (`fork-roots.ts`). So one of the two places always has a fork's beginning.
 */
import { isRecord } from '../../base/json.ts';
import type { Journal } from '../../journal/journal.ts';
import type { Head, SessionKey } from '../../journal/position.ts';
import { apply } from '../../session/apply/apply.ts';
import { forkSeed, plantSeed } from '../../session/history/fork-seed.ts';
import type { ForkSeed } from '../../session/state/fork-seed.ts';
import { decodeTransition, type SessionRecord, type TransitionRecords } from '../../session/state/records.ts';
import { restoreState } from '../../session/state/snapshot.ts';
import type { ForkOrigin, SessionState } from '../../session/state/state.ts';
import { contentReader } from './content-reader.ts';
import { decodeHead } from './head.ts';
import { type BeginningSource, beginningOf, snapshotOf } from './log-beginning.ts';

/** The reading part of a journal. */
export interface LogSource extends BeginningSource, Pick<Journal, 'keyOf' | 'read' | 'entry'> {
  head(key: SessionKey): Pick<Head, 'data'> | undefined;
}

/**
 * Adds the beginning of a fork to an empty state, if `first` is the first transition of a fork and does not hold the
 * beginning itself. Returns how many transitions of other logs were read. Throws an Error when neither place has the
 * beginning.
 */
export function plantFork(source: LogSource, key: SessionKey, state: SessionState, first: TransitionRecords): number {
  const [record] = first.records;
  if (record?.type !== 'forked' || record.seed !== undefined) return 0;
  const { seed, turns } = seedOf(source, { id: state.id, key, origin: record.origin }, state.keepsAll);
  plantSeed(state, seed);
  return turns;
}

/**
 * The beginning of a fork. `keepsAll`: the value of this member in the state that will get the beginning. Throws an
 * Error when neither place has the beginning.
 */
export function seedOf(
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

/** The state of the forked session at the moment of the fork. */
function stateBefore(
  source: LogSource,
  fork: string,
  origin: ForkOrigin,
  keepsAll: boolean,
): { readonly state: SessionState; readonly turns: number } {
  const key = source.keyOf(origin.session);
  if (key === undefined)
    throw new Error(`the log of ${JSON.stringify(origin.session)}, with which the fork begins, is missing`);
  for (const { marker, state, turns } of forksOf(source, origin.session, key, origin.fork ?? 0, keepsAll)) {
    if (marker.fork !== origin.fork) continue;
    if (marker.child === fork && state.createdAt === origin.createdAt) return { state, turns };
    break;
  }
  throw new Error(`the log of ${JSON.stringify(origin.session)} does not say where it was forked`);
}

/** A fork in the log of the forked session. */
export interface ForkPlace {
  readonly marker: Extract<SessionRecord, { type: 'forkMade' }>;
  /** The forked session's state at the marker. The next step of the iteration changes this state. */
  readonly state: SessionState;
  /** Transitions read so far, including those of other logs. */
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
  const { state, position } = start ?? beginningOf(source, session, key, keepsAll);
  let turns = 0;
  const readContent = contentReader(source, key);
  for (const { data } of source.read(key, position)) {
    const turn = decodeTransition(data);
    if (turns === 0 && position === 0) turns += plantFork(source, key, state, turn);
    turns += 1;
    for (const record of turn.records) {
      if (record.type === 'forkMade' && record.fork >= first) yield { marker: record, state, turns };
      apply(state, record, turn.at, undefined, readContent);
    }
  }
}

/** The snapshot of a session, if the snapshot was taken before the fork with this number. */
function snapshotBefore(
  source: LogSource,
  key: SessionKey,
  fork: number,
): { readonly state: SessionState; readonly position: number } | undefined {
  const found = snapshotOf(source, key, source.head(key));
  if (found === undefined) return undefined;
  const state = restoreState(found.stored);
  return state.nextFork <= fork ? { state, position: found.snapshot.position } : undefined;
}

/** The text of a seed (the beginning of a fork), as it is stored. */
export function encodeSeed(seed: ForkSeed): string {
  return JSON.stringify({ v: SEED_FORMAT, seed });
}

const SEED_FORMAT = 1;

/**
 * Throws an Error for a text that is not a seed. Only the envelope is checked: the rest was checked before it was
 * written.
 */
export function decodeSeed(text: string): ForkSeed {
  const parsed: unknown = JSON.parse(text);
  if (!isRecord(parsed) || parsed['v'] !== SEED_FORMAT || !isRecord(parsed['seed'])) {
    throw new Error('the stored beginning of the fork has an unknown format');
  }
  return parsed['seed'] as unknown as ForkSeed;
}
