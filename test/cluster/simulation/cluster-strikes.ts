/**
 * The faults that strike the machines of a simulated cluster, its database and its network, and the wait until their
 * effects have ended.
 *
 * Owns: which fault strikes whom, and for how long. Does not own: which kinds are enabled (`cluster-faults.ts`), the
 * effects themselves (`cluster-node.ts`, `simulated-connection.ts`, `node-network.ts`).
 */
import { HAND_OVER_MS } from '../../../src/base/bounds.ts';
import type { Faults } from '../../../src/testing/simulation/faults.ts';
import type { SeededRandom } from '../../../src/testing/simulation/seeded-random.ts';
import type { SimulatedProcess } from '../../../src/testing/simulation/world.ts';
import type { ClusterFaults } from './cluster-faults.ts';
import type { ClusterNode } from './cluster-node.ts';
import type { MachineWorld } from './machine-world.ts';
import type { NodeNetwork } from './node-network.ts';
import type { DatabaseServer } from './simulated-connection.ts';

/** The share by which the clocks of a node may be fast or slow: less than the rest of a lease that is not believed. */
const DRIFT_MAX = 0.04;
/** Most milliseconds by which a wall clock is wrong. */
const SKEW_MS = 3_600_000;
/** How many writes a database goes back. */
const WRITES_BACK = [1, 5, 300] as const;
/** Most milliseconds between the start of a move and its fault: within its statements, its close, its half-steps. */
const MOVE_MS = [20, 300, HAND_OVER_MS] as const;

/** The network of the lines between nodes, with its own draws. */
export interface StruckLines {
  readonly network: NodeNetwork;
  readonly random: SeededRandom;
  readonly faults: ClusterFaults;
}

/** The parts of the strikes. */
export interface ClusterStrikesParts {
  readonly world: MachineWorld;
  readonly harness: SimulatedProcess;
  readonly random: SeededRandom;
  readonly leaseMs: number;
  readonly nodes: readonly ClusterNode[];
  readonly server: DatabaseServer;
  /** The faults of the database, the machines and the copies. */
  readonly faults: ClusterFaults;
  /** The faults that a single machine has, too. */
  readonly ownFaults: Faults;
  /** Missing: the nodes have no lines. */
  readonly lines: StruckLines | undefined;
  /** Ends the process of a node. */
  readonly kill: (node: ClusterNode) => void;
  /** Closes the runtime of a node in order, if it is open. */
  readonly close: (node: ClusterNode) => void;
  readonly isOpen: (node: ClusterNode) => boolean;
  readonly trace: (text: string) => void;
}

/** See the head of this file. */
export class ClusterStrikes {
  /** World time at which the database went back last. */
  wentBackAtMs: number = Number.NEGATIVE_INFINITY;
  readonly #parts: ClusterStrikesParts;

  constructor(parts: ClusterStrikesParts) {
    this.#parts = parts;
  }

  /** Draws the faults of a machine on which a process is about to start. */
  beforeStart(node: ClusterNode): void {
    const { faults, random, trace } = this.#parts;
    if (faults.strikes('copy.lost', 0.25)) {
      trace(`the copies of ${node.name} are lost`);
      node.loseCopies();
    }
    if (faults.strikes('copy.damaged', 0.15) && node.damage()) trace(`a copy of ${node.name} is damaged`);
    if (faults.strikes('clock.drift', 0.5)) node.time.rate = 1 + (random.number() * 2 - 1) * DRIFT_MAX;
  }

  /** Draws the faults that may strike now. */
  strike(): void {
    const { random, faults, leaseMs, nodes, server, world, trace, kill, close, isOpen, lines } = this.#parts;
    const node = random.pick(nodes);
    const ms = random.number() * random.pick([0.5, 1.5, 4]) * leaseMs;
    if (faults.strikes('db.restart', 0.06)) {
      // An outage that is a little shorter than a lease ends some leases, and others not.
      const awayMs = random.chance(0.4) ? leaseMs * (0.7 + random.number() * 0.2) : ms;
      trace(`the database is away for ${Math.round(awayMs)} ms`);
      server.restart(awayMs);
    }
    if (faults.strikes('db.went_back', 0.03)) {
      const entries = server.database.goBack(random.pick(WRITES_BACK));
      trace(`the database goes back: ${entries} entries`);
      this.wentBackAtMs = world.elapsedMs;
      server.restart(random.number() * 100);
    }
    if (faults.strikes('net.partition', 0.06)) this.#cut(node, ms, false);
    if (faults.strikes('net.late', 0.06)) this.#cut(node, ms, true);
    if (node.isAlive && faults.strikes('node.frozen', 0.06)) {
      trace(`${node.name} is frozen for ${Math.round(ms)} ms`);
      node.rest(ms, false);
    }
    if (node.isAlive && faults.strikes('node.suspended', 0.06)) {
      trace(`${node.name} is suspended for ${Math.round(ms)} ms`);
      node.rest(ms, true);
    }
    if (node.isAlive && faults.strikes('clock.skew', 0.05)) {
      node.time.skewMs = Math.round((random.number() * 2 - 1) * SKEW_MS);
      trace(`the clock of ${node.name} is wrong by ${node.time.skewMs} ms`);
    }
    if (node.isAlive && faults.strikes('copy.damaged', 0.05) && node.damage())
      trace(`a copy of ${node.name} is damaged`);
    if (node.isAlive && faults.strikes('node.killed', 0.05)) kill(node);
    if (isOpen(node) && random.chance(0.03)) close(node);
    if (lines !== undefined) this.#strikeLines(lines);
  }

  /** Draws the fault of a node that gives a shard away, or that has just got one. */
  moving(node: ClusterNode): void {
    const { lines, world, harness, leaseMs } = this.#parts;
    if (lines?.faults.strikes('move.crashed', 0.2) !== true) return;
    const { random } = lines;
    const { process } = node;
    const how = random.pick(['dies', 'rests', 'is cut off'] as const);
    const ms = random.number() * random.pick([0.5, 1.5]) * leaseMs;
    world.schedule(harness, random.number() * random.pick(MOVE_MS), () => {
      if (process?.isAlive === true && node.process === process) this.#crashMove(node, how, ms);
    });
  }

  #crashMove(node: ClusterNode, how: 'dies' | 'rests' | 'is cut off', ms: number): void {
    const { trace, kill, nodes } = this.#parts;
    trace(`${node.name} ${how} while a shard moves`);
    if (how === 'dies') {
      kill(node);
      return;
    }
    if (how === 'rests') {
      node.rest(ms, false);
      return;
    }
    const untilMs = this.#parts.world.elapsedMs + ms;
    const { network } = node;
    network.statementsCutUntilMs = Math.max(network.statementsCutUntilMs, untilMs);
    network.answersCutUntilMs = Math.max(network.answersCutUntilMs, untilMs);
    network.troubledAtMs = Math.max(network.troubledAtMs, untilMs);
    for (const other of nodes) if (other !== node) this.#partition(node.name, other.name, ms);
  }

  /** Stops all faults. Their effects may last (`quiet`). */
  off(): void {
    const { ownFaults, faults, lines } = this.#parts;
    ownFaults.off();
    faults.off();
    lines?.faults.off();
  }

  /** Waits until the effects of earlier faults have ended. */
  async quiet(): Promise<void> {
    const { nodes, world, harness, server, lines } = this.#parts;
    for (;;) {
      // A process whose device says nothing is ended after a while.
      while (nodes.some(({ isSilent }) => isSilent)) await world.sleep(harness, 1_000);
      const until = [
        server.awayUntilMs,
        server.quietFromMs,
        lines?.network.quietFromMs ?? 0,
        ...nodes.flatMap(({ network, time }) => [
          network.statementsCutUntilMs,
          network.answersCutUntilMs,
          time.restsUntilMs,
        ]),
      ];
      const leftMs = Math.max(...until) - world.elapsedMs;
      // Statements are on their way for a moment all the time.
      if (leftMs <= server.packetMs) return;
      await world.sleep(harness, leftMs + 1);
    }
  }

  /** Draws the faults of the lines. */
  #strikeLines({ random, faults }: StruckLines): void {
    const { nodes, leaseMs } = this.#parts;
    if (!faults.strikes('line.partition', 0.08)) return;
    const [from = '', to = ''] = shuffled(
      nodes.map(({ name }) => name),
      random,
    );
    this.#partition(from, to, random.number() * random.pick([0.5, 1.5, 4]) * leaseMs);
  }

  #partition(from: string, to: string, ms: number): void {
    const { world, trace, lines } = this.#parts;
    if (lines === undefined) return;
    const untilMs = world.elapsedMs + ms;
    const isOneWay = lines.random.chance(0.4);
    trace(`the way from ${from} to ${to} is cut for ${Math.round(ms)} ms${isOneWay ? '' : ', and the way back'}`);
    lines.network.partition(from, to, untilMs);
    if (!isOneWay) lines.network.partition(to, from, untilMs);
  }

  #cut(node: ClusterNode, ms: number, isLate: boolean): void {
    const { random, world, trace, lines, nodes } = this.#parts;
    const { network, name } = node;
    const untilMs = world.elapsedMs + ms;
    const way = random.pick(['statements', 'answers', 'packets'] as const);
    trace(`the ${way} of ${name} are ${isLate ? 'late' : 'lost'} for ${Math.round(ms)} ms`);
    if (way !== 'answers') network.statementsCutUntilMs = Math.max(network.statementsCutUntilMs, untilMs);
    if (way !== 'statements') network.answersCutUntilMs = Math.max(network.answersCutUntilMs, untilMs);
    network.isLate = isLate;
    network.troubledAtMs = Math.max(network.troubledAtMs, untilMs);
    if (lines === undefined || isLate || lines.random.chance(0.5)) return;
    // The machine has lost its whole network, not only the way to the database.
    for (const other of nodes) if (other !== node) this.#partition(name, other.name, ms);
  }
}

function shuffled(names: readonly string[], random: SeededRandom): readonly string[] {
  return [...names]
    .map((name) => ({ name, at: random.number() }))
    .sort((a, b) => a.at - b.at)
    .map(({ name }) => name);
}
