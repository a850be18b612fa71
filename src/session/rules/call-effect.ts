/** The effect that makes a model call. Pure. */
import type { Effect, Environment } from '../state/inputs.ts';
import type { SessionState } from '../state/state.ts';

/**
 * The effect of a half-step's call in an epoch. If the agent's system prompt is a function that was not evaluated for
 * this epoch, the effect evaluates the function first.
 */
export function callOrEvaluate(
  state: SessionState,
  environment: Environment,
  halfStep: number,
  epoch: number,
  attempt = 1,
): Effect {
  const isNew = epoch !== state.epoch || state.system?.epoch !== epoch;
  if (environment.agent.hasSystemFunction && isNew) return { type: 'evaluateSystem', epoch };
  return { type: 'callModel', halfStep, attempt };
}
