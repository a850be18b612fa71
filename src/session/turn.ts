/** One actor turn of one session: steps until none follows, all records folded as they come. Pure. */
import { applyRecord } from './apply/apply.ts';
import { Fold, type Observer } from './apply/fold.ts';
import { decide } from './decide/decide.ts';
import { type Decision, NO_EFFECTS, NO_RECORDS } from './state/decision.ts';
import type { Effect, Environment, Input } from './state/inputs.ts';
import type { SessionRecord } from './state/records.ts';
import type { SessionState } from './state/state.ts';

/** What a turn did: its records are in the state already and must be journalled as one batch (A3). */
export interface TurnOutcome {
  readonly records: readonly SessionRecord[];
  /** Without `again`: those ran. */
  readonly effects: readonly Effect[];
}

/** A step may lead to another; a chain longer than this is a loop of our own making. */
const STEPS_MAX = 100_000;

/**
 * Runs an input and every step that follows from it. The state is consumed (see `apply`); environment and observer are read
 * during the call only, so one object of each may serve every turn of a shard. Throws only for broken invariants: the actor
 * is then reloaded from its log.
 */
export function runTurn(state: SessionState, input: Input, environment: Environment, observer?: Observer): TurnOutcome {
  const fold = new Fold(state, environment.now, observer, environment.readContent);
  let records: readonly SessionRecord[] = NO_RECORDS;
  let effects: Effect[] | undefined;
  /** Steps that follow the next one, in order; most turns have none. */
  const later: Input[] = [];
  let next: Input | undefined = input;
  for (let step = 0; next !== undefined; step += 1) {
    if (step === STEPS_MAX) throw new Error(`a turn of ${state.id} took more than ${STEPS_MAX} steps`);
    const decision = decide(state, next, environment);
    const acceptedSeq = foldStep(fold, state, decision);
    records = joined(records, decision.records);
    next = undefined;
    for (const effect of decision.effects) {
      if (effect.type === 'again') {
        if (next === undefined && later.length === 0) next = effect.input;
        else later.push(effect.input);
      } else if (effects === undefined) {
        effects = [numbered(effect, acceptedSeq)];
      } else {
        effects.push(numbered(effect, acceptedSeq));
      }
    }
    next ??= later.shift();
  }
  return { records, effects: effects ?? NO_EFFECTS };
}

/** Folds the records of a step; returns the event number of the first message it accepted, 0 where there is none. */
function foldStep(fold: Fold, state: SessionState, { records }: Decision): number {
  let acceptedSeq = 0;
  for (const record of records) {
    applyRecord(fold, record);
    // A step that accepts a message accepts it before the answers of the calls it interrupts.
    if (acceptedSeq === 0 && record.type === 'accepted') acceptedSeq = state.eventSeq;
  }
  return acceptedSeq;
}

/** A receipt carries the number of its `pending.created` event, whatever else happened in the same step. */
function numbered(effect: Effect, acceptedSeq: number): Effect {
  if (effect.type !== 'accepted' || effect.duplicate) return effect;
  return { type: 'accepted', pendingId: effect.pendingId, seq: acceptedSeq, duplicate: false };
}

/** The records of two steps as one list; most turns write in one step only, and the list of that is taken as it is. */
function joined(before: readonly SessionRecord[], more: readonly SessionRecord[]): readonly SessionRecord[] {
  if (more.length === 0) return before;
  return before.length === 0 ? more : [...before, ...more];
}
