/**
 * Token budgets: the limits for a session and all its descendants. Pure.
 *
 * A session under a budget reports its use to its parent, in the batch that used the tokens. The report is passed up to
 * the session that owns the budget, and the state of the owner has the whole use. Before each model call a session
 * checks its own budget and the budgets of its ancestors. Calls in flight when a budget is reached still end, so each
 * of them may exceed the budget.
 *
 * A session may get its first budget after it has spawned. The use of its descendants until then counts too: in the
 * same batch each descendant joins the budget and reports all that it has used.
 */
import { BUDGET_JOINS_MAX } from '../../base/bounds.ts';
import { type ErrorShape, errorShape, LimitError } from '../../base/errors.ts';
import { tokensOf } from '../../base/messages.ts';
import { type Decision, NOTHING, refuse } from '../state/decision.ts';
import type { Effect, Environment, SpawnRequest } from '../state/inputs.ts';
import type { Budget, SessionState } from '../state/state.ts';
import { turnStart } from './epoch.ts';
import { promotionOrder, type Selection } from './mailbox.ts';

/** Tokens used by a session under a budget and by its descendants; 0 for a session under no budget. */
export function usedOf(state: SessionState): number {
  return state.budget === undefined ? 0 : tokensOf(state.usage) + state.budget.below;
}

/** A session's own budget, in its public form; undefined if the session has no own budget. */
export function budgetOf(state: SessionState): { readonly tokens: number; readonly used: number } | undefined {
  const tokens = state.budget?.tokens;
  return tokens === undefined ? undefined : { tokens, used: usedOf(state) };
}

/** The initial budget of a new child of this session; undefined: none. */
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
      const remedy = `set a larger one with runtime.session(${JSON.stringify(holder.id)}).setBudget(tokens)`;
      return new LimitError(`${used} of the ${tokens} tokens of ${whose} are used (budget): ${remedy}`, {
        data: { limit: 'budget', value: used, budget: tokens, session: holder.id },
      });
    }
    if (isShared !== true || holder.parent === undefined) return undefined;
    holder = environment.stateOf?.(holder.parent);
  }
  return undefined;
}

/** Fails a turn that must not begin. Its entries are promoted, and the turn fails as if its model call had failed. */
export function refuseTurn(state: SessionState, selection: Selection, error: ErrorShape): Decision {
  const halfStep = state.nextHalfStep;
  return {
    records: [{ type: 'claimed', halfStep, entries: promotionOrder(selection), ...turnStart(state) }],
    effects: [{ type: 'again', input: { type: 'modelFailed', halfStep, attempt: 1, error } }],
  };
}

/** The error of `budgetError`, in the form that is published and stored. */
export function budgetErrorShape(state: SessionState, environment: Environment): ErrorShape | undefined {
  const error = budgetError(state, environment);
  return error === undefined ? undefined : errorShape(error);
}

/** A descendant used tokens of a budget that this session is under. */
export function decideChildSpent(state: SessionState, tokens: number): Decision {
  return { records: state.budget === undefined ? [] : [{ type: 'budgetUsed', tokens }], effects: [] };
}

/**
 * The embedder sets the budget of a session, or removes it (`tokens` undefined). A first budget is refused with
 * `LimitError` if the session has more than `BUDGET_JOINS_MAX` descendants, because all of them join in one batch.
 */
export function decideBudget(state: SessionState, tokens: number | undefined, environment: Environment): Decision {
  if (state.budget?.tokens === tokens) return NOTHING;
  if (state.budget === undefined && countBelow(state, environment) > BUDGET_JOINS_MAX) {
    return refuse(
      new LimitError(
        `session ${JSON.stringify(state.id)} has more than ${BUDGET_JOINS_MAX} descendants whose tokens are not counted yet (budget): set a first budget before the session spawns, or give each of its children a budget`,
        { data: { limit: 'budget', session: state.id } },
      ),
    );
  }
  return { records: [{ type: 'budgetSet', ...(tokens === undefined ? {} : { tokens }) }], effects: joins(state) };
}

/** The parent has a budget now. The tokens that this session has used are reported in the same batch. */
export function decideJoinBudget(state: SessionState): Decision {
  return state.budget?.isShared === true ? NOTHING : { records: [{ type: 'budgetShared' }], effects: joins(state) };
}

/** The effects that make the children join; none if their use counts for this session already. */
function joins({ budget, children }: SessionState): readonly Effect[] {
  if (budget !== undefined) return [];
  return [...children.keys()].map((child) => ({ type: 'sendToChild', child, input: { type: 'joinBudget' } }));
}

/** The number of descendants of a session. Counting stops once there are more than `BUDGET_JOINS_MAX`. */
function countBelow({ children }: SessionState, environment: Environment): number {
  let count = children.size;
  for (const child of children.keys()) {
    if (count > BUDGET_JOINS_MAX) break;
    const state = environment.stateOf?.(child);
    if (state !== undefined && state.children.size > 0) count += countBelow(state, environment);
  }
  return count;
}
