/**
 * Recovery: continues the work that a crash or an end of the process interrupted (Δ4, A10). Recovery is one input, not
 * a mode: once that input is decided, the session works as usual. Pure.
 */
import { errorShape, TroupeError } from '../../base/errors.ts';
import { callOrEvaluate } from '../rules/call-effect.ts';
import { changedEpoch, isMissing } from '../rules/epoch.ts';
import { isWaitingForApproval } from '../rules/run-loop.ts';
import { OUTCOME_UNKNOWN } from '../rules/tool-texts.ts';
import { type Decision, NOTHING, WAKE } from '../state/decision.ts';
import type { Effect, Environment } from '../state/inputs.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { failureDecision } from './answer.ts';
import { recoverPreparation } from './enrichment.ts';
import { recoverMemory } from './memory.ts';
import { AT_BOUNDARY } from './run-loop.ts';
import { startCall } from './tools.ts';

/**
 * Recovers a session. What happens depends on its state.
 * - `awaiting`: the model call was lost. The call is made again with the same bytes, and no entry is promoted. Without
 *   `settings.recovery.resumeAwaiting` the half-step fails instead. A pending retry waits for the rest of its time.
 * - `executing`: each open call is treated by the effect of its tool. `pure` and `keyed` calls run again, a `probe`
 *   call asks the tool, a `once` call is answered with "outcome unknown".
 * - `idle`: a preparation begins again, a restart waits for the rest of its time, and waiting entries start a turn.
 */
export function decideRecovery(state: SessionState, environment: Environment): Decision {
  const turn = recoverTurn(state, environment);
  const memory = recoverMemory(state, environment);
  if (memory === NOTHING) return turn;
  return { records: [...turn.records, ...memory.records], effects: [...memory.effects, ...turn.effects] };
}

function recoverTurn(state: SessionState, environment: Environment): Decision {
  if (state.state === 'awaiting') return recoverAwaiting(state, environment);
  if (state.state === 'executing') return recoverExecuting(state, environment);
  if (state.enrichment !== undefined) return recoverPreparation(state, state.enrichment, environment);
  if (state.restartAt === undefined) return { records: [], effects: [WAKE] };
  const delayMs = leftOf(state.restartAt, state.restartWaitMs, environment);
  return { records: [], effects: [{ type: 'restartTimer', delayMs }, WAKE] };
}

function recoverAwaiting(state: SessionState, environment: Environment): Decision {
  const current = state.current;
  if (current === undefined) throw new Error('S3: awaiting without a current half-step');
  if (!environment.settings.recovery.resumeAwaiting) {
    const lost = new TroupeError('internal', 'the model call was lost in a restart', { retryable: false });
    const failure = failureDecision(state, errorShape(lost), environment);
    return {
      records: [{ type: 'recovered', redone: [], synthesized: [] }, ...failure.records],
      effects: failure.effects,
    };
  }
  const records: SessionRecord[] = [{ type: 'recovered', redone: [`half-step ${current.halfStep}`], synthesized: [] }];
  const { halfStep, attempt, retryAt, retryWaitMs } = current;
  const { agent } = environment;
  // If the agent was changed meanwhile, the call cannot be repeated with the same bytes, so a new epoch opens.
  const changed = isMissing(agent) ? undefined : changedEpoch(state, agent, false);
  if (changed !== undefined) records.push({ ...changed, resends: true });
  const epoch = state.epoch + records.length - 1;
  if (retryAt !== undefined && retryAt > environment.now) {
    const delayMs = leftOf(retryAt, retryWaitMs, environment);
    return { records, effects: [{ type: 'retryLater', halfStep, attempt, delayMs }] };
  }
  if (environment.agent.guards?.before === true && attempt === 1) {
    return { records, effects: [{ type: 'consult', on: 'request', halfStep }] };
  }
  return { records, effects: [callOrEvaluate(state, environment, halfStep, epoch, attempt)] };
}

/**
 * The remaining ms of a wait. They are computed from wall time, because no other clock outlives the process. A clock
 * that was set back must not extend the wait (F59).
 */
function leftOf(dueAt: number, waitMs: number | undefined, { now }: Environment): number {
  return Math.min(Math.max(0, dueAt - now), waitMs ?? Number.POSITIVE_INFINITY);
}

function recoverExecuting(state: SessionState, environment: Environment): Decision {
  // None of the held calls has started, so the session decides at that boundary again.
  if (state.held !== undefined) return { records: [], effects: [AT_BOUNDARY] };
  const redone: string[] = [];
  const synthesized: string[] = [];
  const effects: Effect[] = [];
  for (const call of state.openCalls.values()) {
    if (isWaitingForApproval(state, call.id)) continue;
    const facts = environment.agent.tool(call.name);
    if (facts?.effect === 'once') {
      synthesized.push(call.id);
      effects.push({
        type: 'again',
        input: { type: 'toolFinished', callId: call.id, content: OUTCOME_UNKNOWN, success: false },
      });
    } else {
      redone.push(call.id);
      effects.push(startCall(state, call, environment, facts?.effect === 'probe' ? 'probe' : 'run'));
    }
  }
  effects.push(WAKE);
  const isInterrupted = redone.length + synthesized.length > 0;
  return { records: isInterrupted ? [{ type: 'recovered', redone, synthesized }] : [], effects };
}
