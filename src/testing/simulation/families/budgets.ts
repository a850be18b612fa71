/**
 * Budgets of the session trees of a run (I29 of `invariants.ts`): the embedder sets, raises and removes them at random.
 * The checks compare what each budget counted with the logs.
 *
 * Owns: the schedule of these changes, drawn from a stream of random numbers that nothing else uses. Does not own: the
 * budgets.
 */
import { tokensOf } from '../../../base/messages.ts';
import type { Runtime } from '../../../runtime/handles/runtime.ts';
import type { SessionState } from '../../../session/state/state.ts';
import { Attempts } from '../attempts.ts';
import type { Ledger } from '../ledger.ts';
import { SeededRandom } from '../seeded-random.ts';
import type { Stories } from '../store-reading.ts';
import { agentOfSession, type Swarm } from '../swarm.ts';
import type { SimulatedProcess, World } from '../world.ts';

/** The parts that the changes need during one life of the process, from its start to its end. */
export interface BudgetParts {
  readonly process: SimulatedProcess;
  readonly world: World;
  readonly ledger: Ledger;
  readonly swarm: Swarm;
  readonly runtime: Runtime;
  readonly life: number;
  readonly trace: (text: string) => void;
}

/** Share of all runs that have budgets. */
const SHARE = 0.25;
/** Separates the stream of these draws from that of the whole run. */
const STREAM = 0x5eed_b0d9;
/** Maximum number of changes in one life. */
const CHANGES_MAX = 6;

/** The random numbers of a run with budgets; undefined: the run has none. */
export function budgetRandom(seed: number): SeededRandom | undefined {
  const random = new SeededRandom((seed ^ STREAM) >>> 0);
  return random.chance(SHARE) ? random : undefined;
}

/** Changes budgets during one life of the process. */
export class BudgetChanges {
  readonly #parts: BudgetParts;
  readonly #random: SeededRandom;
  readonly #attempts: Attempts;
  #count = 0;

  constructor(parts: BudgetParts, random: SeededRandom) {
    this.#parts = parts;
    this.#random = random;
    const uid = (prefix: string): string => {
      this.#count += 1;
      return `${prefix}${parts.life}x${this.#count}`;
    };
    this.#attempts = new Attempts({ ...parts, uid });
  }

  /** Changes budgets at random moments, until the process dies or `leave` is called. */
  async run(): Promise<void> {
    const { world, process, swarm } = this.#parts;
    for (let change = 0; change < CHANGES_MAX; change += 1) {
      await world.sleep(process, (this.#random.number() * swarm.lifeMs) / CHANGES_MAX);
      if (this.#attempts.isLeaving) return;
      await this.#set(`s${this.#random.between(0, swarm.sessions - 1)}`, this.#drawTokens());
    }
  }

  /** Stops the changes of `run`. */
  leave(): void {
    this.#attempts.leave();
  }

  /** Removes every budget, so that all work can end. */
  async lift(): Promise<void> {
    this.leave();
    for (const { id } of await this.#parts.runtime.sessions.list({ order: 'id', limit: 10_000 })) {
      await this.#set(id, null);
    }
  }

  /** Some budgets are used up at once, and some never. */
  #drawTokens(): number | null {
    const random = this.#random;
    return random.pick([null, 1, random.between(100, 2_000), random.between(1_000, 20_000)]);
  }

  #set(session: string, tokens: number | null): Promise<void> {
    const { runtime, trace, process } = this.#parts;
    return this.#attempts.attempt('budget', async () => {
      await runtime.session(session, agentOfSession(session)).setBudget(tokens);
      if (process.isAlive) trace(`the budget of ${session} is ${tokens}`);
    });
  }
}

/** Checks that each budget counted the tokens of its session and of all sessions below it, each once. */
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
