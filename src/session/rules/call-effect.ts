/** The effect that makes a model call. Pure. */
import type { Effect, Environment } from '../state/inputs.ts';
import type { SessionState } from '../state/state.ts';

/** A call of a half-step in an epoch. If that epoch has no system text yet, the system function is evaluated first. */
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
