/**
 * Actions of an embedder at random moments of one life, beside its conversations.
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

/** The random numbers of a kind of action; undefined: the run has none. `share`: of all runs. `stream`: of this kind. */
export function drawnFor(seed: number, stream: number, share: number): SeededRandom | undefined {
  const random = new SeededRandom((seed ^ stream) >>> 0);
  return random.chance(share) ? random : undefined;
}

/** See the head of the file. */
export class LifeActions {
  readonly attempts: Attempts;
  /** A name that no other request of the run has. */
  readonly uid: (prefix: string) => string;
  readonly #parts: LifeParts;
  readonly #random: SeededRandom;
  #count = 0;

  /** `mark`: is in the names of these requests, so that those of two kinds differ. */
  constructor(parts: LifeParts, random: SeededRandom, mark = '') {
    this.#parts = parts;
    this.#random = random;
    this.uid = (prefix) => {
      this.#count += 1;
      return `${prefix}${mark}${parts.life}x${this.#count}`;
    };
    this.attempts = new Attempts({ ...parts, uid: this.uid });
  }

  /** `act` returns nothing if the next moment need not wait for it. Ends with the process, or after `leave`. */
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
