/**
 * One simulated run of a fail-over pair, or of three nodes: each machine opens the product over its own copy, clock and
 * network, and over one database. Everything follows from the seed.
 *
 * The run has rounds with faults. In a round, nodes start, wait for the shards, work, lose them, die and start again. After
 * each round, and at the end, what the logs of the database stand for is checked as a single machine's store is
 * (`invariants.ts` of the simulator), against everything that any node acknowledged and published:
 *  C3 whatever was acknowledged by any node is in the final log, and what was published is in it, in order (I1, I2);
 *  C4 a key is accepted once over all nodes (I1);
 *  C5 a refused or fenced request is answered as unknown, never as "not done" (I1, and the error of a node that lost its
 *     shards);
 *  C6 a `once` tool starts at most once over all nodes (I4);
 *  C9 with faults gone, a node has the shards within two leases and a second, and everything ends; an outage of the
 *     database alone moves no shard, and ends no owner.
 * C1 and C2 are in `simulated-database.ts`, C7 and C8 in `cluster-node.ts`.
 */
import { defined } from '../../../src/base/defined.ts';
import { StoreCorruptError } from '../../../src/base/errors.ts';
import { shardOf } from '../../../src/base/ids.ts';
import type { ModelProvider } from '../../../src/models/provider.ts';
import type { Runtime } from '../../../src/runtime/handles/runtime.ts';
import type { Logger } from '../../../src/runtime/protocol/options.ts';
import { Embedder } from '../../../src/testing/simulation/embedder.ts';
import { FAULT_KINDS, type FaultKind, Faults } from '../../../src/testing/simulation/faults.ts';
import { Invariants } from '../../../src/testing/simulation/invariants.ts';
import type { Violation } from '../../../src/testing/simulation/ledger.ts';
import { RunWatch } from '../../../src/testing/simulation/run-watch.ts';
import { SeededRandom } from '../../../src/testing/simulation/seeded-random.ts';
import { SimulatedModel } from '../../../src/testing/simulation/simulated-model.ts';
import { SimulatedTools } from '../../../src/testing/simulation/simulated-tools.ts';
import { StoreReader, type Stories } from '../../../src/testing/simulation/store-reading.ts';
import {
  CHILDREN_AT_WORK_MAX,
  drawSwarm,
  type Swarm,
  swarmAgents,
  swarmRendering,
} from '../../../src/testing/simulation/swarm.ts';
import { SimulatedProcess } from '../../../src/testing/simulation/world.ts';
import { type ClusterFaultKind, ClusterFaults } from './cluster-faults.ts';
import { ClusterLedger } from './cluster-ledger.ts';
import { ClusterNode, Incarnations } from './cluster-node.ts';
import { LogStores } from './log-store.ts';
import { MachineWorld } from './machine-world.ts';
import { DatabaseServer } from './simulated-connection.ts';
import { SimulatedDatabase, type Takeover } from './simulated-database.ts';

/** Separates the draws of a cluster from those of a single machine with the same seed. */
const CLUSTER_STREAM = 0x1ea5_ed01;
/** Most trace lines kept. */
const TRACE_LINES = 400;
/** Faults of a single machine that a node has, too. Those of threads need threads, and clocks have their own here. */
const NODE_FAULTS: readonly FaultKind[] = FAULT_KINDS.filter(
  (kind) => !/^(?:thread|provider|webhook|clock|process)\./u.test(kind),
);
/** Faults after which calls of the model wait before they leave. */
const HOLDING_FAULTS: ReadonlySet<FaultKind> = new Set<FaultKind>([
  'model.rate_limited',
  'model.overloaded',
  'model.failed',
  'model.connection',
  'model.authentication',
  'model.outage',
]);
/** Virtual milliseconds within which the last owner must finish its work. */
const SETTLE_MS = 24 * 3_600_000;
/** The share by which the clocks of a node may be fast or slow: less than the rest of a lease that is not believed. */
const DRIFT_MAX = 0.04;
/** Most milliseconds by which a wall clock is wrong. */
const SKEW_MS = 3_600_000;
/** How many writes a database goes back. */
const WRITES_BACK = [1, 5, 300] as const;
/** Milliseconds beyond two leases within which a node must have the shards (C9). */
const OWNER_GRACE_MS = 1_000;

/** Attempts to finish all work over a damaged copy: one for each copy. */
const SETTLE_ATTEMPTS = 5;
/** Virtual milliseconds in which a damaged copy is built again. */
const REBUILT_MS = 10_000;

/** The options of a run. */
export interface ClusterSimulationOptions {
  readonly seed: number;
  /** Takes each line of the trace as it happens. */
  readonly onTrace?: (line: string) => void;
}

/** The result of a run. */
export interface ClusterSimulationResult {
  readonly seed: number;
  readonly violations: readonly Violation[];
  readonly trace: readonly string[];
  readonly simulatedMs: number;
  readonly lives: number;
  /** Claims of shards that another node had. */
  readonly takeovers: number;
  readonly messages: number;
  readonly modelCalls: number;
  readonly toolRuns: number;
  /** Entries of all logs. */
  readonly entries: number;
  /** How often each fault struck. */
  readonly faults: Readonly<Record<string, number>>;
  /** A digest of the whole trace. */
  readonly fingerprint: number;
}

/** Runs one seed. Always resolves: failures are in `violations`. */
export async function simulateCluster(options: ClusterSimulationOptions): Promise<ClusterSimulationResult> {
  return new ClusterSimulation(options).run();
}

/** A runtime that is open on a node. */
interface OpenNode {
  readonly process: SimulatedProcess;
  readonly runtime: Runtime;
  readonly embedder: Embedder;
}

class ClusterSimulation {
  readonly #options: ClusterSimulationOptions;
  readonly #random: SeededRandom;
  readonly #ledger = new ClusterLedger();
  readonly #watch = new RunWatch(this.#ledger, (text) => this.#note(text));
  readonly #faults: Faults;
  readonly #clusterFaults: ClusterFaults;
  readonly #world: MachineWorld;
  readonly #swarm: Swarm;
  readonly #harness = new SimulatedProcess('harness');
  readonly #database: SimulatedDatabase;
  readonly #server: DatabaseServer;
  readonly #incarnations: Incarnations;
  readonly #nodes: readonly ClusterNode[];
  readonly #tools: SimulatedTools;
  readonly #model: SimulatedModel;
  readonly #stores: LogStores;
  readonly #reader: StoreReader;
  readonly #invariants: Invariants;
  readonly #leaseMs: number;
  readonly #open = new Map<ClusterNode, OpenNode>();
  readonly #trace: string[] = [];
  #fingerprint = 0;
  #lives = 0;
  #takeovers = 0;
  #wentBackAtMs = Number.NEGATIVE_INFINITY;
  #isRoundOver = false;
  readonly #closings = new Set<Promise<void>>();
  /** True once everything is done: a node that opens only has to find it. */
  #isDone = false;

  constructor(options: ClusterSimulationOptions) {
    this.#options = options;
    this.#random = new SeededRandom((options.seed ^ CLUSTER_STREAM) >>> 0);
    const random = this.#random;
    this.#faults = new Faults(random.fork(), undefined, NODE_FAULTS);
    this.#clusterFaults = new ClusterFaults(random.fork());
    this.#world = new MachineWorld(random.fork(), this.#watch);
    // A node runs its shards in place, and all nodes have the same agents.
    const drawn = drawSwarm(random.fork());
    this.#swarm = { ...drawn, hasSessionThreads: false, models: 0, changesAgents: false };
    this.#leaseMs = random.pick([2_000, 10_000]);
    this.#database = new SimulatedDatabase(this.#swarm.shards, () => this.#world.elapsedMs, {
      violate: (what) => this.#ledger.violateLog(what),
      claimed: (takeover) => this.#claimed(takeover),
      trace: (text) => this.#note(text),
    });
    this.#ledger.isForked = () => this.#database.isForked;
    const trace = (text: string): void => this.#note(text);
    const shared = { world: this.#world, faults: this.#faults, ledger: this.#ledger, trace };
    this.#server = new DatabaseServer({
      ...shared,
      faults: this.#clusterFaults,
      process: this.#harness,
      database: this.#database,
      lateMs: this.#leaseMs * 2,
    });
    this.#incarnations = new Incarnations(this.#swarm.shards);
    const shardOfSession = (session: string): number => shardOf(session, this.#swarm.shards);
    const incarnationOf = (session: string): number => this.#incarnations.of(shardOfSession(session));
    const crash = (why: string): void => this.#crash(why);
    this.#model = new SimulatedModel({
      ...shared,
      crash,
      incarnationOf,
      incarnationAgeMs: (session) => this.#world.elapsedMs - this.#incarnations.begunMs(shardOfSession(session)),
    });
    this.#tools = new SimulatedTools({
      ...shared,
      crash,
      toolStart: (session, process, attempt) => {
        const node = this.#nodeOf(process);
        const shard = shardOfSession(session);
        node.begins(shard, `a tool of ${session}`);
        return node.toolStart(shard, process, attempt);
      },
    });
    const holdMs = random.pick([3_000, 15_000]);
    const names = ['a', 'b', 'c'].slice(0, random.pick([2, 2, 3]));
    this.#nodes = names.map(
      (name) =>
        new ClusterNode({
          ...shared,
          name,
          harness: this.#harness,
          server: this.#server,
          clusterFaults: this.#clusterFaults,
          incarnations: this.#incarnations,
          tools: () => this.#tools,
          bounds: this.#swarm.bounds,
          leaseMs: this.#leaseMs,
          holdMs,
        }),
    );
    this.#stores = new LogStores(this.#database);
    this.#reader = new StoreReader(this.#stores.stores, { rendering: swarmRendering(this.#swarm) });
    const { limits } = this.#swarm;
    this.#invariants = new Invariants(this.#ledger, incarnationOf, { limits, maxActive: CHILDREN_AT_WORK_MAX });
  }

  async run(): Promise<ClusterSimulationResult> {
    await this.#watch.run(this.#world, this.#harness, () => this.#drive());
    return this.#result();
  }

  async #drive(): Promise<void> {
    const enabled = [...this.#clusterFaults.enabled, ...this.#faults.enabled];
    this.#note(`faults: ${enabled.join(' ') || 'none'}; lease ${this.#leaseMs}; ${JSON.stringify(this.#swarm)}`);
    const rounds = this.#random.between(1, 2);
    const endsInPlace = this.#random.chance(0.5);
    for (let round = 1; round <= rounds; round += 1) {
      this.#note(`round ${round}`);
      const isLast = round === rounds && endsInPlace;
      await this.#round(isLast);
      if (isLast) break;
      this.#endNodes();
      await this.#check();
      if (this.#isOver()) return;
    }
    this.#faultsOff();
    if (!endsInPlace) await this.#quiet();
    this.#isRoundOver = false;
    const fromMs = this.#world.elapsedMs;
    for (const node of this.#nodes) this.#start(node);
    await this.#settle(fromMs);
    if (this.#isOver()) return;
    await this.#check();
    if (!this.#isOver()) this.#invariants.checkFinished((await this.#reader.read()).stories);
    if (!this.#isOver()) await this.#handOver((await this.#reader.read()).stories);
  }

  #isOver(): boolean {
    return this.#ledger.violations.length > 0 || this.#database.isForked;
  }

  // ---- rounds -------------------------------------------------------------------------------------------------------

  /** Runs the nodes with faults. `endsInPlace`: the faults stop, and the nodes that live continue. */
  async #round(endsInPlace: boolean): Promise<void> {
    const world = this.#world;
    this.#isRoundOver = false;
    for (const node of this.#nodes)
      world.schedule(this.#harness, this.#random.number() * this.#leaseMs, () => this.#start(node));
    const endMs = world.elapsedMs + this.#random.pick([5, 12, 30]) * this.#leaseMs;
    while (world.elapsedMs < endMs) {
      await world.sleep(this.#harness, this.#random.number() * this.#leaseMs);
      this.#strike();
    }
    if (!endsInPlace) return;
    this.#note('no more faults');
    this.#faultsOff();
    await Promise.all(this.#closings);
    await this.#quiet();
  }

  /** Draws the faults that may strike now. */
  #strike(): void {
    const [random, faults, leaseMs] = [this.#random, this.#clusterFaults, this.#leaseMs];
    const node = random.pick(this.#nodes);
    const ms = random.number() * random.pick([0.5, 1.5, 4]) * leaseMs;
    if (faults.strikes('db.restart', 0.06)) {
      // An outage that is a little shorter than a lease ends some leases, and others not.
      const awayMs = random.chance(0.4) ? leaseMs * (0.7 + random.number() * 0.2) : ms;
      this.#note(`the database is away for ${Math.round(awayMs)} ms`);
      this.#server.restart(awayMs);
    }
    if (faults.strikes('db.went_back', 0.03)) {
      const entries = this.#database.goBack(random.pick(WRITES_BACK));
      this.#note(`the database goes back: ${entries} entries`);
      this.#wentBackAtMs = this.#world.elapsedMs;
      this.#server.restart(random.number() * 100);
    }
    if (faults.strikes('net.partition', 0.06)) this.#cut(node, ms, false);
    if (faults.strikes('net.late', 0.06)) this.#cut(node, ms, true);
    if (node.isAlive && faults.strikes('node.frozen', 0.06)) {
      this.#note(`${node.name} is frozen for ${Math.round(ms)} ms`);
      node.rest(ms, false);
    }
    if (node.isAlive && faults.strikes('node.suspended', 0.06)) {
      this.#note(`${node.name} is suspended for ${Math.round(ms)} ms`);
      node.rest(ms, true);
    }
    if (node.isAlive && faults.strikes('clock.skew', 0.05)) {
      node.time.skewMs = Math.round((random.number() * 2 - 1) * SKEW_MS);
      this.#note(`the clock of ${node.name} is wrong by ${node.time.skewMs} ms`);
    }
    if (node.isAlive && faults.strikes('copy.damaged', 0.05) && node.damage())
      this.#note(`a copy of ${node.name} is damaged`);
    if (node.isAlive && faults.strikes('node.killed', 0.05)) this.#kill(node, 'killed');
    if (this.#open.has(node) && random.chance(0.03)) this.#closings.add(this.#close(node));
  }

  #cut(node: ClusterNode, ms: number, isLate: boolean): void {
    const { network, name } = node;
    const untilMs = this.#world.elapsedMs + ms;
    const way = this.#random.pick(['statements', 'answers', 'packets'] as const);
    this.#note(`the ${way} of ${name} are ${isLate ? 'late' : 'lost'} for ${Math.round(ms)} ms`);
    if (way !== 'answers') network.statementsCutUntilMs = Math.max(network.statementsCutUntilMs, untilMs);
    if (way !== 'statements') network.answersCutUntilMs = Math.max(network.answersCutUntilMs, untilMs);
    network.isLate = isLate;
    network.troubledAtMs = Math.max(network.troubledAtMs, untilMs);
  }

  #faultsOff(): void {
    this.#faults.off();
    this.#clusterFaults.off();
  }

  /** Waits until the effects of earlier faults have ended. */
  async #quiet(): Promise<void> {
    for (;;) {
      const until = [
        this.#server.awayUntilMs,
        this.#server.quietFromMs,
        ...this.#nodes.flatMap(({ network, time }) => [
          network.statementsCutUntilMs,
          network.answersCutUntilMs,
          time.restsUntilMs,
        ]),
      ];
      const leftMs = Math.max(...until) - this.#world.elapsedMs;
      // Statements are on their way for a moment all the time.
      if (leftMs <= this.#server.packetMs) return;
      await this.#world.sleep(this.#harness, leftMs + 1);
    }
  }

  // ---- nodes --------------------------------------------------------------------------------------------------------

  #start(node: ClusterNode): void {
    if (node.isAlive || this.#isRoundOver) return;
    const faults = this.#clusterFaults;
    if (faults.strikes('copy.lost', 0.25)) {
      this.#note(`the copies of ${node.name} are lost`);
      node.loseCopies();
    }
    if (faults.strikes('copy.damaged', 0.15) && node.damage()) this.#note(`a copy of ${node.name} is damaged`);
    if (faults.strikes('clock.drift', 0.5)) node.time.rate = 1 + (this.#random.number() * 2 - 1) * DRIFT_MAX;
    this.#lives += 1;
    const life = this.#lives;
    const process = node.boot(life);
    process.onDeath(() => this.#startLater(node));
    this.#note(`${process.name} starts`);
    const opening = node.open(process, {
      agents: swarmAgents(this.#tools.valuesFor(process), this.#swarm, life),
      provider: this.#providerOf(process, node),
      threads: { sessions: 0, models: 0, tools: this.#swarm.toolThreads },
      durability: this.#swarm.durability,
      limits: this.#swarm.limits,
      settings: this.#swarm.settings,
      ...defined({ enrichers: this.#swarm.enrichers }),
      logger: this.#logger(),
    });
    opening.then(
      (runtime) => this.#opened(node, process, runtime, life),
      (error: unknown) => {
        if (!process.isAlive) return;
        this.#note(`${process.name} does not open: ${String(error)}`);
        this.#kill(node, 'gives up');
      },
    );
  }

  #opened(node: ClusterNode, process: SimulatedProcess, runtime: Runtime, life: number): void {
    if (!process.isAlive) return;
    this.#note(`${process.name} opens`);
    const embedder = new Embedder({
      process,
      runtime,
      world: this.#world,
      faults: this.#faults,
      ledger: this.#ledger,
      swarm: this.#swarm,
      deleteShare: 0.02,
      life,
      trace: (text) => this.#note(text),
    });
    this.#open.set(node, { process, runtime, embedder });
    if (!this.#isDone) embedder.start();
    void runtime.closed.then((end) => {
      if (!process.isAlive || end.reason !== 'moved') return;
      this.#note(`${process.name} has lost its shards to ${end.owner ?? 'a node without a name'}`);
      if (this.#database.ownerOf(0) === node.stay)
        this.#ledger.violate('failed', `${process.name} ended as moved, and no other node had its shards (C9)`);
      this.#kill(node, 'ends');
    });
  }

  /** Ends the process of a node. Every process that ends is followed by another. */
  #kill(node: ClusterNode, why: string): void {
    const { process } = node;
    if (process === undefined) return;
    this.#note(`${process.name} ${why}`);
    process.kill();
  }

  #startLater(node: ClusterNode): void {
    this.#open.delete(node);
    const delayMs = this.#random.number() * 2 * this.#leaseMs;
    this.#world.schedule(this.#harness, this.#faults.isOn ? delayMs : 0, () => this.#start(node));
  }

  /** Closes the runtime of a node in order. */
  async #close(node: ClusterNode): Promise<void> {
    const open = this.#open.get(node);
    if (open === undefined) return;
    this.#note(`${open.process.name} closes`);
    open.embedder.leave();
    this.#open.delete(node);
    const closing = open.runtime.close({ deadlineMs: this.#random.pick([0, 5_000]) });
    // If the log refuses the last writes, the close counts as a crash.
    await open.process.untilDeath(closing.catch((error: unknown) => this.#note(`close failed: ${String(error)}`)));
    if (open.process.isAlive) this.#kill(node, 'has closed');
  }

  #endNodes(): void {
    this.#isRoundOver = true;
    for (const { process } of this.#nodes) process?.kill();
  }

  /** Ends the process of the node that has the shards. */
  #crash(why: string): void {
    const node = this.#owner();
    if (node?.isAlive === true) this.#kill(node, `crashes ${why}`);
  }

  #owner(): ClusterNode | undefined {
    const owner = this.#database.ownerOf(0);
    return owner === null ? undefined : this.#nodes.find(({ stay }) => stay === owner);
  }

  #nodeOf(process: SimulatedProcess): ClusterNode {
    for (let each: SimulatedProcess | undefined = process; each !== undefined; each = each.parent) {
      const node = this.#nodes.find((candidate) => candidate.process === each);
      if (node !== undefined) return node;
    }
    throw new Error(`${process.name} runs on no node`);
  }

  /** C9: a lease that another node ended was that of a node in trouble. */
  #claimed({ from }: Takeover): void {
    const nowMs = this.#world.elapsedMs;
    if (from === undefined) return;
    this.#takeovers += 1;
    const node = this.#nodes.find(({ stay }) => stay === from);
    this.#note(`the shards of ${node?.process?.name ?? 'an earlier life'} are taken over`);
    const sinceMs = nowMs - 3 * this.#leaseMs;
    if (node === undefined || !node.isAlive || node.isTroubledSince(sinceMs) || this.#wentBackAtMs >= sinceMs) return;
    this.#ledger.violate('failed', `the shards of ${node.process?.name} were taken over, and it was well (C9)`);
  }

  #providerOf(process: SimulatedProcess, node: ClusterNode): ModelProvider {
    const provider = this.#model.providerOf(process);
    const mayWait = this.#faults.enabled.some((kind) => HOLDING_FAULTS.has(kind));
    return {
      ...provider,
      generate: (request, context) => {
        if (!process.isAlive) return provider.generate(request, context);
        // A call that was allowed before its node fell asleep, and leaves when it wakes up, is treated as lost.
        const shard = shardOf(context.session, this.#swarm.shards);
        const begins = node.begins(shard, `a call of ${context.session}`, mayWait);
        return begins ? provider.generate(request, context) : new Promise(() => undefined);
      },
    };
  }

  #logger(): Logger {
    const logger = this.#watch.logger();
    // A node whose database does not answer may close late.
    this.#watch.deviceFellSilent();
    if (!this.#clusterFaults.enabled.includes('copy.damaged')) return logger;
    // A transition that reads a damaged row fails, and the copy is built again.
    const write = (_fields: object, message: string): void => this.#note(`log: ${message}`);
    return { debug: write, info: write, warn: write, error: write };
  }

  // ---- the end ------------------------------------------------------------------------------------------------------

  /** Without faults the cluster gets an owner, which finishes all work. */
  async #settle(fromMs: number): Promise<void> {
    const world = this.#world;
    // A node that opens a damaged copy ends, and its lease with it; it opens again with an empty one.
    const leases = this.#ledger.isDamaged ? 4 : 2;
    await world.sleep(this.#harness, leases * this.#leaseMs + OWNER_GRACE_MS);
    const owner = this.#owner();
    if (owner === undefined || !owner.isAlive) {
      this.#ledger.violate('stuck', `no node has the shards ${world.elapsedMs - fromMs} ms after the last fault (C9)`);
      return;
    }
    const open = await this.#whenOpen();
    if (open === undefined) {
      this.#ledger.violate('stuck', 'the node that has the shards does not open (C9)');
      return;
    }
    const { process, runtime, embedder } = open;
    // Hours may pass, in which the others would ask for the shards all the time.
    this.#isRoundOver = true;
    for (const node of this.#nodes) if (node.process !== process) node.process?.kill();
    let isSettled = false;
    const settled = embedder
      .finish()
      .then(() => this.#settled(embedder))
      .then(
        () => {
          isSettled = true;
        },
        (error: unknown) => this.#ledger.violate('failed', `settling: ${String((error as Error).stack)}`),
      );
    await process.untilDeath(Promise.race([settled, world.sleep(this.#harness, SETTLE_MS)]));
    if (!process.isAlive) this.#ledger.violate('failed', `${process.name} ended without a fault (C9)`);
    else if (!isSettled) {
      for (const { id, state, mailbox } of await runtime.sessions.list({ order: 'id', limit: 1_000 })) {
        if (state === 'idle' && mailbox === 0) continue;
        const { reason, detail } = await runtime.session(id).explain();
        this.#ledger.violate('stuck', `${id} is ${state}, ${mailbox} wait: ${reason}, ${detail}`);
      }
      this.#ledger.violate('stuck', `${process.name} does not come to its end`);
    }
    if (this.#isOver()) return;
    embedder.leave();
    this.#isDone = true;
    this.#isRoundOver = false;
    for (const node of this.#nodes) this.#start(node);
    await world.sleep(this.#harness, this.#leaseMs);
    await Promise.race([runtime.close({ deadlineMs: 0 }), world.sleep(this.#harness, SETTLE_MS)]);
    process.kill();
  }

  /** Lets the embedder settle. A request that reads damaged bytes is refused, and the copy is built again. */
  async #settled(embedder: Embedder): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await embedder.settle();
      } catch (error) {
        if (!(error instanceof StoreCorruptError) || !this.#ledger.isDamaged || attempt === SETTLE_ATTEMPTS)
          throw error;
        this.#note('a copy is found damaged');
      }
      await this.#world.sleep(this.#harness, REBUILT_MS);
    }
  }

  /** The runtime of the node that has the shards, within an hour. */
  async #whenOpen(): Promise<OpenNode | undefined> {
    for (let looks = 0; looks < 3_600; looks += 1) {
      const owner = this.#owner();
      const open = owner && this.#open.get(owner);
      if (open?.process.isAlive === true) return open;
      await this.#world.sleep(this.#harness, 1_000);
    }
    return undefined;
  }

  /** After the orderly end of the owner, a standby has the shards at once, and nothing to repair. */
  async #handOver(before: Stories): Promise<void> {
    await this.#world.sleep(this.#harness, this.#leaseMs);
    const open = await this.#whenOpen();
    if (open === undefined) {
      this.#ledger.violate('stuck', 'no standby opens after the owner has closed (C9)');
      return;
    }
    open.embedder.leave();
    await open.runtime.drain();
    this.#endNodes();
    this.#stores.follow();
    const { stories } = await this.#reader.read();
    for (const story of stories.values()) {
      if (story.events.length !== before.get(story.id)?.events.length)
        this.#ledger.violate('changed', `${story.id} was closed without a fault, but the next node changed its log`);
    }
  }

  async #check(): Promise<void> {
    // Entries that the database has lost may still be appended again.
    if (this.#database.isForked || this.#database.lost.size > 0) return;
    this.#stores.follow();
    this.#invariants.check(await this.#reader.read());
  }

  // ---- the result ---------------------------------------------------------------------------------------------------

  #note(text: string): void {
    const line = `${((this.#world?.elapsedMs ?? 0) / 1_000).toFixed(3).padStart(10)} ${text}`;
    for (let index = 0; index < line.length; index += 1) {
      this.#fingerprint = (Math.imul(this.#fingerprint, 31) + line.charCodeAt(index)) | 0;
    }
    this.#trace.push(line);
    if (this.#trace.length > TRACE_LINES * 2) this.#trace.splice(0, TRACE_LINES);
    this.#options.onTrace?.(line);
  }

  #result(): ClusterSimulationResult {
    const { messages, calls, tools, violations } = this.#ledger;
    const faults: readonly (readonly [ClusterFaultKind | FaultKind, number])[] = [
      ...this.#clusterFaults.counts,
      ...this.#faults.counts,
    ];
    return {
      seed: this.#options.seed,
      violations,
      trace: this.#trace.slice(-TRACE_LINES),
      simulatedMs: this.#world.elapsedMs,
      lives: this.#lives,
      takeovers: this.#takeovers,
      messages: messages.size,
      modelCalls: [...calls.values()].reduce((sum, each) => sum + each.length, 0),
      toolRuns: [...tools.values()].reduce((sum, { starts }) => sum + starts.length, 0),
      entries: this.#database.logs.reduce((sum, log) => sum + log.length, 0),
      faults: Object.fromEntries(faults),
      fingerprint: this.#fingerprint,
    };
  }
}
