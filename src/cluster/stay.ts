/**
 * The stay of one node in its cluster. The node joins, waits for the shards, claims all of them, renews its lease, and
 * leaves.
 *
 * Owns: the lease in shared memory, and the times at which it is renewed. Does not own: the register of nodes and
 * shards (`ShardDirectory`), and the shards, which run on the session threads.
 *
 * Invariants:
 *  ST1 the leases of other nodes are ended only after this node's lease has held for the time of one lease without a
 *     gap, and without a renewal that failed. After an outage of the database other leases may have run out, and nodes
 *     that are alive renew theirs in that time. So a renewal whose answer is late counts as a gap, although the lease
 *     itself held;
 *  ST2 a node whose lease is ended while it has shards takes no further part: its lease is lost (LE2). A node that only
 *     waits enters again;
 *  ST3 one renewal at a time, and none after the node has left.
 */
import { LEASE_GAP_SHARE, LEASE_RENEWAL_SHARE, LEASE_RETRY_SHARE } from '../base/bounds.ts';
import type { Clock } from '../base/clock.ts';
import {
  asError,
  ConfigError,
  StoreFullError,
  StoreKeyError,
  StoreLockedError,
  StoreVersionError,
} from '../base/errors.ts';
import type { Lease } from './lease.ts';
import type { ClaimResult, ClusterBirth, ClusterFacts, ShardClaim, ShardDirectory, ShardOwner } from './plan.ts';

/** The parts of a stay. */
export interface StayParts {
  readonly directory: ShardDirectory;
  readonly lease: Lease;
  readonly clock: Clock;
  readonly node: string;
  readonly leaseMs: number;
  /** Called once, when another node has ended the lease. `owner`: the node that has the shards then, if it is known. */
  readonly lost: (owner: ShardOwner | undefined) => void;
  readonly failed: (message: string, error: Error) => void;
}

/** The facts that an existing cluster must have. */
export interface WantedCluster {
  /** The id in the node's data directory; missing if the directory is new. */
  readonly id?: string;
  /** True if the number of shards was given. */
  readonly isCounted: boolean;
}

/** A node with all shards of its cluster. */
export interface Entered {
  readonly facts: ClusterFacts;
  readonly claims: readonly ShardClaim[];
}

/** See the head of this file. */
export class Stay {
  readonly #parts: StayParts;
  /** The time on the monotonic clock since which the lease has held without a gap, and no renewal has failed. */
  #heldSinceMs = 0;
  /** The time of the last answer that granted the lease. */
  #grantedMs = 0;
  #hasShards = false;
  #isClaiming = false;
  #hasLeft = false;
  #isFailing = false;
  #timer: unknown;
  #renewing: Promise<void> | undefined;

  constructor(parts: StayParts) {
    this.#parts = parts;
  }

  /**
   * Enters the cluster and waits for its shards. Rejects with `StoreLockedError` if another node has them after
   * `waitMs` (missing: waits for as long as it takes), and with `StoreFullError` if the database cannot be reached at
   * first. For a cluster that does not fit, rejects with `ConfigError`, `StoreKeyError` or `StoreVersionError`.
   */
  async enter(birth: ClusterBirth, wanted: WantedCluster, waitMs: number | undefined): Promise<Entered> {
    const { clock, directory, node, leaseMs } = this.#parts;
    const deadlineMs = waitMs === undefined ? Number.POSITIVE_INFINITY : clock.monotonic() + waitMs;
    const facts = await this.#reached(() => directory.prepare(birth, wanted.isCounted));
    if (wanted.id !== undefined && wanted.id !== facts.id) {
      throw new ConfigError(
        `option "cluster": the database has the cluster ${facts.id}, and the directory copies of ${wanted.id}; ` +
          'give another directory',
        { data: { key: 'cluster', found: facts.id, expected: wanted.id } },
      );
    }
    await this.#reached(() => this.#join());
    this.#renewLater(leaseMs * LEASE_RENEWAL_SHARE);
    for (;;) {
      let owner: ShardOwner | undefined;
      try {
        const result = await this.#claim();
        if (result.claims !== undefined) {
          this.#hasShards = true;
          return { facts, claims: result.claims };
        }
        owner = result.owner;
      } catch (error) {
        if (clock.monotonic() >= deadlineMs) throw unreachable(error);
        this.#fails('the shards cannot be claimed now', error);
      }
      if (clock.monotonic() >= deadlineMs) {
        throw new StoreLockedError(
          `the node ${JSON.stringify(owner?.node ?? 'unknown')} has the shards of the cluster; a standby waits longer ` +
            `than ${waitMs} ms: option "waitMs"`,
          { data: { owner: owner?.node, leaseLeftMs: owner?.leaseLeftMs, node } },
        );
      }
      await this.#wait(leaseMs * LEASE_RETRY_SHARE);
    }
  }

  /** Ends the stay and gives the shards back. Rejects with the database's error; the lease then ends by itself. */
  async leave(): Promise<void> {
    if (this.#hasLeft) return;
    this.#hasLeft = true;
    this.#parts.clock.clearTimer(this.#timer);
    await this.#renewing;
    this.#parts.lease.lose();
    await this.#parts.directory.leave();
  }

  async #claim(): Promise<ClaimResult> {
    this.#isClaiming = true;
    try {
      return await this.#parts.directory.claimAll(this.#mayEndOthers());
    } finally {
      this.#isClaiming = false;
    }
  }

  /** Runs one of the first statements. A failure is not tried again, because the address may be wrong. */
  async #reached<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw isVerdict(error) ? error : unreachable(error);
    }
  }

  async #join(): Promise<void> {
    const { clock, directory, lease, node, leaseMs } = this.#parts;
    const moment = lease.moment();
    await directory.join(node, leaseMs);
    lease.granted(moment, leaseMs);
    this.#grantedMs = clock.monotonic();
    this.#heldSinceMs = this.#grantedMs;
  }

  /** Enforces ST1. */
  #mayEndOthers(): boolean {
    return !this.#isGap() && this.#parts.clock.monotonic() - this.#heldSinceMs >= this.#parts.leaseMs;
  }

  /** True if the last renewal is too old (ST1). */
  #isGap(): boolean {
    const { clock, lease, leaseMs } = this.#parts;
    return !lease.isValid || clock.monotonic() - this.#grantedMs > leaseMs * LEASE_GAP_SHARE;
  }

  #renewLater(delayMs: number): void {
    if (this.#hasLeft) return;
    this.#timer = this.#parts.clock.setTimer(() => {
      this.#renewing = this.#renew();
    }, delayMs);
  }

  async #renew(): Promise<void> {
    const { clock, directory, lease, leaseMs } = this.#parts;
    const moment = lease.moment();
    let isHeld: boolean;
    try {
      isHeld = await directory.renew(leaseMs);
      if (!isHeld && !this.#hasShards && !this.#hasLeft) {
        // A claim in flight belongs to the stay that was ended.
        if (this.#isClaiming) {
          this.#renewLater(leaseMs * LEASE_RETRY_SHARE);
          return;
        }
        // This node has no shards that could be lost, so it enters again (ST2).
        await this.#join();
        isHeld = true;
      } else if (isHeld) {
        const isGap = this.#isGap();
        this.#grantedMs = clock.monotonic();
        if (isGap) this.#heldSinceMs = this.#grantedMs;
        lease.granted(moment, leaseMs);
      }
      this.#isFailing = false;
    } catch (error) {
      this.#heldSinceMs = clock.monotonic();
      this.#fails('the lease cannot be renewed now', error);
      this.#renewLater(leaseMs * LEASE_RETRY_SHARE);
      return;
    }
    if (isHeld) this.#renewLater(leaseMs * LEASE_RENEWAL_SHARE);
    else if (!this.#hasLeft) await this.#lose();
  }

  async #lose(): Promise<void> {
    const { directory, lease, lost } = this.#parts;
    this.#hasLeft = true;
    lease.lose();
    // The name of the new owner only helps a reader of the log.
    lost(await directory.owner().catch(() => undefined));
  }

  /** Reports only the first of several failures in a row. */
  #fails(message: string, thrown: unknown): void {
    if (this.#isFailing) return;
    this.#isFailing = true;
    this.#parts.failed(message, asError(thrown));
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#parts.clock.setTimer(resolve, ms);
    });
  }
}

/** True for an error that says what is wrong with the options. */
function isVerdict(error: unknown): boolean {
  return error instanceof ConfigError || error instanceof StoreKeyError || error instanceof StoreVersionError;
}

function unreachable(thrown: unknown): StoreFullError {
  const cause = asError(thrown);
  return new StoreFullError(`the database of the cluster cannot be used: ${cause.message}`, {
    cause,
    data: { reason: 'database' },
  });
}
