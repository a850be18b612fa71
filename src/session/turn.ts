/**
 * Runs one transition of one session: an input and the inputs that follow from it. Changes the state; otherwise pure.
 */
import { applyRecord } from './apply/apply.ts';
import { Fold, type Observer } from './apply/fold.ts';
import { auditActs } from './audited.ts';
import { decide } from './decide/decide.ts';
import { type Decision, NO_EFFECTS, NO_RECORDS } from './state/decision.ts';
import type { Effect, Environment, Input } from './state/inputs.ts';
import type { SessionRecord } from './state/records.ts';
import type { SessionState } from './state/state.ts';

/** The outcome of a transition. Its records are already in the state and must be journalled as one batch (A3). */
export interface TurnOutcome {
  readonly records: readonly SessionRecord[];
  /** All effects except `again`: the inputs of these have already been run. */
  readonly effects: readonly Effect[];
}

/** Maximum number of inputs of one transition. A longer chain of inputs is an endless loop in our own code. */
const STEPS_MAX = 100_000;

/**
 * Runs an input and every input that follows from it, and folds all records in order. The given state is changed in
 * place (see `apply`). Environment and observer are used only during the call, so all transitions of a shard may share
 * one object of each. Throws only for broken invariants: the actor is then reloaded from its log.
 */
export function runTurn(state: SessionState, input: Input, environment: Environment, observer?: Observer): TurnOutcome {
  const fold = new Fold(state, environment.now, observer, environment.readContent);
  let records: readonly SessionRecord[] = NO_RECORDS;
  let effects: Effect[] | undefined;
  /** Inputs after the next one, in order; most transitions have none. */
  const later: Input[] = [];
  let next: Input | undefined = input;
  for (let step = 0; next !== undefined; step += 1) {
    if (step === STEPS_MAX) throw new Error(`a transition of ${state.id} took more than ${STEPS_MAX} steps`);
    const decision = decide(state, next, environment);
    const acts = decision.records.length === 0 ? NO_EFFECTS : auditActs(state, next, decision.records);
    const acceptedSeq = foldStep(fold, state, decision);
    records = joined(records, decision.records);
    next = undefined;
    if (acts.length > 0) effects = [...(effects ?? []), ...acts.map((act): Effect => ({ type: 'audited', act }))];
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

/** Folds the records of a decision. Returns the seq of the event for the first accepted entry among them, or 0. */
function foldStep(fold: Fold, state: SessionState, { records }: Decision): number {
  let acceptedSeq = 0;
  for (const record of records) {
    applyRecord(fold, record);
    // An accepted message comes before the results of the calls that it interrupts, so the first entry is the message.
    if (acceptedSeq === 0 && record.type === 'accepted') acceptedSeq = state.eventSeq;
  }
  return acceptedSeq;
}

/** Gives the effect `accepted` the number of its entry's `pending.created` event. */
function numbered(effect: Effect, acceptedSeq: number): Effect {
  if (effect.type !== 'accepted' || effect.duplicate) return effect;
  return { type: 'accepted', pendingId: effect.pendingId, seq: acceptedSeq, duplicate: false };
}

/**
 * The records of two decisions as one list. In most transitions only one decision has records, and its list is used
 * unchanged.
 */
function joined(before: readonly SessionRecord[], more: readonly SessionRecord[]): readonly SessionRecord[] {
  if (more.length === 0) return before;
  return before.length === 0 ? more : [...before, ...more];
}
