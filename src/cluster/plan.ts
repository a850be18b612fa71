/**
 * The plan of a cluster, which `open` receives: plain data, so that each thread can open its own connection. The module
 * that the plan names implements the ports of this file.
 *
 * A **node** is one runtime with a place in the cluster. A **shard** is a part of the cluster's store; each session
 * thread works on one. A node has a **lease**: a row that the node renews, and that only the database's clock ends.
 * While its lease holds, no other node claims its shards. A **claim** of a shard makes the node its owner. Each claim
 * has a random token, and the log accepts entries only under the newest token. So a former owner cannot write, even if
 * it has not noticed the loss of its lease. A **stay** is the time of a node in the cluster, from `join` to `leave` or
 * to the loss of its lease. Nodes with an address **share** the shards: each claims as many as its share, and asks the
 * owners for the rest. A node without an address is a **standby**: it waits until it can claim all shards.
 */
import type { Clock } from '../base/clock.ts';
import type { ShardLog } from '../journal/replica/shard-log.ts';

/** The address at which a node answers the other nodes. */
export interface NodeAddress {
  readonly host: string;
  readonly port: number;
}

/** The data that opens a place in a cluster. `postgres()` of `troupe/postgres` makes it. */
export interface ClusterPlan {
  readonly kind: 'cluster';
  /** URL of the module that implements `ClusterModule`. */
  readonly module: string;
  /** The module's own data. */
  readonly data: Readonly<Record<string, unknown>>;
  /** The name of this node. */
  readonly node: string;
  /** The number of shards; missing: the number that the cluster has. */
  readonly shards?: number;
  readonly leaseMs: number;
  /** Milliseconds for which a commit waits for the log. */
  readonly holdMs: number;
  /** Milliseconds for which `open` waits while another node has the shards; missing: without a bound. */
  readonly waitMs?: number;
  /**
   * With it, this node enters as a member at once, and `waitMs` is missing. `listen`: the address at which it listens
   * for the other nodes; port 0 is any free one. `secret`: all nodes have the same. No error and no log shows it.
   */
  readonly line?: { readonly listen: NodeAddress; readonly secret: string };
}

/** Facts of a cluster, which do not change. */
export interface ClusterFacts {
  /** Identifies the cluster, also in the data directories of its nodes. */
  readonly id: string;
  readonly shards: number;
  /** The id of the key that encrypts the cluster's contents; missing if they are not encrypted. */
  readonly keyId?: string;
}

/** The facts that a new cluster gets. */
export interface ClusterBirth {
  readonly shards: number;
  readonly keyId?: string;
}

/** A claim of one shard. Plain data. */
export interface ShardClaim {
  readonly shard: number;
  readonly epoch: number;
  /** Hexadecimal digits. */
  readonly token: string;
  /** Identifies the stay that made the claim. */
  readonly owner: string;
}

/** Another node that has a lease or shards, as the database saw it at one moment. */
export interface OtherNode {
  /** Identifies the stay. Two stays of one node have the same name. */
  readonly stay: string;
  readonly node: string;
  /** Milliseconds until its lease ends if it is not renewed; 0 if it has run out. */
  readonly leaseLeftMs: number;
  /** Missing: the node does not answer other nodes, and does not share the shards. */
  readonly address?: NodeAddress;
  /** Its shards, in ascending order. */
  readonly shards: readonly number[];
}

/** The owners of the shards at one moment. A shard that neither part names has no owner. Plain data. */
export interface ShardMap {
  /** All claims of this stay, in the order of their shards. */
  readonly claims: readonly ShardClaim[];
  /** The other nodes, in the order in which they joined. */
  readonly others: readonly OtherNode[];
}

/** An attempt to claim shards. */
export interface ClaimRequest {
  /** True: first ends the leases of other nodes that have run out. */
  readonly mayEndOthers: boolean;
  /**
   * `all`: claims every shard, or none while a shard belongs to another node. `share`: claims shards without an owner
   * up to this node's share (`shareOf` in `balance.ts`).
   */
  readonly want: 'all' | 'share';
}

/**
 * The register of nodes and shards, as one node uses it, from one thread. All methods reject with the database's error.
 */
export interface ShardDirectory {
  /**
   * Makes the cluster with the facts in `birth`, unless it exists. `isGiven`: the number of shards was given, and is
   * not a default. In this case rejects with `ConfigError` if the cluster has another number of shards. Rejects with
   * `StoreKeyError` if the cluster has another key.
   */
  prepare(birth: ClusterBirth, isGiven: boolean): Promise<ClusterFacts>;
  /** Enters this node with a lease of `leaseMs`. `address` missing: it answers no other nodes. */
  join(node: string, leaseMs: number, address?: NodeAddress): Promise<void>;
  /** Renews the lease. Resolves to false if another node has ended the lease; it can then not be renewed any more. */
  renew(leaseMs: number): Promise<boolean>;
  /**
   * Claims shards. A shard belongs to another node until the lease of that node is ended, also if it has run out.
   * Resolves to the owners after the claim.
   */
  claim(request: ClaimRequest): Promise<ShardMap>;
  /** Gives up the claim of one shard. Does nothing if this stay does not have that claim. */
  release(claim: Pick<ShardClaim, 'shard' | 'epoch'>): Promise<void>;
  /** Removes the address of this node: it keeps its shards, and has no share of the others any more. */
  retire(): Promise<void>;
  /** Reads the owners, and claims nothing. */
  look(): Promise<ShardMap>;
  /** Gives up the lease and all shards. */
  leave(): Promise<void>;
  close(): Promise<void>;
}

/** The parts that the log of a shard works with. */
export interface ShardLogParts {
  readonly claim: ShardClaim;
  readonly holdMs: number;
  /** True once the lease is lost. The log then stops waiting. */
  readonly isLost: () => boolean;
  readonly clock: Pick<Clock, 'monotonic' | 'setTimer'>;
}

/** The exports of the module that a plan names. */
export interface ClusterModule {
  openDirectory(data: ClusterPlan['data']): ShardDirectory;
  openShardLog(data: ClusterPlan['data'], parts: ShardLogParts): ShardLog;
}

/** Loads the module of a plan. Rejects with the error that the module throws. */
export async function loadCluster(plan: Pick<ClusterPlan, 'module'>): Promise<ClusterModule> {
  return (await import(plan.module)) as ClusterModule;
}
