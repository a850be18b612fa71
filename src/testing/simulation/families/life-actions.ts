/**
 * Actions of an embedder at random moments of one life (see `invariants.ts`), beside its conversations.
 *
 * Owns: the moments, drawn from a stream that no other draw uses; the requests without an answer. Does not own: what an
 * action does.
 */
import type { Runtime } from '../../../runtime/handles/runtime.ts';
import { Attempts } from '../attempts.ts';
import type { Ledger } from '../ledger.ts';
import { SeededRandom } from '../seeded-random.ts';
import type { Swarm } from '../swarm.ts';
import type { SimulatedProcess, World } from '../world.ts';

/** The parts that the actions of one life need. */
export interface LifeParts {
  readonly process: SimulatedProcess;
  readonly world: World;
  readonly ledger: Ledger;
  readonly swarm: Swarm;
  readonly runtime: Runtime;
  readonly life: number;
  readonly trace: (text: string) => void;
}

/**
 * The random numbers of a kind of action; undefined: the run has no such actions. `share`: the share of all runs that
 * have them. `stream`: separates their draws from all other draws.
 */
export function drawnFor(seed: number, stream: number, share: number): SeededRandom | undefined {
  const random = new SeededRandom((seed ^ stream) >>> 0);
  return random.chance(share) ? random : undefined;
}

/** See the head of the file. */
export class LifeActions {
  readonly attempts: Attempts;
  /** Makes a name that no other request of the run has. */
  readonly uid: (prefix: string) => string;
  readonly #parts: LifeParts;
  readonly #random: SeededRandom;
  #count = 0;

  /** `mark`: a part of the names of these requests, so that two kinds of actions use different names. */
  constructor(parts: LifeParts, random: SeededRandom, mark = '') {
    this.#parts = parts;
    this.#random = random;
    this.uid = (prefix) => {
      this.#count += 1;
      return `${prefix}${mark}${parts.life}x${this.#count}`;
    };
    this.attempts = new Attempts({ ...parts, uid: this.uid });
  }

  /**
   * Calls `act` at `count` random moments. If `act` returns a promise, the next moment comes after that promise. Stops
   * when the process dies, and after `leave`.
   */
  async run(count: number, act: () => Promise<void> | undefined): Promise<void> {
    const { world, process, swarm } = this.#parts;
    for (let action = 0; action < count; action += 1) {
      await world.sleep(process, (this.#random.number() * swarm.lifeMs) / count);
      if (this.attempts.isLeaving) return;
      const acted = act();
      if (acted !== undefined) await acted;
    }
  }

  /** Stops the actions. */
  leave(): void {
    this.attempts.leave();
  }
}
