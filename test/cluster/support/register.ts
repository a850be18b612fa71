/** A register of nodes and shards in memory, in which a test sets what other nodes do. */
import { isSharing, shareOf } from '../../../src/cluster/balance.ts';
import type {
  ClaimRequest,
  NodeAddress,
  OtherNode,
  ShardClaim,
  ShardDirectory,
  ShardMap,
} from '../../../src/cluster/plan.ts';

/** A node that has the shard 0, and answers no other nodes. */
export const OTHER: OtherNode = { stay: 'other-1', node: 'other', leaseLeftMs: 0, shards: [0] };
export const CLAIM: ShardClaim = claimOf(0, 1);

/** A claim of this node. */
export function claimOf(shard: number, epoch: number): ShardClaim {
  return { shard, epoch, token: 'ab', owner: 'me' };
}

/** A node that shares the shards. */
export function sharing(node: string, ...shards: number[]): OtherNode {
  return { stay: `${node}-1`, node, leaseLeftMs: 1_000, address: { host: node, port: 1 }, shards };
}

/** See the head of this file. At first, another node has the only shard. */
export class Register {
  readonly shards: number;
  /** The other nodes. */
  others: readonly OtherNode[] = [OTHER];
  /** True while every statement fails. */
  isOut = false;
  /** True once another node has ended the lease of this one, until this one joins again. */
  isEnded = false;
  /** True while claims are not answered. `answerClaims` answers them. */
  isSlow = false;
  hasLeft = false;
  hasRetired = false;
  /** The names and addresses with which this node has joined. */
  readonly joined: (readonly [string, NodeAddress | undefined])[] = [];
  /** For each claim whether it may end the leases of others. */
  readonly asked: boolean[] = [];
  /** The shards and epochs that were given up. */
  readonly released: (readonly [shard: number, epoch: number])[] = [];
  /** The statements that were answered after this node had left. */
  readonly late: string[] = [];
  readonly #waiting: (() => void)[] = [];
  readonly #epochs = new Map<number, number>();
  #own: readonly ShardClaim[] = [];

  constructor(shards = 1) {
    this.shards = shards;
  }

  readonly directory: ShardDirectory = {
    prepare: () => this.#answer('prepare', () => ({ id: 'c', shards: this.shards })),
    join: (node, _leaseMs, address) =>
      this.#answer('join', () => {
        this.isEnded = false;
        this.#own = [];
        this.joined.push([node, address]);
      }),
    renew: () => this.#answer('renew', () => !this.isEnded),
    claim: async (request) => {
      this.asked.push(request.mayEndOthers);
      if (this.isSlow) await new Promise<void>((resolve) => this.#waiting.push(resolve));
      return this.#answer('claim', () => {
        if (!this.isEnded) this.#claim(request);
        return this.#map();
      });
    },
    release: ({ shard, epoch }) =>
      this.#answer('release', () => {
        this.released.push([shard, epoch]);
        this.#own = this.#own.filter((claim) => claim.shard !== shard || claim.epoch !== epoch);
      }),
    retire: () =>
      this.#answer('retire', () => {
        this.hasRetired = true;
      }),
    look: () => this.#answer('look', () => this.#map()),
    leave: () =>
      this.#answer('leave', () => {
        this.hasLeft = true;
      }),
    close: async () => undefined,
  };

  /** Has a claim of this node again, as a database that went back. */
  restore(claim: ShardClaim): void {
    this.#own = [...this.#own, claim];
  }

  /** Answers the claims that wait, and the later ones at once. */
  answerClaims(): void {
    this.isSlow = false;
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  #claim({ want }: ClaimRequest): void {
    const taken = new Set([...this.others.flatMap(({ shards }) => shards), ...this.#own.map(({ shard }) => shard)]);
    const free = Array.from({ length: this.shards }, (_, shard) => shard).filter((shard) => !taken.has(shard));
    const { most } = shareOf(this.shards, 1 + this.others.filter(isSharing).length);
    const isRefused = want === 'all' && free.length + this.#own.length < this.shards;
    const room = want === 'all' ? this.shards : Math.max(0, most - this.#own.length);
    for (const shard of isRefused ? [] : free.slice(0, room)) {
      const epoch = (this.#epochs.get(shard) ?? 0) + 1;
      this.#epochs.set(shard, epoch);
      this.#own = [...this.#own, claimOf(shard, epoch)].sort((a, b) => a.shard - b.shard);
    }
  }

  #map(): ShardMap {
    return { claims: this.isEnded ? [] : this.#own, others: this.others };
  }

  async #answer<T>(name: string, value: () => T): Promise<T> {
    if (this.hasLeft) this.late.push(name);
    if (this.isOut) throw new Error('no connection');
    return value();
  }
}
