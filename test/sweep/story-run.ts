/**
 * One run of a scenario: lives of a runtime over virtual time, one or two planned faults, recovery, and every check
 * afterwards. It always resolves, and the same plan gives the same run on any machine.
 */
import { SHARD_BOUNDS } from '../../src/base/bounds.ts';
import { StoreFullError, TroupeError } from '../../src/base/errors.ts';
import type { MemoryStore } from '../../src/journal/memory-store.ts';
import { handOver, type Runtime } from '../../src/runtime/handles/runtime.ts';
import { snapshotState } from '../../src/session/state/snapshot.ts';
import {
  checkErased,
  checkErasures,
  type ErasureParts,
  untilErased,
} from '../../src/testing/simulation/families/erasures.ts';
import { Faults } from '../../src/testing/simulation/faults.ts';
import { Invariants } from '../../src/testing/simulation/invariants.ts';
import { Ledger, type ToolStart, type Violation } from '../../src/testing/simulation/ledger.ts';
import { RunWatch } from '../../src/testing/simulation/run-watch.ts';
import { SeededRandom } from '../../src/testing/simulation/seeded-random.ts';
import { SimulatedMachine } from '../../src/testing/simulation/simulated-machine.ts';
import { SimulatedTools } from '../../src/testing/simulation/simulated-tools.ts';
import { type Reading, StoreReader, type Stories } from '../../src/testing/simulation/store-reading.ts';
import { SimulatedProcess, World } from '../../src/testing/simulation/world.ts';
import { type OperationKind, type PlannedFault, SweepDisk } from './faults.ts';
import { compareLines, isLine, type Part, type Scenario } from './scenario.ts';
import { Stage, type StoryEnd } from './stage.ts';
import { StoryModel, thinkerOf } from './story-model.ts';
import { storyTools } from './story-tools.ts';

/** Options of a run. */
export interface RunOptions {
  /** The operations that fail, and how they fail. */
  readonly plan: readonly PlannedFault[];
  /** Tampers with the checked data between the last close and the last reading: for tests of the checks themselves. */
  readonly doctor?: (stores: readonly MemoryStore[], ledger: Ledger) => void | Promise<void>;
}

/** The result of a run. */
export interface RunResult {
  /** Kinds of the operations of all lives except the last, which only reads. Index 0 is operation 1. */
  readonly operations: readonly OperationKind[];
  /** Numbers of the planned operations that were reached. */
  readonly struck: readonly number[];
  readonly violations: readonly Violation[];
  readonly trace: readonly string[];
  readonly lives: number;
}

/** The seed that orders simultaneous events. */
const SEED = 7;
/** Lives that one part of a story may need: a few more than there are faults. */
const LIVES_MAX = 8;
/** Virtual ms a service waits before it opens a store again after a failed attempt. */
const OPEN_AGAIN_MS = 1_000;
const CLOSE_MS = 5_000;

/** Plays a scenario with the faults of a plan. */
export async function runStory(scenario: Scenario, options: RunOptions): Promise<RunResult> {
  return new StoryRun(scenario, options).run();
}

class StoryRun {
  readonly #scenario: Scenario;
  readonly #options: RunOptions;
  readonly #ledger = new Ledger();
  readonly #watch = new RunWatch(this.#ledger, (text) => this.#note(text));
  readonly #world: World;
  readonly #disk: SweepDisk;
  readonly #machine: SimulatedMachine;
  readonly #model: StoryModel;
  readonly #threadTools: SimulatedTools;
  readonly #invariants: Invariants;
  /** Only removed history has to be remembered from one reading to the next. */
  readonly #keptReader: StoreReader | undefined;
  readonly #harness = new SimulatedProcess('harness');
  readonly #outside = new Set<string>();
  readonly #running = new Set<string>();
  readonly #trace: string[] = [];
  #end: StoryEnd | undefined;
  #lives = 0;

  constructor(scenario: Scenario, options: RunOptions) {
    this.#scenario = scenario;
    this.#options = options;
    const random = new SeededRandom(SEED);
    const faults = new Faults(random.fork(), new Set());
    faults.off();
    this.#world = new World(random.fork(), this.#watch);
    this.#disk = new SweepDisk(options.plan, scenario.sessionThreads === true ? 'thread' : 'process');
    const shared = {
      world: this.#world,
      faults,
      ledger: this.#ledger,
      incarnationOf: (session: string): number => this.#machine.incarnationOf(session),
      incarnationAgeMs: (session: string): number => this.#machine.incarnationAgeMs(session),
      toolStart: (session: string, process: SimulatedProcess, attempt: number): ToolStart =>
        this.#machine.toolStart(session, process, attempt),
      trace: (text: string): void => this.#note(text),
    };
    this.#model = new StoryModel({ ...shared, answer: scenario.model, outside: this.#outside });
    // Faults are those of the scenario: no tool ends the process.
    this.#threadTools = new SimulatedTools({ ...shared, crash: () => undefined });
    this.#machine = new SimulatedMachine({
      ...shared,
      bounds: { ...SHARD_BOUNDS, ...scenario.bounds },
      shards: scenario.shards ?? 1,
      model: this.#model,
      tools: this.#threadTools,
      disk: this.#disk,
      crashed: (process, why) => {
        this.#note(`crash ${why}`);
        process.kill();
      },
    });
    this.#keptReader = scenario.retention && new StoreReader(this.#machine.stores, { removesHistory: true });
    this.#invariants = new Invariants(this.#ledger, shared.incarnationOf);
  }

  async run(): Promise<RunResult> {
    let operations: readonly OperationKind[] = [];
    await this.#watch.run(this.#world, this.#harness, async () => {
      const count = await this.#drive();
      operations = this.#disk.operations.slice(0, count);
    });
    const { violations } = this.#ledger;
    return { operations, struck: this.#disk.struck, violations, trace: this.#trace, lives: this.#lives };
  }

  /**
   * Plays each part until its orderly close, and then runs the checks. Resolves to the number of operations
   * of the story.
   */
  async #drive(): Promise<number> {
    const { parts } = this.#scenario;
    for (const [index, part] of parts.entries()) {
      if (part.afterMs !== undefined) await this.#world.sleep(this.#harness, part.afterMs);
      if (!(await this.#playToTheEnd(part, index === parts.length - 1))) return this.#disk.operations.length;
    }
    const operations = this.#disk.operations.length;
    await this.#doctor();
    const reading = await this.#check();
    this.#invariants.checkFinished(reading.stories);
    this.#checkReaders(reading.stories);
    if (this.#scenario.erases === true) checkErased(this.#erasures());
    if (this.#end !== undefined) this.#checkEnding(this.#end);
    if (this.#ledger.violations.length === 0) await this.#reopen(reading);
    return operations;
  }

  /** Lets a test tamper for real ticks of the event loop, while the world still counts as running. */
  async #doctor(): Promise<void> {
    let isDone = false;
    const wait = (): void => {
      if (!isDone) this.#world.schedule(this.#harness, 0, wait);
    };
    wait();
    await this.#options.doctor?.(this.#machine.stores, this.#ledger);
    isDone = true;
  }

  /** Runs lives of one part until one of them closed in good order; false after a violation. */
  async #playToTheEnd(part: Part, isLast: boolean): Promise<boolean> {
    for (let life = 0; life < LIVES_MAX; life += 1) {
      const process = this.#begin();
      const closed = await process.untilDeath(this.#live(process, part, isLast));
      process.kill();
      await this.#check();
      if (this.#ledger.violations.length > 0) return false;
      if (closed === true) return true;
    }
    this.#ledger.violate('stuck', 'a part of the story never came to its end');
    return false;
  }

  #begin(): SimulatedProcess {
    this.#lives += 1;
    this.#note(`life ${this.#lives}`);
    this.#running.clear();
    // The disk has room again before the service restarts.
    this.#disk.isFull = false;
    return new SimulatedProcess(`life ${this.#lives}`, this.#harness);
  }

  /** One life: true when it closed in good order. */
  async #live(process: SimulatedProcess, part: Part, isLast: boolean): Promise<boolean> {
    const runtime = await this.#open(process);
    if (runtime === undefined) return false;
    const stage = new Stage({
      process,
      runtime,
      world: this.#world,
      ledger: this.#ledger,
      outside: this.#outside,
      running: this.#running,
      setFull: (isFull) => {
        this.#note(isFull ? 'the disk is full' : 'the disk has room');
        this.#disk.isFull = isFull;
      },
      trace: (text) => this.#note(text),
    });
    try {
      await part.act(stage);
      if (part.drains !== false) await stage.drain();
      if (isLast && this.#scenario.erases === true) await untilErased(this.#erasures(), undefined);
      if (isLast) this.#end = await stage.end();
    } catch (error) {
      if (process.isAlive) this.#watch.uncaught(process, error);
    }
    stage.leave();
    return this.#close(runtime, part);
  }

  async #close(runtime: Runtime, { closeMs: deadlineMs = CLOSE_MS, isTakenOver = false }: Part): Promise<boolean> {
    this.#note(isTakenOver ? 'taken over' : 'close');
    try {
      await (isTakenOver ? handOver(runtime, { pid: 1, deadlineMs }) : runtime.close({ deadlineMs }));
      return true;
    } catch (error) {
      this.#note(`close failed: ${String(error)}`);
      if (!(error instanceof StoreFullError)) this.#watch.uncaught(this.#harness, error);
      return false;
    }
  }

  /** Opens the runtime, and tries again when the store refuses; undefined after a violation. */
  async #open(process: SimulatedProcess): Promise<Runtime | undefined> {
    const scenario = this.#scenario;
    const { shards = 1, sessionThreads, modelThreads: models = 0 } = scenario;
    for (;;) {
      try {
        return await this.#machine.open(process, {
          agents: scenario.agents(this.#tools(process)),
          // A value runs on the host. With model threads the provider is data, and each thread builds its own.
          provider: models > 0 ? { kind: 'module', url: 'simulated:model' } : this.#model.providerOf(process),
          threads: { sessions: sessionThreads === true ? shards : 0, models, tools: 2 },
          logger: this.#watch.logger(),
          ...(scenario.durability === undefined ? {} : { durability: scenario.durability }),
          ...(scenario.retention === undefined ? {} : { retention: scenario.retention }),
          ...(scenario.limits === undefined ? {} : { limits: scenario.limits }),
          settings: { ...scenario.settings, llm: { model: thinkerOf(scenario.name), ...scenario.settings?.llm } },
        });
      } catch (error) {
        this.#note(`open failed: ${String(error)}`);
        // The store refused, or the thread died before it was ready.
        if (!(error instanceof TroupeError && error.retryable)) {
          this.#watch.uncaught(process, error);
          return undefined;
        }
      }
      await this.#world.sleep(process, OPEN_AGAIN_MS);
    }
  }

  #tools(process: SimulatedProcess): ReturnType<typeof storyTools> {
    const parts = {
      world: this.#world,
      ledger: this.#ledger,
      incarnationOf: (session: string): number => this.#machine.incarnationOf(session),
      toolStart: (session: string, process: SimulatedProcess): ToolStart =>
        this.#machine.toolStart(session, process, 1),
      trace: (text: string): void => this.#note(text),
      running: this.#running,
    };
    return storyTools(parts, process);
  }

  /** A store that was closed in good order opens without recovery and stays unchanged. */
  async #reopen({ stories: before }: Reading): Promise<void> {
    const process = this.#begin();
    const looked = await process.untilDeath(
      this.#open(process).then(async (runtime) => {
        await runtime?.drain();
        await runtime?.close({ deadlineMs: 0 });
        return true;
      }),
    );
    process.kill();
    if (looked !== true) this.#ledger.violate('failed', 'what was closed without a fault did not open again');
    const { stories: after } = await this.#check();
    for (const id of new Set([...before.keys(), ...after.keys()])) {
      const [was, is] = [before.get(id), after.get(id)];
      const isSame =
        was !== undefined &&
        is !== undefined &&
        was.events.length === is.events.length &&
        snapshotState(was.state) === snapshotState(is.state);
      if (!isSame) this.#ledger.violate('changed', `${id} was closed without a fault, but opening it again changed it`);
    }
  }

  // ---- checks -------------------------------------------------------------------------------------------------------

  async #check(): Promise<Reading> {
    const reading = await (this.#keptReader ?? new StoreReader(this.#machine.stores)).read();
    this.#invariants.check(reading);
    checkErasures(this.#erasures());
    return reading;
  }

  #erasures(): ErasureParts {
    const { stores, results } = this.#machine;
    return { stores, results, ledger: this.#ledger, world: this.#world, harness: this.#harness };
  }

  /** I2 up to the last event: every reader read all events. */
  #checkReaders(stories: Stories): void {
    for (const [session, received] of this.#ledger.events) {
      const events = stories.get(session)?.events.length ?? 0;
      if (received.size !== events)
        this.#ledger.violate('lost', `${received.size} of ${events} events of ${session} were published`);
    }
  }

  #checkEnding({ logs, answers, replies }: StoryEnd): void {
    const { ending } = this.#scenario;
    for (const session of new Set([...logs.keys(), ...Object.keys(ending.logs)])) {
      const problem = compareLines(logs.get(session) ?? [], ending.logs[session] ?? []);
      if (problem !== undefined) this.#ledger.violate('changed', `the log of ${session} ${problem}`);
    }
    for (const [received, expected, what] of [
      [answers, ending.answers ?? {}, 'answer'],
      [replies, ending.replies ?? {}, 'reply'],
    ] as const) {
      for (const [uid, wanted] of Object.entries(expected)) {
        const found = received.get(uid) ?? 'nothing';
        if (!isLine(found, wanted))
          this.#ledger.violate('changed', `the ${what} of ${uid} is ${found}, must be ${String(wanted)}`);
      }
    }
  }

  // ---- surroundings -------------------------------------------------------------------------------------------------

  #note(text: string): void {
    this.#trace.push(`${(this.#world.elapsedMs / 1_000).toFixed(3).padStart(10)} ${text}`);
  }
}
