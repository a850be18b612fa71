/**
 * Budgets of the session trees of a run (I29 of `invariants.ts`): the embedder sets, raises and removes them at random.
 * The checks compare what each budget counted with the logs.
 *
 * Owns: the schedule of these changes, drawn from a stream of random numbers that nothing else uses. Does not own: the
 * budgets.
 */
import { tokensOf } from '../../../base/messages.ts';
import type { SessionState } from '../../../session/state/state.ts';
import type { Ledger } from '../ledger.ts';
import type { SeededRandom } from '../seeded-random.ts';
import type { Stories } from '../store-reading.ts';
import { agentOfSession } from '../swarm.ts';
import { drawnFor, LifeActions, type LifeParts } from './life-actions.ts';

/** Share of all runs that have budgets. */
const SHARE = 0.25;
/** Separates the stream of these draws from that of the whole run. */
const STREAM = 0x5eed_b0d9;
/** Maximum number of changes in one life. */
const CHANGES_MAX = 6;

/** The random numbers of a run with budgets; undefined: the run has none. */
export function budgetRandom(seed: number): SeededRandom | undefined {
  return drawnFor(seed, STREAM, SHARE);
}

/** Changes budgets during one life of the process. */
export class BudgetChanges {
  readonly #parts: LifeParts;
  readonly #random: SeededRandom;
  readonly #actions: LifeActions;

  constructor(parts: LifeParts, random: SeededRandom) {
    this.#parts = parts;
    this.#random = random;
    this.#actions = new LifeActions(parts, random);
  }

  /** Changes budgets at random moments, until the process dies or `leave` is called. */
  run(): Promise<void> {
    const { swarm } = this.#parts;
    return this.#actions.run(CHANGES_MAX, () =>
      this.#set(`s${this.#random.between(0, swarm.sessions - 1)}`, this.#drawTokens()),
    );
  }

  /** Stops the changes of `run`. */
  leave(): void {
    this.#actions.leave();
  }

  /** Removes every budget, so that all work can end. */
  async lift(): Promise<void> {
    this.leave();
    for (const { id } of await this.#parts.runtime.sessions.list({ order: 'id', limit: 10_000 })) {
      await this.#set(id, null);
    }
  }

  /** Draws a budget, or none. Some budgets are used up at once, and some never. */
  #drawTokens(): number | null {
    const random = this.#random;
    return random.pick([null, 1, random.between(100, 2_000), random.between(1_000, 20_000)]);
  }

  #set(session: string, tokens: number | null): Promise<void> {
    const { runtime, trace, process } = this.#parts;
    return this.#actions.attempts.attempt('budget', async () => {
      await runtime.session(session, agentOfSession(session)).setBudget(tokens);
      if (process.isAlive) trace(`the budget of ${session} is ${tokens}`);
    });
  }
}

/** Checks that each budget counted each token of its session and of all sessions below that session once. */
export function checkBudgets(ledger: Ledger, stories: Stories): void {
  const usedBy = (state: SessionState): number => {
    let used = tokensOf(state.usage);
    for (const child of state.children.keys()) {
      const story = stories.get(child);
      if (story !== undefined) used += usedBy(story.state);
    }
    return used;
  };
  for (const { id, state } of stories.values()) {
    if (state.budget === undefined || ledger.isDeleted(id)) continue;
    const counted = tokensOf(state.usage) + state.budget.below;
    const used = usedBy(state);
    if (counted !== used) ledger.violate('changed', `the budget of ${id} counted ${counted} of ${used} tokens (I29)`);
  }
}
