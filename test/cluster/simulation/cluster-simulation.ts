/**
 * One simulated run of a fail-over pair, or of three nodes: each machine opens the product over its own copy, clock and
 * network, and over one database. In half of the seeds the nodes have lines: all of them are open at once, and each of
 * them is asked. In the other half they wait as standbys. Everything follows from the seed.
 *
 * The run has rounds with faults. In a round, nodes start, wait for the shards, work, lose them, die and start again. After
 * each round, and at the end, what the logs of the database stand for is checked as a single machine's store is
 * (`invariants.ts` of the simulator), against everything that any node acknowledged and published:
 *  C3 whatever was acknowledged by any node is in the final log, and what was published is in it, in order (I1, I2). A
 *     reader stays at its node over moves, and receives each event once, in order, to the last one;
 *  C4 a key is accepted once over all nodes and lines (I1);
 *  C5 a refused or fenced request, and one whose line ended, is answered as unknown, never as "not done" (I1, and the
 *     error of a node that lost its shards);
 *  C6 a `once` tool starts at most once over all nodes (I4);
 *  C9 with faults gone, each shard has an owner within two leases and a second, and each node answers for each shard.
 *     Nodes with lines then spread the shards evenly, and keep them: no shard moves without a reason. A node that restarts
 *     in order gets its share again, and meanwhile no request with a key is refused. Everything ends. An outage of the
 *     database alone moves no shard, and ends no owner.
 * C1 and C2 are in `simulated-database.ts`, C7 and C8 in `cluster-node.ts`, C10 and C11 in `result-reading.ts`.
 */
import { HAND_OVER_MS, SHARD_MOVE_MS } from '../../../src/base/bounds.ts';
import { defined } from '../../../src/base/defined.ts';
import { StoreCorruptError, StoreFullError } from '../../../src/base/errors.ts';
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
import type { AnyTool } from '../../../src/tools/tool.ts';
import { type ClusterFaultKind, ClusterFaults, LINE_FAULT_KINDS } from './cluster-faults.ts';
import { ClusterLedger } from './cluster-ledger.ts';
import { ClusterNode, Incarnations } from './cluster-node.ts';
import { ClusterStrikes } from './cluster-strikes.ts';
import { LogStores } from './log-store.ts';
import { MachineWorld } from './machine-world.ts';
import { NodeNetwork } from './node-network.ts';
import { checkWholeResults, fileReader, resultTools } from './result-reading.ts';
import { DatabaseServer } from './simulated-connection.ts';
import { SimulatedDatabase, type Takeover } from './simulated-database.ts';

/** Separates the draws of a cluster from those of a single machine with the same seed. */
const CLUSTER_STREAM = 0x1ea5_ed01;
/** Separates the draws of lines, so that the runs without them do not depend on them. */
const LINE_STREAM = 0x11_4e_51;
/** Separates the draw of long results, so that the runs without them do not depend on them. */
const RESULT_STREAM = 0x2e_5d_17;
/** Share of the seeds in which agents have tools with long results. */
const RESULTS_SHARE = 0.5;
/** Share of the seeds in which the nodes have lines. */
const LINES_SHARE = 0.5;
/** Share of the actions that wait for an answer in one request, if the nodes have lines: the shard publishes its end. */
const ASK_SHARE = 0.15;
/** Most claims of "not done" that a run checks: each reads the whole log. */
const NOT_DONE_MAX = 10;
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
/** Milliseconds beyond two leases within which a node must have the shards (C9). */
const OWNER_GRACE_MS = 1_000;

/** Milliseconds in which a member must answer a read, which waits behind the writes of a slow device. */
const MEMBER_GRACE_MS = 2_000;
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
  /** Lines that the nodes opened; missing: they have none. */
  readonly lines?: number;
  /** Requests of members to the node with the shard. */
  readonly memberRequests: number;
  /** Changes of the owner of a shard that nodes with an open runtime saw. */
  readonly moves: number;
  /** Shards that a node gave away, so that another one has its share. */
  readonly given: number;
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
  readonly #lineRandom: SeededRandom;
  /** True if agents have tools with long results. */
  readonly #hasResults: boolean;
  readonly #lineFaults: ClusterFaults;
  /** Missing: the nodes have no lines. */
  readonly #lines: NodeNetwork | undefined;
  readonly #world: MachineWorld;
  readonly #swarm: Swarm;
  readonly #harness = new SimulatedProcess('harness');
  readonly #database: SimulatedDatabase;
  readonly #server: DatabaseServer;
  readonly #incarnations: Incarnations;
  readonly #nodes: readonly ClusterNode[];
  readonly #tools: SimulatedTools;
  readonly #model: SimulatedModel;
  readonly #strikes: ClusterStrikes;
  readonly #stores: LogStores;
  readonly #reader: StoreReader;
  readonly #invariants: Invariants;
  readonly #leaseMs: number;
  readonly #shards: readonly number[];
  readonly #open = new Map<ClusterNode, OpenNode>();
  readonly #trace: string[] = [];
  #fingerprint = 0;
  #lives = 0;
  #takeovers = 0;
  /** Shards that nodes have given away, and those that no node has claimed since. */
  #moves = 0;
  readonly #given = new Set<number>();
  /** World time of the last change of nodes or owners, except by a renewal. */
  #stirredMs = 0;
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
    this.#lineRandom = new SeededRandom((options.seed ^ LINE_STREAM) >>> 0);
    const hasLines = this.#lineRandom.chance(LINES_SHARE);
    // Nodes with lines share the shards.
    const shards = hasLines ? this.#lineRandom.pick([1, 2, 3, 4, 5]) : drawn.shards;
    const sessions = Math.max(drawn.sessions, shards);
    this.#swarm = { ...drawn, shards, sessions, hasSessionThreads: false, models: 0, changesAgents: false };
    this.#shards = Array.from({ length: this.#swarm.shards }, (_, shard) => shard);
    this.#leaseMs = random.pick([2_000, 10_000]);
    this.#database = new SimulatedDatabase(this.#swarm.shards, () => this.#world.elapsedMs, {
      violate: (what) => this.#ledger.violateLog(what),
      claimed: (shard, by) => this.#claimed(shard, by),
      gaveAway: (shard, from) => this.#gaveAway(shard, from),
      tookOver: (takeover) => this.#tookOver(takeover),
      trace: (text) => this.#note(text),
    });
    this.#ledger.isForked = () => this.#database.isForked;
    const trace = (text: string): void => this.#note(text);
    this.#hasResults = new SeededRandom((options.seed ^ RESULT_STREAM) >>> 0).chance(RESULTS_SHARE);
    this.#lineFaults = new ClusterFaults(this.#lineRandom.fork(), LINE_FAULT_KINDS);
    const network = { world: this.#world, random: this.#lineRandom.fork(), faults: this.#lineFaults, trace };
    this.#lines = hasLines ? new NodeNetwork(network) : undefined;
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
    this.#ledger.entriesOf = (session) => this.#database.logs[shardOfSession(session)]?.length ?? 0;
    const incarnationOf = (session: string): number => this.#incarnations.of(shardOfSession(session));
    const crash = (why: string, process: SimulatedProcess): void => this.#crash(why, process);
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
      ...(this.#hasResults ? { reader: (thread) => this.#readerOf(thread) } : {}),
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
          lines: this.#lines,
          damagesResults: this.#hasResults,
          incarnations: this.#incarnations,
          tools: () => this.#tools,
          bounds: this.#swarm.bounds,
          leaseMs: this.#leaseMs,
          holdMs,
          giving: (each) => this.#strikes.moving(each),
        }),
    );
    this.#strikes = new ClusterStrikes({
      ...{ world: this.#world, harness: this.#harness, random, leaseMs: this.#leaseMs, nodes: this.#nodes, trace },
      ...{ server: this.#server, faults: this.#clusterFaults, ownFaults: this.#faults },
      lines: this.#lines && { network: this.#lines, random: this.#lineRandom, faults: this.#lineFaults },
      kill: (node) => this.#kill(node, 'killed'),
      close: (node) => void this.#closings.add(this.#close(node)),
      isOpen: (node) => this.#open.has(node),
    });
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
    const enabled: string[] = [...this.#clusterFaults.enabled, ...this.#faults.enabled];
    if (this.#lines !== undefined) enabled.push(...this.#lineFaults.enabled);
    if (this.#lines !== undefined) this.#note('the nodes have lines');
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
    this.#strikes.off();
    if (!endsInPlace) await this.#strikes.quiet();
    this.#isRoundOver = false;
    const fromMs = this.#world.elapsedMs;
    for (const node of this.#nodes) this.#start(node);
    await this.#settle(fromMs);
    if (this.#isOver()) return;
    await this.#check();
    if (!this.#isOver()) await this.#checkNotDone();
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
      this.#strikes.strike();
      const open = [...this.#open.values()];
      // One of the nodes is asked again what others were asked.
      if (this.#lines !== undefined && open.length > 0 && this.#lineRandom.chance(0.2))
        void this.#lineRandom.pick(open).embedder.repeat();
    }
    if (!endsInPlace) return;
    this.#note('no more faults');
    this.#strikes.off();
    await Promise.all(this.#closings);
    await this.#strikes.quiet();
  }

  // ---- nodes --------------------------------------------------------------------------------------------------------

  #start(node: ClusterNode): void {
    if (node.isAlive || this.#isRoundOver) return;
    this.#strikes.beforeStart(node);
    this.#lives += 1;
    const life = this.#lives;
    const process = node.boot(life);
    process.onDeath(() => this.#startLater(node));
    this.#stirredMs = this.#world.elapsedMs;
    this.#note(`${process.name} starts`);
    const opening = node.open(process, {
      agents: swarmAgents(
        [...this.#tools.valuesFor(process), ...(this.#hasResults ? resultTools() : [])],
        this.#swarm,
        life,
      ),
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
      ...(this.#lines === undefined ? {} : { askShare: ASK_SHARE }),
      life,
      trace: (text) => this.#note(text),
    });
    this.#open.set(node, { process, runtime, embedder });
    if (!this.#isDone) embedder.start();
    void runtime.closed.then((end) => {
      if (!process.isAlive || end.reason !== 'moved') return;
      this.#note(`${process.name} has lost its shards to ${end.owner ?? 'a node without a name'}`);
      if (node.shards.length > 0 && node.shards.every((shard) => node.owns(shard)))
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
    this.#stirredMs = this.#world.elapsedMs;
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

  /** Ends the process of the node on which this process runs. */
  #crash(why: string, process: SimulatedProcess): void {
    this.#kill(this.#nodeOf(process), `crashes ${why}`);
  }

  /** The node that has each shard; undefined: none has it. */
  #owners(): readonly (ClusterNode | undefined)[] {
    return this.#shards.map((shard) => this.#nodes.find((node) => node.owns(shard)));
  }

  #nodeOf(process: SimulatedProcess): ClusterNode {
    for (let each: SimulatedProcess | undefined = process; each !== undefined; each = each.parent) {
      const node = this.#nodes.find((candidate) => candidate.process === each);
      if (node !== undefined) return node;
    }
    throw new Error(`${process.name} runs on no node`);
  }

  #readerOf(thread: SimulatedProcess): AnyTool {
    return fileReader((path, session) => this.#reads(thread, path, session));
  }

  /** C11: a node finds the file of a result. It may fail to write one while its disk refuses, or its copy is damaged. */
  #reads(thread: SimulatedProcess, path: string, session: string): boolean {
    const node = this.#nodeOf(thread);
    const isThere = node.hasResult(path);
    this.#note(`${node.name} reads ${path} for ${session}: ${isThere}`);
    const mayFail = this.#faults.isOn && this.#faults.enabled.includes('shelf.full');
    if (!isThere && !mayFail && !this.#ledger.isDamaged && !this.#ledger.isDeleted(session))
      this.#ledger.violate('lost', `${node.name} has no file ${path} for ${session} (C11)`);
    return isThere;
  }

  #claimed(shard: number, by: string): void {
    this.#stirredMs = this.#world.elapsedMs;
    // Only a shard that was given away has a move to crash.
    if (!this.#given.delete(shard)) return;
    const node = this.#nodes.find(({ process }) => process?.name === by);
    if (node !== undefined) this.#strikes.moving(node);
  }

  /** C9: a shard is given away only for a node that has fewer, or soon after something has happened. */
  #gaveAway(shard: number, from: string): void {
    this.#moves += 1;
    this.#given.add(shard);
    this.#note(`${from} has given shard ${shard} away`);
    const { shares } = this.#database;
    const calmMs = this.#world.elapsedMs - this.#stirredMs;
    const fewest = Math.min(...shares.values());
    // The giver does not have it any more.
    const isNeeded = (shares.get(from) ?? 0) > fewest;
    if (!isNeeded && calmMs > 2 * this.#leaseMs + HAND_OVER_MS + OWNER_GRACE_MS)
      this.#ledger.violate('failed', `${from} gave shard ${shard} away, and no node had fewer shards (C9)`);
    this.#stirredMs = this.#world.elapsedMs;
  }

  /** C9: a lease that another node ended was that of a node in trouble. */
  #tookOver({ from, shards }: Takeover): void {
    this.#takeovers += 1;
    const node = this.#nodes.find(({ process }) => process?.name === from);
    const which = shards.length === this.#shards.length ? 'the shards' : `the shards ${shards.join(', ')}`;
    this.#note(`${which} of ${node?.process?.name ?? 'an earlier life'} are taken over`);
    const sinceMs = this.#world.elapsedMs - 3 * this.#leaseMs;
    if (node === undefined || !node.isAlive || node.isTroubledSince(sinceMs) || this.#strikes.wentBackAtMs >= sinceMs)
      return;
    this.#ledger.violate('failed', `the shards of ${node.process?.name} were taken over, and it was well (C9)`);
  }

  #providerOf(process: SimulatedProcess, node: ClusterNode): ModelProvider {
    const provider = this.#model.providerOf(process);
    const mayWait = this.#faults.enabled.some((kind) => HOLDING_FAULTS.has(kind));
    return {
      ...provider,
      generate: (request, context) => {
        if (!process.isAlive) return provider.generate(request, context);
        // A warm-up of the provider's cache is of no session, and no shard begins it.
        if (context.session.startsWith(' ')) return provider.generate(request, context);
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
    const alone = this.#shards.filter((_, shard) => this.#owners()[shard]?.isAlive !== true);
    if (alone.length > 0) {
      const what = `no node has the shards ${alone.join(', ')} ${world.elapsedMs - fromMs} ms after the last fault (C9)`;
      this.#ledger.violate('stuck', what);
      return;
    }
    if ((await this.#whenServed()).length === 0) {
      this.#ledger.violate('stuck', 'a node does not serve a shard that it has (C9)');
      return;
    }
    if (this.#lines !== undefined) await this.#checkCalm();
    const owners = await this.#whenServed();
    const [owner] = owners;
    if (owner === undefined || this.#ledger.violations.length > 0) return;
    // With lines any node can finish the work.
    const { process, runtime, embedder } =
      this.#lines === undefined ? owner : this.#lineRandom.pick([...this.#open.values()]);
    const others = [...this.#open.values()].filter((each) => each.process !== process);
    // Without lines the others would ask for the shards all the time, perhaps for hours.
    this.#isRoundOver = true;
    if (this.#lines === undefined) {
      for (const node of this.#nodes) if (node.process !== process) node.process?.kill();
    } else {
      const names = new Set(owners.map((each) => each.process.name));
      this.#note(
        `${process.name} finishes the work, and ${[...names].join(', ')} ${names.size === 1 ? 'has' : 'have'} the shards`,
      );
    }
    let isSettled = false;
    const settled = Promise.all([embedder, ...others.map((each) => each.embedder)].map((each) => each.finish()))
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
    if (this.#lines !== undefined) await this.#checkReaders();
    for (const each of this.#open.values()) each.embedder.leave();
    this.#isDone = true;
    this.#isRoundOver = false;
    for (const node of this.#nodes) this.#start(node);
    await world.sleep(this.#harness, this.#leaseMs);
    await Promise.race([owner.runtime.close({ deadlineMs: 0 }), world.sleep(this.#harness, SETTLE_MS)]);
    owner.process.kill();
  }

  /** C9, L1: without faults the shards are spread evenly, also after the restart of a node. */
  async #checkCalm(): Promise<void> {
    this.#ledger.isCalm = true;
    await this.#checkSpread();
    await this.#checkMembers();
    if (!this.#isOver() && this.#lineRandom.chance(0.5)) await this.#restartOne();
  }

  /** C9: the shards are spread evenly over the nodes, and stay where they are. */
  async #checkSpread(): Promise<void> {
    const perMoveMs = HAND_OVER_MS + SHARD_MOVE_MS + this.#leaseMs;
    const endMs = this.#world.elapsedMs + OWNER_GRACE_MS + (this.#shards.length + 1) * perMoveMs;
    let calmFromMs = Number.POSITIVE_INFINITY;
    let moves = this.#moves;
    for (;;) {
      await this.#world.sleep(this.#harness, 1_000);
      // Requests are in flight while shards move.
      for (const { embedder } of this.#open.values()) void embedder.repeat();
      const counts = [...this.#database.shares.values()];
      const owned = counts.reduce((sum, count) => sum + count, 0);
      const isSpread = owned === this.#shards.length && Math.max(...counts) - Math.min(...counts) <= 1;
      if (!isSpread || moves !== this.#moves) calmFromMs = Number.POSITIVE_INFINITY;
      else calmFromMs = Math.min(calmFromMs, this.#world.elapsedMs);
      moves = this.#moves;
      if (this.#world.elapsedMs - calmFromMs >= 2 * this.#leaseMs) return;
      if (this.#world.elapsedMs < endMs || calmFromMs < Number.POSITIVE_INFINITY) continue;
      const shares = [...this.#database.shares].map(([name, count]) => `${name}: ${count}`).join(', ');
      if (!this.#ledger.isDamaged) this.#ledger.violate('stuck', `the shards are not spread: ${shares} (C9)`);
      return;
    }
  }

  /** C9, L1: a node restarts in order, without a fault. It has its share again, and no request with a key fails. */
  async #restartOne(): Promise<void> {
    const node = this.#lineRandom.pick([...this.#open.keys()]);
    // Its own embedder has no request in flight when it closes.
    this.#open.get(node)?.embedder.leave();
    await this.#world.sleep(this.#harness, MEMBER_GRACE_MS);
    await this.#close(node);
    this.#start(node);
    await this.#checkSpread();
    await this.#checkMembers();
  }

  /** C9: each node with an open runtime answers a read of each shard. */
  async #checkMembers(): Promise<void> {
    for (const [node, { runtime, process }] of this.#open) {
      for (const shard of this.#shards) {
        const late = this.#world.sleep(this.#harness, MEMBER_GRACE_MS).then(() => 'no answer');
        const asked = runtime.session(this.#sessionOf(shard)).state();
        const answer = await Promise.race([asked.then(() => undefined, String), late]);
        if (answer !== undefined && node.process === process && !this.#ledger.isDamaged)
          this.#ledger.violate('stuck', `${process.name} does not answer for shard ${shard} (C9): ${answer}`);
      }
    }
    if (this.#open.size < this.#nodes.length && !this.#ledger.isDamaged)
      this.#ledger.violate('stuck', `${this.#open.size} of ${this.#nodes.length} nodes are open (C9)`);
  }

  /** C3: each reader that still reads has received the last event of its session. No request of any node is open. */
  async #checkReaders(): Promise<void> {
    this.#stores.follow();
    const { stories } = await this.#reader.read();
    for (const { process, embedder } of this.#open.values()) {
      for (const what of embedder.open) this.#ledger.violate('stuck', `${process.name}: ${what} was never answered`);
      for (const { session, seq } of embedder.readers) {
        const last = stories.get(session)?.events.length ?? 0;
        if (seq < last && !this.#ledger.isDeleted(session))
          this.#ledger.violate('lost', `a reader of ${session} at ${process.name} received ${seq} of ${last} (C3)`);
      }
    }
  }

  /** C5: a message whose error said that nothing was done is not in the log of that moment. */
  async #checkNotDone(): Promise<void> {
    for (const { uid, session, entries } of this.#ledger.notDone.slice(0, NOT_DONE_MAX)) {
      const then = new LogStores(this.#database);
      then.follow(entries);
      const { stories } = await new StoreReader(then.stores, { rendering: swarmRendering(this.#swarm) }).read();
      const { accepted, userTexts = [] } = stories.get(session) ?? {};
      const texts = [...userTexts, ...[...(accepted?.values() ?? [])].map((each) => JSON.stringify(each))];
      if (texts.some((text) => text.includes(`${uid} `)))
        this.#ledger.violate(
          'changed',
          `${uid} of ${session} is in the log, and its error said that nothing was done (C5)`,
        );
    }
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

  /** The owner of each shard, once all of them serve their shards, within an hour; empty: they do not. */
  async #whenServed(): Promise<readonly OpenNode[]> {
    for (let looks = 0; looks < 3_600; looks += 1) {
      const owners = this.#owners().map((owner) => owner && this.#open.get(owner));
      const serve = await Promise.all(
        owners.map((open, shard) => open?.process.isAlive === true && this.#serves(open, shard)),
      );
      if (serve.every(Boolean)) return owners.flatMap((open) => open ?? []);
      await this.#world.sleep(this.#harness, 1_000);
    }
    return [];
  }

  /** False while an owner that was a member copies a log: on a slow device longer than its requests wait (L5). */
  async #serves({ runtime }: OpenNode, shard: number): Promise<boolean> {
    if (this.#lines === undefined) return true;
    try {
      await runtime.session(this.#sessionOf(shard)).state();
    } catch (error) {
      return !(error instanceof StoreFullError && error.data['reason'] === 'owner');
    }
    return true;
  }

  /** A session of this shard. */
  #sessionOf(shard: number): string {
    const { shards } = this.#swarm;
    for (let index = 0; ; index += 1) if (shardOf(`s${index}`, shards) === shard) return `s${index}`;
  }

  /** After the orderly end of an owner, the others have its shards at once, and nothing to repair. */
  async #handOver(before: Stories): Promise<void> {
    await this.#world.sleep(this.#harness, this.#leaseMs);
    const owners = new Set(await this.#whenServed());
    if (owners.size === 0) {
      this.#ledger.violate('stuck', 'no node serves the shards of one that has closed (C9)');
      return;
    }
    for (const { embedder } of owners) embedder.leave();
    for (const { runtime } of owners) await runtime.drain();
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
    const stories = await this.#reader.read();
    this.#invariants.check(stories);
    checkWholeResults(this.#ledger, stories.stories, this.#stores.stores);
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
      ...this.#lineFaults.counts,
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
      ...defined({ lines: this.#lines?.opened }),
      memberRequests: this.#lines?.asked ?? 0,
      moves: this.#nodes.reduce((sum, { moves }) => sum + moves, 0),
      given: this.#moves,
      faults: Object.fromEntries(faults),
      fingerprint: this.#fingerprint,
    };
  }
}
