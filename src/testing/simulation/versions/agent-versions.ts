/**
 * Runs whose agents have versions (I32 of `invariants.ts`): a life may deploy the next version. The definitions of
 * earlier versions are kept beside the new ones, or are missing until a later life.
 *
 * Owns: the version of each life, and what its `upgrade` functions do, drawn from a stream that no other draw uses.
 * Does not own: when a session moves.
 */
import type { Runtime } from '../../../runtime/handles/runtime.ts';
import { type Agent, type AgentOptions, agent } from '../../../runtime/protocol/agent.ts';
import type { HistoryEdit } from '../../../runtime/protocol/upgrade.ts';
import type { AnyTool } from '../../../tools/tool.ts';
import type { Ledger } from '../ledger.ts';
import { SeededRandom } from '../seeded-random.ts';
import type { Stories } from '../store-reading.ts';
import type { SimulatedProcess, World } from '../world.ts';

/** The parts of the run that the functions of agents use. */
export interface VersionSurroundings {
  readonly world: World;
  readonly ledger: Ledger;
  readonly areFaultsOn: () => boolean;
  readonly trace: (text: string) => void;
}

/** The definitions of one life. */
interface LifePlan {
  readonly version: number;
  /** True if the definitions of earlier versions are missing. */
  readonly isAlone: boolean;
}

/** Share of the runs with versions. */
const SHARE = 0.2;
/** Separates the stream of these draws from that of the whole run. */
const STREAM = 0x5eed_7e41;
/** Most virtual milliseconds that an `upgrade` function takes. */
const UPGRADE_MS_MAX = 5_000;
/** Finds the version in an agent's prompt. */
const NAMED = /This is version (v\d+)\./u;

/** The version of the agent in a system prompt; undefined: none, as in a request of an enricher. */
export function versionNamed(system: unknown): string | undefined {
  return NAMED.exec(JSON.stringify(system) ?? '')?.[1];
}

/** See the head of the file. */
export class SimulatedVersions {
  readonly #random: SeededRandom;
  readonly #surroundings: VersionSurroundings;
  readonly #lives: LifePlan[] = [];
  #edits = 0;

  private constructor(random: SeededRandom, surroundings: VersionSurroundings) {
    this.#random = random;
    this.#surroundings = surroundings;
  }

  /** The versions of a run; undefined: the run has none. */
  static draw(seed: number, surroundings: VersionSurroundings): SimulatedVersions | undefined {
    const random = new SeededRandom((seed ^ STREAM) >>> 0);
    return random.chance(SHARE) ? new SimulatedVersions(random, surroundings) : undefined;
  }

  /**
   * The definitions of a life. `hasAll`: the life finishes all work, so no version is missing. `values`: the tools that
   * run on the host.
   */
  definitions(
    agents: readonly Agent[],
    process: SimulatedProcess,
    { life, hasAll, values }: { readonly life: number; readonly hasAll: boolean; readonly values: readonly AnyTool[] },
  ): readonly Agent[] {
    const { version, isAlone } = this.#planOf(life);
    const first = isAlone && !hasAll ? version : 1;
    this.#surroundings.trace(`agents of version v${version}, kept from v${first}`);
    const definitions: Agent[] = [];
    for (let each = first; each <= version; each += 1) {
      for (const unversioned of agents) definitions.push(this.#versioned(unversioned, `v${each}`, process, values));
    }
    return definitions;
  }

  /**
   * Tries failed moves to a version again until the process ends. Without a repetition, the sessions would stay blocked
   * as long as the process lives.
   */
  async retry(process: SimulatedProcess, runtime: Runtime): Promise<void> {
    for (;;) {
      await this.#surroundings.world.sleep(process, UPGRADE_MS_MAX * 4);
      // The store may refuse writes, and the runtime may close; the next life tries again.
      await runtime.resume().catch((error: unknown) => this.#surroundings.trace(`not resumed: ${String(error)}`));
    }
  }

  /**
   * Checks that the last turn of each session has the current version. Called after the last life, in which every
   * session was sent a message. `life`: the number of that life.
   */
  checkFinished(stories: Stories, life: number): void {
    const { ledger } = this.#surroundings;
    const current = `v${this.#planOf(life).version}`;
    for (const session of new Set([...ledger.messages.values()].map((story) => story.session))) {
      const story = stories.get(session);
      const version = story?.state.version;
      if (ledger.isDeleted(session) || version === current || story?.versions.isContinued === true) continue;
      ledger.violate(
        'failed',
        `the last turn of ${session} has version ${version}, ${current} is the current one (I32)`,
      );
    }
  }

  #planOf(life: number): LifePlan {
    for (let each = this.#lives.length; each < life; each += 1) {
      const before = this.#lives.at(-1)?.version ?? 0;
      const version = before === 0 || this.#random.chance(0.7) ? before + 1 : before;
      this.#lives.push({ version, isAlone: this.#random.chance(0.3) });
    }
    return this.#lives[life - 1] ?? { version: 1, isAlone: false };
  }

  #versioned(given: Agent, version: string, process: SimulatedProcess, values: readonly AnyTool[]): Agent {
    // `Object.entries` leaves out the symbol that marks a checked agent.
    const { name, tools = [], ...options } = Object.fromEntries(Object.entries(given)) as unknown as AgentOptions;
    const noted = tools.map((tool) =>
      values.includes(tool as AnyTool) ? this.#noted(tool as AnyTool, version) : tool,
    );
    const system = `${String(options.system)} This is version ${version}.`;
    const upgrades = this.#random.chance(0.6);
    const upgrade = (): Promise<readonly HistoryEdit[]> => this.#upgrade(process, version);
    return agent({ ...options, name, tools: noted, version, system, ...(upgrades ? { upgrade } : {}) });
  }

  /** A copy of the tool that notes the version of its definition at each run and each probe. */
  #noted(tool: AnyTool, version: string): AnyTool {
    const { ledger } = this.#surroundings;
    const { probe } = tool;
    const note = (key: string): void => {
      const versions = ledger.toolVersions.get(key) ?? new Set();
      ledger.toolVersions.set(key, versions.add(version));
    };
    const run: AnyTool['run'] = (input, context) => {
      note(context.key);
      return tool.run(input, context);
    };
    if (probe === undefined) return { ...tool, run };
    const noting: AnyTool['probe'] = (context) => {
      note(context.key);
      return probe(context);
    };
    return { ...tool, run, probe: noting };
  }

  async #upgrade(process: SimulatedProcess, version: string): Promise<readonly HistoryEdit[]> {
    const { world, areFaultsOn } = this.#surroundings;
    await world.sleep(process, this.#random.between(0, UPGRADE_MS_MAX));
    const draw = this.#random.number();
    if (draw < 0.2 && areFaultsOn()) throw new Error(`no upgrade to ${version}`);
    if (draw < 0.6) return [];
    this.#edits += 1;
    const content = `upgraded to ${version}, edit ${this.#edits}`;
    const edits: HistoryEdit[] = [{ operation: 'add', message: { role: 'user', content } }];
    if (draw < 0.8) edits.unshift({ operation: 'replaceSystemPrompt', text: `Prompt ${this.#edits}.` });
    return edits;
  }
}
