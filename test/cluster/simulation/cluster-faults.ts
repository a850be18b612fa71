/**
 * The faults of a cluster: of its database, of the network, of whole machines and their clocks, of the copies, of the
 * lines between nodes. A seed enables a random subset.
 *
 * Owns: the enabled kinds, the count of each. Does not own: the effect of a fault.
 */
import type { SeededRandom } from '../../../src/testing/simulation/seeded-random.ts';

/** Every kind of fault of a cluster. */
export const CLUSTER_FAULT_KINDS = [
  // A statement takes effect, and its answer is lost with the connection.
  'db.answer_lost',
  // A statement runs after its client has given it up.
  'db.commit_late',
  // A statement is refused, as by a database that has no connection left.
  'db.refused',
  // The database is away for a while, for all nodes.
  'db.restart',
  // The database returns with an earlier state, as after a fail-over to a replica that lagged.
  'db.went_back',
  // The packets of one node are dropped, in one direction or both.
  'net.partition',
  // The same, but the packets are delivered when it ends: perhaps after a take-over.
  'net.late',
  // A node runs nothing for a while.
  'node.frozen',
  // The same, and its monotonic clock stands still meanwhile.
  'node.suspended',
  // A node ends at any moment.
  'node.killed',
  // The wall clock of a node is wrong, and jumps.
  'clock.skew',
  // The clocks of a node run fast or slow.
  'clock.drift',
  // The copy of a node is gone when it opens.
  'copy.lost',
  // Bytes of a copy are changed, while it is open or closed.
  'copy.damaged',
] as const;

/** Every kind of fault of the lines between nodes, and of the moves over them. They have draws of their own, so that runs without lines stay as they are. */
export const LINE_FAULT_KINDS = [
  // An open line breaks, and what is on its way is lost.
  'line.cut',
  // Packets between two nodes wait for a while, in one direction or both.
  'line.partition',
  // A node that gives a shard away, or has just got one, ends, stands still or loses its network.
  'move.crashed',
] as const;

/** A kind of fault of a cluster. */
export type ClusterFaultKind = (typeof CLUSTER_FAULT_KINDS)[number] | (typeof LINE_FAULT_KINDS)[number];

/** See the head of this file. */
export class ClusterFaults {
  readonly counts: Map<ClusterFaultKind, number> = new Map();
  readonly #random: SeededRandom;
  readonly #rates = new Map<ClusterFaultKind, number>();
  #isOn = true;

  constructor(random: SeededRandom, kinds: readonly ClusterFaultKind[] = CLUSTER_FAULT_KINDS) {
    this.#random = random;
    const share = random.pick([0.1, 0.3, 0.5, 0.8]);
    for (const kind of kinds) {
      const rate = random.pick([0.3, 1, 1, 3]);
      if (random.chance(share)) this.#rates.set(kind, rate);
    }
    // Both clocks of a node would be wrong in one lease, which no node can survive: LE1 says so.
    if (this.#rates.has('node.suspended')) this.#rates.delete('clock.skew');
  }

  get enabled(): readonly ClusterFaultKind[] {
    return [...this.#rates.keys()];
  }

  get isOn(): boolean {
    return this.#isOn;
  }

  /** Stops all faults, so that the remaining work can finish. */
  off(): void {
    this.#isOn = false;
  }

  /** Returns true if this fault strikes now, and counts it. `probability`: the probability in an average run. */
  strikes(kind: ClusterFaultKind, probability: number): boolean {
    const rate = this.#rates.get(kind);
    if (rate === undefined || !this.#isOn || !this.#random.chance(Math.min(0.9, probability * rate))) return false;
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1);
    return true;
  }
}
