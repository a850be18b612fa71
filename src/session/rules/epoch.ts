/**
 * Rules for epochs and agent versions. They say which version of its agent a session needs, when changed requests of
 * the agent open an epoch, and what the epoch records. Pure.
 *
 * A session starts nothing while its agent is missing: not defined, or not in the version of the session's turn.
 * Between turns a session is bound to no version, and its next turn begins with the current version. The definition of
 * an agent need not have a version. A turn of such an agent continues with the agent as it is defined now.
 * Invariants:
 *  V1 a turn that began with a version keeps it to its end: all its half-steps and calls have the prompt and the tools
 *     of that version;
 *  V2 a session moves to another version between two turns only, in one batch with the edits of the move.
 *
 * An epoch records the model's traits (what the model accepts), and its requests are rendered for these traits. Newer
 * traits alone open no epoch, because a new epoch loses the vendor's cache. They apply from the first half-step of the
 * next epoch.
 */
import type { Draft } from '../../base/draft.ts';
import { AgentMissingError } from '../../base/errors.ts';
import type { TurnAgent } from '../../base/messages.ts';
import type { AgentFacts, EpochFacts } from '../state/inputs.ts';
import type { RecordOf } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { leavesUses } from './server-uses.ts';

/** True if a request of this epoch was answered or is in flight. Later requests must then begin with that request. */
export function isEpochInUse({ sealedSeq, current }: SessionState): boolean {
  return sealedSeq > 0 || current !== undefined;
}

/**
 * The record of an epoch, if an epoch must open; otherwise undefined. An epoch must open if the agent's requests differ
 * from those of the present epoch. It must also open if a turn left calls of the provider's own tools without a result.
 * `opens`: an epoch opens in the same transition for another reason, so newer traits are recorded as well.
 */
export function changedEpoch(state: SessionState, agent: EpochFacts, opens: boolean): RecordOf<'epoch'> | undefined {
  const isSame = state.fingerprint === agent.fingerprint && state.traits === agent.traits && !leavesUses(state);
  return isSame && !(opens && agent.next !== undefined) ? undefined : newEpoch(agent);
}

/**
 * The record of an epoch with the agent's newest traits. `because`: why the session moves to this model; missing: the
 * session keeps its model.
 */
export function newEpoch(agent: EpochFacts, because?: string): RecordOf<'epoch'> {
  const { fingerprint, traits } = agent.next ?? agent;
  const epoch: Draft<RecordOf<'epoch'>> = { type: 'epoch', fingerprint };
  if (traits !== undefined) epoch.traits = traits;
  const { place = 0, name = '' } = agent.models ?? {};
  if (place > 0 || because !== undefined) epoch.model = { place, name, ...(because === undefined ? {} : { because }) };
  return epoch;
}

/** True if the session is in a turn, or in a run that was suspended and can continue. */
export function isInTurn({ turn, suspended }: Pick<SessionState, 'turn' | 'suspended'>): boolean {
  return turn !== undefined || suspended !== undefined;
}

/** The version that a session needs for its turn; undefined if any definition of its agent will do. */
export function neededVersion(state: Pick<SessionState, 'version' | 'turn' | 'suspended'>): string | undefined {
  return isInTurn(state) ? state.version : undefined;
}

/**
 * The members of a record that begins the next turn. `hash`: the fingerprint of the epoch in which the turn begins.
 * An agent without a version is not named.
 */
export function turnStart(
  { agent: name = '', version, nextTurn: turn, fingerprint }: SessionState,
  hash: string = fingerprint ?? '',
): { readonly turn: number; readonly agent?: TurnAgent } {
  return version === undefined ? { turn } : { turn, agent: { name, version, hash } };
}

/** The fingerprint of an agent that is missing. */
export const MISSING_FINGERPRINT = '';

/** True if these are the facts of an agent that is missing. */
export function isMissing({ fingerprint }: Pick<AgentFacts, 'fingerprint'>): boolean {
  return fingerprint === MISSING_FINGERPRINT;
}

/** The error of a session whose agent is missing. `needs`: the version that the session had when its turn began. */
export function missingAgentError(agent: string, needs: string | undefined): AgentMissingError {
  const name = JSON.stringify(agent);
  if (needs === undefined) return new AgentMissingError(`its agent ${name} is not defined`, { data: { agent } });
  const text = `its turn began with version ${JSON.stringify(needs)} of its agent ${name}, which is not defined`;
  return new AgentMissingError(text, { data: { agent, version: needs } });
}
