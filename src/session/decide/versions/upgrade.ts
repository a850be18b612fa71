/**
 * The move of a session to the current version of its agent, between two turns. Pure.
 *
 * Without an `upgrade` function the move is one record, and the next half-step opens an epoch if its requests differ.
 * With an `upgrade` function, the function is called first, and its edits are in the same batch as the record of the
 * move.
 */
import { errorShape, LimitError, TroupeError, UpgradeError } from '../../../base/errors.ts';
import { planUpgrade } from '../../history/upgrade-plan.ts';
import { isInTurn } from '../../rules/epoch.ts';
import { type Decision, NOTHING, WAKE } from '../../state/decision.ts';
import type { Effect, Environment } from '../../state/inputs.ts';
import type { SessionRecord } from '../../state/records.ts';
import type { SessionState } from '../../state/state.ts';
import type { UpgradeAnswer, UpgradeStep } from '../../state/version.ts';
import { afterEdit, imagesAfter } from '../edit.ts';

const NEXT_STEP: Effect = Object.freeze({ type: 'nextStep' });

/** The decision that precedes the next turn; undefined if the session has the current version, or is in a turn. */
export function decideMove(state: SessionState, environment: Environment): Decision | undefined {
  if (isInTurn(state)) return undefined;
  const { agent } = environment;
  const version = environment.versionOf(state.agent ?? '');
  // `agent` still describes the turn that ended in this step. The next step gets the facts of the current version.
  if (agent.version !== version) return { records: [], effects: [NEXT_STEP] };
  if (version === state.version) return undefined;
  if (agent.upgrades !== true || version === undefined) return { records: [moved(state, version)], effects: [WAKE] };
  if (environment.isUpgradeHeld === true) return NOTHING;
  return { records: [], effects: [{ type: 'upgrade', ...stepOf(state, version) }] };
}

/** Applies the edits of the `upgrade` function, all or none, and moves the session. */
export function decideUpgraded(state: SessionState, answer: UpgradeAnswer, environment: Environment): Decision {
  if (!isDue(state, answer, environment)) return { records: [], effects: [{ type: 'stale', what: 'upgrade' }, WAKE] };
  const { edits, to } = answer;
  if (edits.length === 0) return { records: [moved(state, to)], effects: [WAKE] };
  try {
    const plan = planUpgrade(state, edits, environment);
    const images = imagesAfter(state, plan, environment.agent.imagesMax);
    if (images !== undefined) {
      throw new LimitError(images.text, { data: { limit: images.limit, value: images.value } });
    }
    const { record } = plan;
    if (record === undefined) return { records: [moved(state, to)], effects: [WAKE] };
    const after = afterEdit(state, record);
    return { records: [record, ...after.records, moved(state, to)], effects: [...after.effects, WAKE] };
  } catch (error) {
    if (!(error instanceof TroupeError)) throw error;
    return { records: [], effects: [{ type: 'upgradeFailed', error: errorShape(upgradeError(state, to, error)) }] };
  }
}

/** The error of a session whose move to a version failed. */
export function upgradeError({ id, agent, version: from }: SessionState, version: string, cause: Error): UpgradeError {
  const move = `upgrade of session ${JSON.stringify(id)} to version ${JSON.stringify(version)} of agent ${JSON.stringify(agent)}`;
  return new UpgradeError(`${move} failed: ${cause.message}`, {
    cause,
    data: { agent, version, ...(from === undefined ? {} : { from }) },
  });
}

/** True if the session still waits for this move, and no message changed since the function was asked. */
export function isDue(state: SessionState, step: UpgradeStep, { agent }: Pick<Environment, 'agent'>): boolean {
  if (state.state !== 'idle' || isInTurn(state)) return false;
  const isSameMove = state.version === step.from && agent.version === step.to && step.from !== step.to;
  return isSameMove && state.epoch === step.epoch && state.nextMessageSeq === step.nextMessageSeq;
}

function stepOf({ version: from, epoch, nextMessageSeq }: SessionState, to: string): UpgradeStep {
  return { ...(from === undefined ? {} : { from }), to, epoch, nextMessageSeq };
}

function moved({ version: from }: SessionState, version: string | undefined): SessionRecord {
  return { type: 'upgraded', ...(from === undefined ? {} : { from }), ...(version === undefined ? {} : { version }) };
}
