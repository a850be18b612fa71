/**
 * The troubles of whole providers, for runs whose agents have several models. A provider is away for a while, asks for
 * a long wait, refuses the credentials, or declines to answer. The process may die while a session moves to another
 * model.
 *
 * Owns: the time until which each provider is away. Does not own: the errors in the form of each provider.
 */
import { type FaultKind, Faults, PROVIDER_FAULT_KINDS } from '../faults.ts';
import type { SeededRandom } from '../seeded-random.ts';
import type { SimulatedProcess, World } from '../world.ts';
import { NORTH, SOUTH } from './agent-models.ts';

/** A failed call: the status and the message of the server. */
export interface Trouble {
  readonly status: number;
  readonly message: string;
  readonly retryAfterMs?: number;
}

/** Maximum milliseconds that a provider is away: longer than all retries of a call. */
const AWAY_MS = 900_000;
/** Maximum milliseconds between a failure and a crash: about two writes of the store. */
const CRASH_MS = 30;
const WAITS_MS = [15_000, 120_000, 600_000];

/** The parts of the simulation that the troubles need. */
export interface TroubleSurroundings {
  readonly world: World;
  /** The run's other faults. When they stop, the troubles of providers stop, too. */
  readonly faults: Pick<Faults, 'isOn'>;
  /** Ends the runtime's process. */
  readonly crash: (why: string) => void;
}

/** See the head of the file. */
export class ProviderTroubles {
  readonly #surroundings: TroubleSurroundings;
  readonly #random: SeededRandom;
  readonly #kinds: Faults;
  /** Virtual ms until which a provider is away. */
  readonly #awayUntil = new Map<string, number>();

  /** `random`: a stream that no other draw uses. `only`: enables exactly these faults. */
  constructor(surroundings: TroubleSurroundings, random: SeededRandom, only?: ReadonlySet<FaultKind>) {
    this.#surroundings = surroundings;
    this.#random = random;
    this.#kinds = new Faults(random.fork(), only, PROVIDER_FAULT_KINDS);
  }

  /** The kinds of faults that may strike in this run. */
  get enabled(): readonly FaultKind[] {
    return this.#kinds.enabled;
  }

  /** How often each kind of fault struck. */
  get counts(): ReadonlyMap<FaultKind, number> {
    return this.#kinds.counts;
  }

  /**
   * The trouble of a call of a provider. Undefined: the call is answered. `process`: the process that makes the call.
   */
  of(provider: string, process: SimulatedProcess): Trouble | undefined {
    const trouble = this.#drawn(provider);
    if (trouble !== undefined) this.#mayCrash(process);
    return trouble;
  }

  /** True if the provider declines to answer this call. */
  declines(process: SimulatedProcess): boolean {
    const isDeclined = this.#strikes('provider.declines', 0.1);
    if (isDeclined) this.#mayCrash(process);
    return isDeclined;
  }

  #drawn(provider: string): Trouble | undefined {
    const { world, faults } = this.#surroundings;
    if (this.#strikes('provider.away', 0.08)) {
      const until = world.elapsedMs + this.#random.between(0, AWAY_MS);
      // Both providers may be away at the same time.
      const away = this.#random.chance(0.4) ? [NORTH, SOUTH] : [provider];
      for (const each of away) this.#awayUntil.set(each, until);
    }
    if (faults.isOn && world.elapsedMs < (this.#awayUntil.get(provider) ?? 0)) {
      return { status: 529, message: 'overloaded for all callers' };
    }
    if (this.#strikes('provider.paused', 0.05)) {
      return { status: 429, message: 'later', retryAfterMs: this.#random.pick(WAITS_MS) };
    }
    return this.#strikes('provider.refused', 0.03) ? { status: 401, message: 'invalid key' } : undefined;
  }

  #strikes(kind: FaultKind, probability: number): boolean {
    return this.#surroundings.faults.isOn && this.#kinds.strikes(kind, probability);
  }

  #mayCrash(process: SimulatedProcess): void {
    const { world, crash } = this.#surroundings;
    if (!this.#strikes('provider.crash', 0.15)) return;
    world.schedule(process, this.#random.between(0, CRASH_MS), () => crash('in the middle of a move'));
  }
}
