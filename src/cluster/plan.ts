/**
 * A cluster as `open` receives it: plain data, so that each thread can open its own connection. The module that the
 * data names implements the ports of this file.
 *
 * A **node** is one runtime with a place in the cluster. It has a **lease**: a row that it renews, and that only the
 * database's clock ends. While its lease holds, no other node claims its shards. A **claim** of a shard has a random
 * token, and the log accepts entries only under the newest token. The lease gives liveness, the token gives safety.
 */
import type { Clock } from '../base/clock.ts';
import type { ShardLog } from '../journal/replica/shard-log.ts';

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
  /** Milliseconds for which `open` waits for another node; missing: without a bound. */
  readonly waitMs?: number;
}

/** Facts of a cluster, which do not change. */
export interface ClusterFacts {
  /** Names the cluster in the directories of its nodes. */
  readonly id: string;
  readonly shards: number;
  /** Names the key that encrypts the cluster's contents; missing if they are not encrypted. */
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

/** The node that has shards, and how long its lease holds if it is not renewed. */
export interface ShardOwner {
  readonly node: string;
  readonly leaseLeftMs: number;
}

/** The result of an attempt to claim all shards: all claims, or an owner of some of them. */
export type ClaimResult =
  | { readonly claims: readonly ShardClaim[] }
  | { readonly claims?: undefined; readonly owner: ShardOwner | undefined };

/**
 * The register of nodes and shards, as one node uses it, from one thread. All methods reject with the database's error.
 */
export interface ShardDirectory {
  /**
   * Makes the cluster if it is new. `isGiven`: the number of shards was given, not a default. Then rejects with
   * `ConfigError` if the cluster has another number. Rejects with `StoreKeyError` if it has another key.
   */
  prepare(birth: ClusterBirth, isGiven: boolean): Promise<ClusterFacts>;
  /** Enters this node with a lease of `leaseMs`. */
  join(node: string, leaseMs: number): Promise<void>;
  /** Renews the lease. Resolves to false if another node has ended the lease; it can then not be renewed any more. */
  renew(leaseMs: number): Promise<boolean>;
  /**
   * Claims every shard, or none. With `mayEndOthers`, leases of other nodes are ended if they have run out. Without it,
   * only shards without an owner are claimed.
   */
  claimAll(mayEndOthers: boolean): Promise<ClaimResult>;
  /** The node that has shards now; undefined if none has. */
  owner(): Promise<ShardOwner | undefined>;
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
