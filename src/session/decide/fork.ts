/** Makes forks: a marker in the shared log, and the first record of the session that continues from there. Pure. */
import { FORK_DEPTH_MAX, FORKS_SHARED_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { errorShape, InvalidArgumentError, InvalidNameError } from '../../base/errors.ts';
import { SESSION_ID_CHARACTERS_MAX } from '../../base/ids.ts';
import { forkSeed } from '../history/fork-seed.ts';
import { type Decision, refuse } from '../state/decision.ts';
import type { ForkSeed } from '../state/fork-seed.ts';
import type { Environment } from '../state/inputs.ts';
import type { SessionRecord } from '../state/records.ts';
import type { ForkOrigin, SessionState } from '../state/state.ts';

type Forked = Extract<SessionRecord, { type: 'forked' }>;

/**
 * Makes a fork. This session's log gets a marker, and the fork's own log refers to this log up to the marker. If too
 * many forks share this log, or the chain of forks is too long, the fork's log begins with a copy instead. The result
 * is the fork's id.
 */
export function decideFork(
  state: SessionState,
  wish: { readonly id?: string; readonly at?: number; readonly by?: string },
  environment: Environment,
): Decision {
  const child = wish.id ?? freeId(state, environment);
  const problem = nameProblem(child, environment);
  if (problem !== undefined) return refuse(problem);
  const seed = seedOrError(state, wish.at);
  if (seed instanceof InvalidArgumentError) return refuse(seed);
  const fork = state.nextFork;
  const depth = (state.origin?.depth ?? 0) + 1;
  const isShared = depth <= FORK_DEPTH_MAX && state.forks.length < FORKS_SHARED_MAX;
  const marker: SessionRecord = isShared
    ? { type: 'forkMade', fork, child }
    : { type: 'forkMade', fork, child, copied: true };
  const record = isShared
    ? forkedRecord(state, { fork, depth, at: wish.at })
    : { ...forkedRecord(state, { depth: 0, at: wish.at }), seed };
  return {
    records: [marker],
    effects: [
      { type: 'forkBorn', child, seed, record, ...defined({ by: wish.by }) },
      { type: 'result', value: { id: child } },
    ],
  };
}

/** The first record of a fork that has its own copy of the messages, instead of sharing this log. */
export function copiedFork(state: SessionState, at?: number): Forked {
  return { ...forkedRecord(state, { depth: 0, at }), seed: forkSeed(state, at) };
}

/**
 * Begins a session as a fork. If the fork shares a log, its state already has the first messages. Otherwise they are in
 * `record.seed`.
 */
export function decideForked(state: SessionState, record: Forked): Decision {
  if (state.createdAt > 0) return refuse(takenName(state.id));
  return { records: [record], effects: [{ type: 'result', value: { id: state.id } }] };
}

function forkedRecord(
  state: SessionState,
  of: { readonly fork?: number; readonly depth: number; readonly at: number | undefined },
): Forked {
  const { fork, depth, at } = of;
  const origin: ForkOrigin = {
    session: state.id,
    createdAt: state.createdAt,
    depth,
    ...(fork === undefined ? {} : { fork }),
    ...(at === undefined ? {} : { at }),
  };
  return { type: 'forked', origin };
}

function seedOrError(state: SessionState, at: number | undefined): ForkSeed | InvalidArgumentError {
  try {
    return forkSeed(state, at);
  } catch (error) {
    if (error instanceof InvalidArgumentError) return error;
    throw new Error(`a fork cannot be taken: ${errorShape(error).message}`, { cause: error });
  }
}

/** A free id for a fork. Its colon keeps the fork on the shard of its parent, whose log the fork shares. */
function freeId(state: SessionState, environment: Environment): string {
  let number = state.nextFork;
  while (environment.exists(`${state.id}:fork-${number}`)) number += 1;
  return `${state.id}:fork-${number}`;
}

function nameProblem(id: string, environment: Environment): InvalidNameError | undefined {
  if (id.length > SESSION_ID_CHARACTERS_MAX) {
    return new InvalidNameError(
      `the id of the fork has ${id.length} characters, more than ${SESSION_ID_CHARACTERS_MAX}: choose a shorter \`id\``,
    );
  }
  return environment.exists(id) ? takenName(id) : undefined;
}

function takenName(id: string): InvalidNameError {
  return new InvalidNameError(`there is a session ${JSON.stringify(id)} already: give the fork another id`);
}
