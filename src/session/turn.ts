/** One actor turn of one session: steps until none follows, all records folded as they come. Pure. */
import { apply, type Observer } from './apply.ts';
import { decide } from './decide.ts';
import type { Effect, Environment, Input } from './inputs.ts';
import type { SessionRecord } from './records.ts';
import type { SessionState } from './state.ts';

/** What a turn did: its records are in the state already and must be journalled as one batch (A3). */
export interface TurnOutcome {
  readonly records: readonly SessionRecord[];
  /** Without `again`: those ran. */
  readonly effects: readonly Effect[];
}

/** A step may lead to another; a chain longer than this is a loop of our own making. */
const STEPS_MAX = 100_000;

/**
 * Runs an input and every step that follows from it. The state is consumed (see `apply`). Throws only for broken
 * invariants: the actor is then reloaded from its log.
 */
export function runTurn(state: SessionState, input: Input, environment: Environment, observer?: Observer): TurnOutcome {
  const records: SessionRecord[] = [];
  const effects: Effect[] = [];
  const queue: Input[] = [input];
  const acceptedSeq = new Map<number, number>();
  for (let step = 0; ; step += 1) {
    const next = queue.shift();
    if (next === undefined) return { records, effects };
    if (step === STEPS_MAX) throw new Error(`a turn of ${state.id} took more than ${STEPS_MAX} steps`);
    const decision = decide(state, next, environment);
    for (const record of decision.records) {
      apply(state, record, environment.now, observer);
      records.push(record);
      // A receipt carries the number of its `pending.created` event, whatever else happened in the same step.
      if (record.type === 'accepted') acceptedSeq.set(record.id, state.eventSeq);
    }
    for (const effect of decision.effects) {
      if (effect.type === 'again') queue.push(effect.input);
      else if (effect.type === 'accepted' && !effect.duplicate)
        effects.push({ ...effect, seq: acceptedSeq.get(effect.pendingId) ?? 0 });
      else effects.push(effect);
    }
  }
}
