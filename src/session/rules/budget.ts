/**
 * Token budgets: the limits for a child and everything spawned below it. Pure.
 *
 * A session under a budget reports its use to the session that spawned it, in the batch that used the tokens. The
 * report is passed up to the session that owns the budget, so the use of a budget is in that session's own state.
 * Before each model call a session checks its own budget and those above it. Calls that are in flight when a budget is
 * reached still end, so each of them may exceed the budget.
 */
import { type ErrorShape, errorShape, LimitError } from '../../base/errors.ts';
import { tokensOf } from '../../base/messages.ts';
import type { Decision } from '../state/decision.ts';
import type { Environment, SpawnRequest } from '../state/inputs.ts';
import type { Budget, SessionState } from '../state/state.ts';
import { promotionOrder, type Selection } from './mailbox.ts';

/** Tokens used by a session under a budget and everything below it; 0 for a session without one. */
export function usedOf(state: SessionState): number {
  return state.budget === undefined ? 0 : tokensOf(state.usage) + state.budget.below;
}

/** The initial budget of a child of this session; undefined: none. */
export function childBudget(state: SessionState, { budget }: SpawnRequest): Omit<Budget, 'below'> | undefined {
  if (budget === undefined && state.budget === undefined) return undefined;
  return {
    ...(budget === undefined ? {} : { tokens: budget }),
    ...(state.budget === undefined ? {} : { isShared: true }),
  };
}

/** Why a session may no longer call its model; undefined while it may. */
export function budgetError(state: SessionState, environment: Environment): LimitError | undefined {
  let holder: SessionState | undefined = state;
  while (holder?.budget !== undefined) {
    const { tokens, isShared } = holder.budget;
    const used = usedOf(holder);
    if (tokens !== undefined && used >= tokens) {
      const whose = holder === state ? 'its budget' : `the budget of ${holder.id}`;
      return new LimitError(`${used} of the ${tokens} tokens of ${whose} are used (budget)`, {
        data: { limit: 'budget', value: used, budget: tokens, session: holder.id },
      });
    }
    if (isShared !== true || holder.parent === undefined) return undefined;
    holder = environment.stateOf?.(holder.parent);
  }
  return undefined;
}

/** Fails a turn that must not begin. Its entries are promoted, and the turn fails as if the model had refused. */
export function refuseTurn(state: SessionState, selection: Selection, error: ErrorShape): Decision {
  const halfStep = state.nextHalfStep;
  return {
    records: [{ type: 'claimed', halfStep, entries: promotionOrder(selection), turn: state.nextTurn }],
    effects: [{ type: 'again', input: { type: 'modelFailed', halfStep, attempt: 1, error } }],
  };
}

/** The error of `budgetError`, in the form that is published and stored. */
export function budgetErrorShape(state: SessionState, environment: Environment): ErrorShape | undefined {
  const error = budgetError(state, environment);
  return error === undefined ? undefined : errorShape(error);
}

/** A child, or a session below it, used tokens of a budget that includes this session. */
export function decideChildSpent(state: SessionState, tokens: number): Decision {
  return { records: state.budget === undefined ? [] : [{ type: 'budgetUsed', tokens }], effects: [] };
}
