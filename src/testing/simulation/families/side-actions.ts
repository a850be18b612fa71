/**
 * The actions of an embedder beside its conversations: backups, budgets, dead letters, requests to children that have
 * ended, and readers of tenants. The seed decides which of these kinds a run has.
 *
 * Owns: which kinds a run has, and their draws. Does not own: what an action of each kind does.
 */
import { DeadLetterStories, type LetterActions } from '../letters/dead-letters.ts';
import type { SeededRandom } from '../seeded-random.ts';
import { TenantActions, tenantRandom } from '../tenants/tenant-actions.ts';
import { SimulatedBackups } from './backups.ts';
import { BudgetChanges, budgetRandom } from './budgets.ts';
import { FollowUps, followUpRandom } from './follow-ups.ts';
import type { LifeParts } from './life-actions.ts';

/** The actions of one life. */
interface Running {
  run(): Promise<void>;
  leave(): void;
}

/** See the head of the file. */
export class SideActions {
  /** The dead letters, if the run has them. */
  readonly letters: DeadLetterStories | undefined;
  /** The backups, if the run makes some. */
  readonly backups: SimulatedBackups | undefined;
  readonly #budgets: SeededRandom | undefined;
  readonly #followUps: SeededRandom | undefined;
  readonly #tenants: SeededRandom | undefined;

  /**
   * `removesHistory`: true if old history leaves the store. Then no backups are made: a backup without the old history
   * cannot be compared with the whole logs.
   */
  constructor(seed: number, removesHistory: boolean) {
    this.backups = removesHistory ? undefined : SimulatedBackups.draw(seed);
    this.#budgets = budgetRandom(seed);
    this.letters = DeadLetterStories.draw(seed);
    this.#followUps = followUpRandom(seed);
    this.#tenants = tenantRandom(seed);
  }

  /** Starts the actions of a life. Returns the function that stops them. */
  begin(parts: LifeParts): () => void {
    const followUps = this.#followUps && new FollowUps(parts, this.#followUps.fork());
    const running: readonly (Running | undefined)[] = [
      this.backups?.actions(parts),
      this.#budgetsOf(parts),
      this.#lettersOf(parts),
      followUps,
      this.#tenantsOf(parts),
    ];
    for (const each of running) void each?.run();
    return () => {
      for (const each of running) each?.leave();
    };
  }

  /** Lifts all budgets, so that the work of the last life can finish. */
  async lift(parts: LifeParts): Promise<void> {
    await this.#budgetsOf(parts)?.lift();
  }

  /** Finishes what the actions of all lives began. */
  async settle(parts: LifeParts): Promise<void> {
    await this.#lettersOf(parts)?.settle();
    await this.#tenantsOf(parts)?.settle();
  }

  #budgetsOf(parts: LifeParts): BudgetChanges | undefined {
    return this.#budgets && new BudgetChanges(parts, this.#budgets.fork());
  }

  #lettersOf(parts: LifeParts): LetterActions | undefined {
    return this.letters?.actions(parts);
  }

  #tenantsOf(parts: LifeParts): TenantActions | undefined {
    return this.#tenants && new TenantActions(parts, this.#tenants.fork());
  }
}
