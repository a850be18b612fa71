/**
 * One machine of a simulated cluster, and the runtimes that it opens one after the other: the product from the handles
 * down to the statements, over a simulated database, disk and clock.
 *
 * Owns: the machine's disk, clock and network; the process that runs on it now. Does not own: when it starts, and the
 * faults that hit it.
 * Checks, at every write of a copy and every start of work:
 *  C7 by the database, a node that does not have a shard, or no more, begins no call of it. Not checked for a call that waits in a
 *     queue of its node, for a rate or for a provider that is away: it was begun under a lease, and leaves later;
 *  C8 a copy is a beginning of the log, with the digest of its last entry; and one that is, is not taken away.
 */
import type { ShardBounds } from '../../../src/base/bounds.ts';
import { defined } from '../../../src/base/defined.ts';
import { StoreLostError } from '../../../src/base/errors.ts';
import type { ClusterJournalParts } from '../../../src/cluster/cluster-journal.ts';
import { serveCluster } from '../../../src/cluster/cluster-service.ts';
import { Lease } from '../../../src/cluster/lease.ts';
import { type ClusterMembership, joinCluster, type MembershipPorts } from '../../../src/cluster/membership.ts';
import type { ClusterPlan, NodeAddress } from '../../../src/cluster/plan.ts';
import { openShardJournal } from '../../../src/cluster/shard-journal.ts';
import type { Journal } from '../../../src/journal/journal.ts';
import { type DeviceOperation, openMemoryEngine } from '../../../src/journal/memory-journal.ts';
import { MemoryStore } from '../../../src/journal/memory-store.ts';
import type { CopyFault } from '../../../src/journal/replica/replicated-engine.ts';
import type { LogEnd, ShardLog } from '../../../src/journal/replica/shard-log.ts';
import { PostgresDirectory } from '../../../src/postgres/directory.ts';
import { tablesOf } from '../../../src/postgres/schema.ts';
import { PostgresShardLog } from '../../../src/postgres/shard-log.ts';
import { assembleRuntime } from '../../../src/runtime/handles/assemble.ts';
import { endWhenLost } from '../../../src/runtime/handles/open-cluster.ts';
import type { Runtime } from '../../../src/runtime/handles/runtime.ts';
import { ownShards } from '../../../src/runtime/host/shard-finder.ts';
import { startInPlace } from '../../../src/runtime/host/shard-in-place.ts';
import { ShardLines } from '../../../src/runtime/host/shard-lines.ts';
import { checkOptions, type OpenOptions } from '../../../src/runtime/protocol/options.ts';
import type { Faults } from '../../../src/testing/simulation/faults.ts';
import type { ToolStart } from '../../../src/testing/simulation/ledger.ts';
import { SIMULATED_DEFINITIONS } from '../../../src/testing/simulation/simulated-definitions.ts';
import { createSimulatedDevice } from '../../../src/testing/simulation/simulated-device.ts';
import { createSimulatedLine } from '../../../src/testing/simulation/simulated-line.ts';
import { SimulatedResults } from '../../../src/testing/simulation/simulated-results.ts';
import type { SimulatedTools } from '../../../src/testing/simulation/simulated-tools.ts';
import { SimulatedProcess } from '../../../src/testing/simulation/world.ts';
import { type Endpoint, endpointWith } from '../../../src/threads/endpoint.ts';
import type { ClusterFaults } from './cluster-faults.ts';
import type { ClusterLedger } from './cluster-ledger.ts';
import { MachineTime, type MachineWorld } from './machine-world.ts';
import type { NodeNetwork } from './node-network.ts';
import { damageResult } from './result-reading.ts';
import { type DatabaseServer, MachineNetwork, SimulatedConnection } from './simulated-connection.ts';

/** Milliseconds after a rest in which work may begin that was allowed before it. */
const WAKING_MS = 100;

/** Counts the incarnations of each shard over all nodes, as `SimulatedMachine` does for one. */
export class Incarnations {
  readonly #numbers: number[];
  readonly #begunMs: number[];
  #newest = 0;

  constructor(shards: number) {
    this.#numbers = Array.from({ length: shards }, () => 0);
    this.#begunMs = this.#numbers.map(() => 0);
  }

  of(shard: number): number {
    return this.#numbers[shard] ?? 0;
  }

  begunMs(shard: number): number {
    return this.#begunMs[shard] ?? 0;
  }

  /** Begins one; returns its number. */
  begin(shard: number, nowMs: number): number {
    this.#newest += 1;
    this.#numbers[shard] = this.#newest;
    this.#begunMs[shard] = nowMs;
    return this.#newest;
  }
}

/** The parts of a node. */
export interface NodeParts {
  readonly name: string;
  readonly world: MachineWorld;
  readonly harness: SimulatedProcess;
  readonly server: DatabaseServer;
  readonly faults: Faults;
  readonly clusterFaults: ClusterFaults;
  /** The network of the lines between nodes; missing: the nodes have none, and wait as standbys. */
  readonly lines?: NodeNetwork | undefined;
  readonly ledger: ClusterLedger;
  readonly incarnations: Incarnations;
  readonly tools: () => SimulatedTools;
  readonly bounds: ShardBounds;
  /** True if the whole texts of results in copies may be damaged. */
  readonly damagesResults: boolean;
  readonly leaseMs: number;
  readonly holdMs: number;
  /** Called when the node is to give a shard away. */
  readonly giving: (node: ClusterNode) => void;
  readonly trace: (text: string) => void;
}

const TABLES = tablesOf('troupe');
/** With it a node enters as a member. The simulated network has its own addresses, and no secret. */
const LINE = { listen: { host: 'simulated', port: 0 }, secret: '' };

/** The address of a node, and its lines. */
interface LineDoor {
  readonly address: NodeAddress;
  lines(membership: ClusterMembership, failed: (message: string) => void): ShardLines;
  close(): void;
}

/** See the head of this file. */
export class ClusterNode {
  readonly name: string;
  readonly time: MachineTime = new MachineTime();
  readonly network: MachineNetwork = new MachineNetwork();
  /** The process that runs on the machine; undefined before the first. */
  process: SimulatedProcess | undefined;
  /** The shards that the process has claimed, as it knows. */
  shards: readonly number[] = [];
  /** Changes of the owner of a shard that the processes of this machine have seen. */
  moves = 0;
  readonly #parts: NodeParts;
  readonly #stores: MemoryStore[];
  readonly #results = new SimulatedResults();
  /** The incarnation in which this node runs each shard. */
  readonly #incarnations: number[] = [];
  /** Copies whose bytes a fault has changed. */
  readonly #damaged = new Set<MemoryStore>();
  /** The process whose device stopped to answer. */
  #silent: SimulatedProcess | undefined;
  /** World time of the end of its last rest. */
  #wokeMs = Number.NEGATIVE_INFINITY;

  constructor(parts: NodeParts) {
    this.#parts = parts;
    this.name = parts.name;
    this.#stores = parts.server.database.logs.map(() => new MemoryStore());
  }

  get isAlive(): boolean {
    return this.process?.isAlive === true;
  }

  /** True if the database says that its process has this shard. */
  owns(shard: number): boolean {
    return this.process !== undefined && this.#parts.server.database.ownerOf(shard) === this.#life;
  }

  /** The name under which its process has joined. */
  get #life(): string {
    return this.process?.name ?? '';
  }

  /** True if a fault has hit this machine, and no other, since this moment. */
  isTroubledSince(sinceMs: number): boolean {
    return this.network.troubledAtMs >= sinceMs || this.#wokeMs >= sinceMs;
  }

  /** True while the device of its process says nothing. */
  get isSilent(): boolean {
    return this.#silent?.isAlive === true;
  }

  /** True if its result store has this file. */
  hasResult(path: string): boolean {
    return [...this.#results.paths()].includes(path);
  }

  /** Stands still. */
  rest(ms: number, isSuspended: boolean): void {
    const nowMs = this.#parts.world.elapsedMs;
    this.time.rest(nowMs, ms, isSuspended);
    this.#wokeMs = this.time.restsUntilMs;
  }

  /** Starts a process, which no one has opened a runtime in. */
  boot(life: number): SimulatedProcess {
    const process = new SimulatedProcess(`${this.name} life ${life}`, this.#parts.harness);
    this.#parts.world.place(process, this.time);
    this.process = process;
    this.shards = [];
    this.#incarnations.length = 0;
    process.onDeath(() => this.#results.losePower());
    return process;
  }

  /** Opens the runtime: as a member, or once it has the shards. Rejects like `open`. */
  async open(process: SimulatedProcess, options: OpenOptions): Promise<Runtime> {
    const { world, trace, tools, bounds, faults, leaseMs, holdMs } = this.#parts;
    const clock = world.clockOf(process);
    const plan: ClusterPlan = {
      kind: 'cluster',
      module: 'simulated:database',
      data: {},
      node: process.name,
      leaseMs,
      holdMs,
      ...(this.#parts.lines === undefined ? {} : { line: LINE }),
    };
    const shards = this.#stores.length;
    const failed = (message: string): void => trace(`${process.name}: ${message}`);
    const door = this.#openDoor(process);
    const entering = { plan, birth: { shards }, wanted: { isCounted: false }, ...defined({ address: door?.address }) };
    const membership = await joinCluster(entering, failed, this.#portsOf(process));
    this.shards = shardsOf(membership);
    let owners = this.#ownersIn(membership);
    membership.onChange(() => {
      if (this.process !== process) return;
      this.shards = shardsOf(membership);
      const before = owners;
      owners = this.#ownersIn(membership);
      this.moves += owners.filter((owner, shard) => owner !== before[shard]).length;
    });
    const lines = door?.lines(membership, failed);
    const directory = `/${this.name}`;
    const soon = world.soonOf(process);
    const checked = checkOptions({ ...options, clock, random: () => world.random.number() });
    const place = {
      directory,
      resultStore: `${directory}/results`,
      shards,
      cluster: membership,
      finder: lines ?? ownShards(membership),
      ...defined({ lines }),
      release: async () => {
        await membership.leave();
        door?.close();
      },
    };
    try {
      const runtime = await assembleRuntime(
        checked,
        place,
        {
          startInPlace,
          shardPorts: {
            soon,
            bounds,
            openClusterJournal: (parts) => this.#openJournal(process, parts, soon),
            makeToolPool: tools().poolOf(process),
            resultDisk: this.#results.diskOf(process, world, faults),
          },
        },
        SIMULATED_DEFINITIONS,
      );
      endWhenLost(runtime, membership, checked.logger);
      membership.onLost(({ retryable }) => {
        if (!retryable) this.#parts.ledger.violate('failed', `${process.name} says that nothing took effect (C5)`);
      });
      return runtime;
    } catch (error) {
      await membership.leave();
      throw error;
    }
  }

  /** The stay that has each shard, as a node sees it. */
  #ownersIn(membership: ClusterMembership): readonly (string | undefined)[] {
    const own = membership.claims;
    return this.#stores.map(
      (_, shard) => own.find((each) => each.shard === shard)?.owner ?? membership.ownerOf(shard)?.stay,
    );
  }

  /** Answers other nodes; undefined: the nodes have no lines. */
  #openDoor(process: SimulatedProcess): LineDoor | undefined {
    const { lines: network, world } = this.#parts;
    if (network === undefined) return undefined;
    const place = { machine: this.name, process };
    let lines: ShardLines | undefined;
    const { address, close } = network.listen(place, (line) => {
      if (lines === undefined) line.close();
      else lines.accept(line);
    });
    return {
      address,
      close,
      lines: (membership, failed) => {
        const connect = (to: NodeAddress): Promise<Endpoint> => network.connect(place, to);
        lines = new ShardLines({ membership, own: address, connect, clock: world.clockOf(process), failed });
        return lines;
      },
    };
  }

  /** The facts of a tool call that starts now. */
  toolStart(shard: number, process: SimulatedProcess, attempt: number): ToolStart {
    return {
      incarnation: this.#incarnations[shard] ?? 0,
      storedRow: this.#stores[shard]?.state.lastRow ?? 0,
      process,
      attempt,
      atMs: this.#parts.world.elapsedMs,
    };
  }

  /**
   * True if a call may begin now. Another node may have the shard only while this one wakes up, or if the call may have
   * waited in a queue (C7).
   */
  begins(shard: number, what: string, isQueued = false): boolean {
    const { server, ledger, world, trace } = this.#parts;
    if (this.owns(shard) || server.database.hasReverted(shard, this.#life)) return true;
    if (isQueued) return false;
    if (world.elapsedMs - this.#wokeMs <= WAKING_MS) {
      trace(`${this.name} wakes up and begins ${what}`);
      return false;
    }
    trace(`${this.name} begins ${what} without the shard`);
    ledger.violate('failed', `${this.name} began ${what} and did not have shard ${shard} any more (C7)`);
    return false;
  }

  // ---- copies -------------------------------------------------------------------------------------------------------

  /** Loses its copies, while no process has them open. */
  loseCopies(): void {
    for (const shard of this.#stores.keys()) this.#stores[shard] = new MemoryStore();
  }

  /** Changes a byte of a copy. */
  damage(): boolean {
    const { random } = this.#parts.world;
    const shard = random.between(0, this.#stores.length - 1);
    const store = this.#stores[shard];
    const damagesResult = this.#parts.damagesResults && random.chance(0.5);
    if (store !== undefined && damagesResult && damageResult(store, random)) {
      this.#damaged.add(store);
      this.#parts.ledger.isDamaged = true;
      return true;
    }
    const row = store?.rowNumbers[random.between(0, Math.max(0, store.rowNumbers.length - 1))];
    const bytes = row === undefined ? undefined : store?.rows.get(row);
    if (store === undefined || row === undefined || bytes === undefined) return false;
    // The log in memory must not share the damage.
    const changed = Buffer.from(bytes);
    const at = random.between(0, changed.length - 1);
    changed.writeUInt8(changed.readUInt8(at) ^ (1 << random.between(0, 7)), at);
    store.rows.set(row, changed);
    this.#damaged.add(store);
    this.#parts.ledger.isDamaged = true;
    return true;
  }

  #openJournal(
    process: SimulatedProcess,
    { place, damaged, log }: ClusterJournalParts,
    soon: (run: () => void) => void,
  ): Promise<Journal> {
    const { world, server, holdMs, faults, trace } = this.#parts;
    const { claim, memory } = place;
    const { shard } = claim;
    const clock = world.clockOf(process);
    const lease = new Lease(memory, clock);
    const incarnated = (): void => this.#incarnated(shard);
    incarnated();
    const connection = new SimulatedConnection(server, process, this.network);
    const parts = { claim, holdMs, isLost: () => lease.isLost, clock };
    const device = createSimulatedDevice(process, {
      world,
      faults,
      trace,
      crash: (why) => {
        trace(`${process.name} dies ${why}`);
        process.kill();
      },
      refused: incarnated,
      reopened: incarnated,
      fellSilent: () => {
        this.#silent = process;
      },
    });
    return openShardJournal({
      log: this.#watchedLog(new PostgresShardLog(() => connection, TABLES, parts), incarnated),
      lease,
      holdMs,
      openCopy: async () => {
        const store = this.#stores[shard] ?? new MemoryStore();
        const watched = (operation: DeviceOperation): Promise<void> => device(this.#watched(shard, store, operation));
        return openMemoryEngine({ store, device: watched, schedule: soon, shard });
      },
      removeCopy: async (fault) => {
        log(`the copy of shard ${shard} is ${fault}`);
        this.#checkRemoval(shard, fault);
        this.#stores[shard] = new MemoryStore();
      },
      damaged: (error) => {
        trace(`${process.name}: ${error.message}`);
        damaged(error);
      },
      schedule: soon,
      shard,
    });
  }

  #incarnated(shard: number): void {
    const { incarnations, world } = this.#parts;
    // A shard that another node has is that node's.
    if (!this.owns(shard)) return;
    this.#incarnations[shard] = incarnations.begin(shard, world.elapsedMs);
  }

  #watched(shard: number, store: MemoryStore, operation: DeviceOperation): DeviceOperation {
    return {
      ...operation,
      commit: () => {
        operation.commit();
        if (operation.kind === 'write') this.#checkCopy(shard, store);
      },
    };
  }

  #checkCopy(shard: number, store: MemoryStore): void {
    const { server, ledger } = this.#parts;
    if (!this.#isPrefix(shard, store) && !server.database.isForked)
      ledger.violate('failed', `the copy of shard ${shard} at ${this.name} is no beginning of the log (C8)`);
  }

  #checkRemoval(shard: number, fault: CopyFault): void {
    const { ledger, server } = this.#parts;
    const store = this.#stores[shard];
    if (store === undefined || this.#damaged.delete(store)) return;
    const isSound = this.#isPrefix(shard, store) && store.state.commit <= (server.database.logs[shard]?.length ?? 0);
    if (isSound) ledger.violate('failed', `a sound copy of shard ${shard} was taken away as ${fault} (C8)`);
  }

  #isPrefix(shard: number, { state, records }: MemoryStore): boolean {
    if (state.commit === 0) return true;
    return this.#parts.server.database.everHad(shard, state.commit, records.get('replica') ?? '');
  }

  #portsOf(process: SimulatedProcess): MembershipPorts {
    const { world, server } = this.#parts;
    return {
      clock: world.clockOf(process),
      startThread: () => {
        const thread = new SimulatedProcess('cluster thread', process);
        const line = createSimulatedLine(world, process, thread);
        serveCluster(line.far, {
          clock: world.clockOf(thread),
          openDirectory: async () =>
            new PostgresDirectory(
              new SimulatedConnection(server, thread, this.network),
              TABLES,
              server.database.makeStay,
            ),
        });
        return {
          endpoint: endpointWith(line.near, {
            handle: (method, handler) =>
              line.near.handle(method, (payload) => {
                if (method === 'cluster.give') this.#parts.giving(this);
                return handler(payload);
              }),
          }),
          onExit: (listener) => thread.onDeath(() => world.schedule(process, 0, () => listener({ exitCode: 0 }))),
          exit: async () => thread.kill(),
          unref: () => undefined,
        };
      },
    };
  }

  /** The log of a shard. `restarted`: the shard reads its sessions from the log again. */
  #watchedLog(log: ShardLog, restarted: () => void): ShardLog {
    const { database } = this.#parts.server;
    const watched = async (answer: Promise<LogEnd>, isRestart: boolean): Promise<LogEnd> => {
      try {
        const end = await answer;
        if (isRestart) restarted();
        return end;
      } catch (error) {
        restarted();
        // Nothing on this machine has the entries that the database lost.
        if (error instanceof StoreLostError && database.lost.size > 0) database.fork(error.message);
        throw error;
      }
    };
    return {
      epoch: log.epoch,
      append: (entry) => watched(log.append(entry), false),
      reclaim: () => watched(log.reclaim(), true),
      fetch: (after) => log.fetch(after),
      digestOf: (number) => log.digestOf(number),
      close: () => log.close(),
    };
  }
}

function shardsOf({ claims }: ClusterMembership): readonly number[] {
  return claims.map(({ shard }) => shard);
}
