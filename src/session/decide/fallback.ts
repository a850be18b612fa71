/**
 * Decides when a session moves to the next model of its agent, and when it returns to the first model. Pure.
 *
 * A move is durable: the record of a new epoch names the next model, and requests are rendered for it. The half-step
 * continues with that model, and its retries are counted from the beginning. A half-step never returns to an earlier
 * model. After the last model the half-step fails, and the next turn begins with the first model.
 */
import type { ErrorShape } from '../../base/errors.ts';
import type { Usage } from '../../base/messages.ts';
import { callOrEvaluate } from '../rules/call-effect.ts';
import { newEpoch } from '../rules/epoch.ts';
import type { Decision } from '../state/decision.ts';
import type { Effect, Environment, EpochFacts } from '../state/inputs.ts';
import type { RecordOf } from '../state/records.ts';
import type { CurrentCall, SessionState } from '../state/state.ts';

const NOT_FOUND = 404;

/** The reason for a move after an answer in which the model refused. */
export const REFUSAL = 'refusal';

/**
 * Moves the half-step to the agent's next model. Undefined if there is no next model, or if the call asks for a
 * summary: `compactionFailure` handles calls for summaries. `because`: the code of the failure, or `REFUSAL`.
 * `toOther`: only to a model of another provider. `usage`: the tokens of an answer that is not used.
 */
export function moveOn(
  state: SessionState,
  because: string,
  environment: Environment,
  { toOther = false, usage }: { readonly toOther?: boolean; readonly usage?: Usage } = {},
): Decision | undefined {
  const { current } = state;
  // Refused credentials stop all models of the provider.
  const next = nextModel(environment, toOther || because === 'model_authentication');
  if (current === undefined || current.compaction !== undefined || next === undefined) return undefined;
  const again = callInNewEpoch(state, current, environment, newEpoch(next, because), {
    code: because,
    fallsBack: true,
    ...(usage === undefined ? {} : { usage }),
  });
  const report: Effect = { type: 'reportFallback', model: next.models?.name ?? '', reason: because };
  return { records: again.records, effects: [report, ...again.effects] };
}

/** True if another model may succeed, because the fault is not in the request. */
export function mayMoveOn(error: ErrorShape): boolean {
  return error.retryable === true || error.code === 'model_authentication' || isModelGone(error);
}

/**
 * Moves the half-step to another model without retries, if its model will be unavailable for too long. The provider
 * pauses all its models together, so the other model must have another provider. On the return to the first model, a
 * failure also moves the half-step at once.
 */
export function moveAtOnce(state: SessionState, error: ErrorShape, environment: Environment): Decision | undefined {
  const { models } = environment.agent;
  if (models === undefined || !mayMoveOn(error)) return undefined;
  if (state.isReturning) return moveOn(state, error.code, environment);
  const { retryAfterMs: waitMs, away } = error.data ?? {};
  const isAway = away === true || (typeof waitMs === 'number' && waitMs > models.fallbackAfterMs);
  return isAway ? moveOn(state, error.code, environment, { toOther: true }) : undefined;
}

/** The facts with the agent's first model, if the session begins a turn and returns to that model; else undefined. */
export function returning(
  state: SessionState,
  { models }: EpochFacts,
  { now }: Pick<Environment, 'now'>,
): EpochFacts | undefined {
  const { fallback, turn } = state;
  if (fallback === undefined || models === undefined || turn !== undefined) return undefined;
  // A clock that was set back must not keep the session from returning (F59).
  const awayMs = Math.abs(now - fallback.since);
  return fallback.hasFailed === true || awayMs >= models.returnAfterMs ? models.at(0) : undefined;
}

/** True if the API does not know the model, so that a retry would fail in the same way. */
export function isModelGone(error: ErrorShape): boolean {
  return error.code === 'model_invalid_request' && error.data?.['status'] === NOT_FOUND;
}

function nextModel({ agent: { models } }: Environment, toOther: boolean): EpochFacts | undefined {
  if (models === undefined) return undefined;
  for (let place = models.place + 1; place < models.count; place += 1) {
    const next = models.at(place);
    if (!toOther || next.models?.provider !== models.provider) return next;
  }
  return undefined;
}

/**
 * Makes the next attempt of the current call at once and in the given epoch, because the request must change. `why`:
 * the members of the record that say the reason.
 */
export function callInNewEpoch(
  state: SessionState,
  { halfStep, attempt }: CurrentCall,
  environment: Environment,
  epoch: RecordOf<'epoch'>,
  why: Pick<RecordOf<'retried'>, 'code' | 'detail' | 'status' | 'repaired' | 'fallsBack' | 'usage'>,
): Decision {
  return {
    records: [epoch, { type: 'retried', halfStep, attempt, waitMs: 0, ...why }],
    effects: [callOrEvaluate(state, environment, halfStep, state.epoch + 1, attempt + 1)],
  };
}
