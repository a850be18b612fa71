/** Makes a call again at once, in a new epoch, because its request must change. Pure. */
import { callOrEvaluate } from '../rules/call-effect.ts';
import type { Decision } from '../state/decision.ts';
import type { Environment } from '../state/inputs.ts';
import type { RecordOf } from '../state/records.ts';
import type { CurrentCall, SessionState } from '../state/state.ts';

/** The next attempt of the current call, in the given epoch. `why`: the members of the record that say the reason. */
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
