/**
 * The stay of one node in its cluster. A standby joins, tries to claim all shards until it has them, and enters then. A
 * member enters at once, and claims its share of the shards for as long as it stays. Both renew their lease, and leave.
 *
 * Owns: the lease in shared memory, the times at which it is renewed, and the choice of the shards that a member gives
 * away. Does not own: the register of nodes and shards (`ShardDirectory`), the share of a node (`balance.ts`), and the
 * shards, which run on the session threads.
 *
 * Invariants:
 *  ST1 the leases of other nodes are ended only after this node's lease has held for the time of one lease without a
 *     gap, and without a renewal that failed. After an outage of the database other leases may have run out, and nodes
 *     that are alive renew theirs in that time. So a renewal whose answer is late counts as a gap, although the lease
 *     itself held;
 *  ST2 a node whose lease is ended while it has shards takes no further part: its lease is lost (LE2). A node without
 *     shards enters again;
 *  ST3 one renewal at a time, and none after the node has left;
 *  ST4 a member reports each map of the shards that differs from the one before, in the order in which it saw them.
 *     After the node has left, it claims nothing and reports nothing;
 *  ST5 a member gives away one shard at a time, and one each `SHARD_MOVE_MS`. It keeps the claim until `release`. It
 *     tries to release a claim until the database has answered, and never reports the claim again. A database that goes
 *     back may show such a claim once more: it is released once more;
 *  ST6 a search of the host leads to one attempt to claim each `SHARD_LOOK_MS`. A node that retires claims nothing.
 */
import {
  LEASE_GAP_SHARE,
  LEASE_RENEWAL_SHARE,
  LEASE_RETRY_SHARE,
  SHARD_LOOK_MS,
  SHARD_MOVE_MS,
} from '../base/bounds.ts';
import type { Clock } from '../base/clock.ts';
import {
  asError,
  CancelledError,
  ConfigError,
  StoreFullError,
  StoreKeyError,
  StoreLockedError,
  StoreVersionError,
} from '../base/errors.ts';
import { shardToGive } from './balance.ts';
import type { Lease } from './lease.ts';
import type {
  ClaimRequest,
  ClusterBirth,
  ClusterFacts,
  NodeAddress,
  OtherNode,
  ShardClaim,
  ShardDirectory,
  ShardMap,
} from './plan.ts';

/** The parts of a stay. */
export interface StayParts {
  readonly directory: ShardDirectory;
  readonly lease: Lease;
  readonly clock: Clock;
  readonly node: string;
  readonly leaseMs: number;
  /** The address at which this node answers other nodes; missing: it does not. */
  readonly address?: NodeAddress | undefined;
  /** Called when a member sees other owners or nodes than before (ST4). */
  readonly seen: (map: ShardMap) => void;
  /** Called when this node has a shard too many. The host closes the shard, and calls `release`. */
  readonly give: (shard: number) => void;
  /** Called once, when another node has ended the lease. `owner`: a node that has a shard of this node, if it is known. */
  readonly lost: (owner: OtherNode | undefined) => void;
  readonly failed: (message: string, error: Error) => void;
}

/** The facts that an existing cluster must have. */
export interface WantedCluster {
  /** The id in the node's data directory; missing if the directory is new. */
  readonly id?: string;
  /** True if the number of shards was given. */
  readonly isCounted: boolean;
}

/** How a node enters. A standby waits for the shards for `waitMs`; undefined: without a bound. */
export type Entry = { readonly as: 'member' } | { readonly as: 'standby'; readonly waitMs: number | undefined };

/** A node in its cluster. A standby has all shards. */
export interface Entered {
  readonly facts: ClusterFacts;
  readonly map: ShardMap;
}

/** The end of the wait for the shards. */
interface WaitEnd {
  readonly waitMs: number | undefined;
  /** On the monotonic clock. */
  readonly deadlineMs: number;
}

/** See the head of this file. */
export class Stay {
  readonly #parts: StayParts;
  /** Since this moment on the monotonic clock, the lease has held without a gap, and no renewal has failed. */
  #heldSinceMs = 0;
  /** The moment of the last answer that granted the lease, on the same clock. */
  #grantedMs = 0;
  #facts: ClusterFacts | undefined;
  /** The claims under which this node works. */
  #claims: readonly ShardClaim[] = [];
  /** The claims that the host has given up, by shard, until the database has answered. */
  readonly #releasing = new Map<number, ShardClaim>();
  /** The epochs of the claims that the host has given up, by shard. */
  readonly #released = new Map<number, number>();
  /** The other nodes that the last attempt to claim saw. */
  #others: readonly OtherNode[] = [];
  /** The shard that the host was asked to give up, and the moment of the last such request. */
  #giving: number | undefined;
  #gaveMs: number = Number.NEGATIVE_INFINITY;
  /** The moment of the last attempt to claim, and of the next one. */
  #claimedMs: number = Number.NEGATIVE_INFINITY;
  #dueMs: number = Number.POSITIVE_INFINITY;
  /** Present while a member waits for its next attempt: sets the timer to `#dueMs`. */
  #waitAgain: (() => void) | undefined;
  #isRetiring = false;
  #hasRetired = false;
  #isClaiming = false;
  #hasLeft = false;
  #isFailing = false;
  #timer: unknown;
  #renewing: Promise<void> | undefined;

  constructor(parts: StayParts) {
    this.#parts = parts;
  }

  /**
   * Enters the cluster. A member enters after its first attempt to claim shards. A standby waits for all of them. Rejects
   * with `StoreLockedError` if another node has shards after the time of the standby. Rejects with `StoreFullError` if the
   * database cannot be reached at first, or when that time has passed, and with `CancelledError` if the node leaves
   * meanwhile. For a cluster that does not fit the options, rejects with `ConfigError`, `StoreKeyError` or
   * `StoreVersionError`.
   */
  async enter(birth: ClusterBirth, wanted: WantedCluster, entry: Entry): Promise<Entered> {
    const { clock, directory, leaseMs } = this.#parts;
    const waitMs = entry.as === 'standby' ? entry.waitMs : undefined;
    const deadlineMs = waitMs === undefined ? Number.POSITIVE_INFINITY : clock.monotonic() + waitMs;
    const facts = await this.#reached(() => directory.prepare(birth, wanted.isCounted));
    if (wanted.id !== undefined && wanted.id !== facts.id) {
      throw new ConfigError(
        `option "cluster": the database has the cluster ${facts.id}, and the directory copies of ${wanted.id}; ` +
          'give another directory',
        { data: { key: 'cluster', found: facts.id, expected: wanted.id } },
      );
    }
    this.#facts = facts;
    await this.#reached(() => this.#join());
    this.#renewLater(leaseMs * LEASE_RENEWAL_SHARE);
    if (entry.as === 'standby') return { facts, map: await this.#untilClaimed(facts, { waitMs, deadlineMs }) };
    const map = await this.#reached(() => this.#claim('share'));
    if (this.#hasLeft) throw leftMeanwhile();
    this.#claims = map.claims;
    this.#others = map.others;
    void this.#share();
    return { facts, map };
  }

  /** Gives up the claim of a shard that the host has closed (ST5). */
  release(shard: number): void {
    const claim = this.#claims.find((each) => each.shard === shard);
    if (claim === undefined) return;
    this.#claims = this.#claims.filter((each) => each !== claim);
    this.#releasing.set(shard, claim);
    this.#released.set(shard, claim.epoch);
    if (this.#giving === shard) this.#giving = undefined;
    this.#wakeAt(this.#parts.clock.monotonic());
  }

  /** Tries to claim shards soon, because the host looks for one (ST6). */
  look(): void {
    this.#wakeAt(this.#claimedMs + SHARD_LOOK_MS);
  }

  /** Leaves the shards to the other nodes from now on, because the host closes (ST6). */
  retire(): void {
    this.#isRetiring = true;
    this.#wakeAt(this.#parts.clock.monotonic());
  }

  /** Ends the stay and gives the shards back. Rejects with the database's error; the lease then ends by itself. */
  async leave(): Promise<void> {
    if (this.#hasLeft) return;
    this.#hasLeft = true;
    this.#parts.clock.clearTimer(this.#timer);
    this.#wakeAt(Number.NEGATIVE_INFINITY);
    await this.#renewing;
    this.#parts.lease.lose();
    await this.#parts.directory.leave();
  }

  /** The work of a member, until it has left. */
  async #share(): Promise<void> {
    const { clock, leaseMs } = this.#parts;
    while (!this.#hasLeft) {
      this.#dueMs = Math.min(this.#dueMs, clock.monotonic() + leaseMs * LEASE_RETRY_SHARE);
      await this.#untilDue();
      if (this.#hasLeft) return;
      this.#dueMs = Number.POSITIVE_INFINITY;
      try {
        await this.#step();
      } catch (error) {
        if (!this.#hasLeft) this.#fails('the shards cannot be claimed now', error);
      }
    }
  }

  /** The statements of a member: the releases first, so that no claim finds the shards that the host has closed. */
  async #step(): Promise<void> {
    const { directory } = this.#parts;
    if (this.#isRetiring && !this.#hasRetired) {
      await directory.retire();
      this.#hasRetired = true;
    }
    for (const claim of [...this.#releasing.values()]) {
      await directory.release(claim);
      this.#releasing.delete(claim.shard);
    }
    if (this.#isRetiring || this.#hasLeft) return;
    const map = await this.#claim('share');
    if (!this.#hasLeft) await this.#saw(map);
  }

  /** Enforces ST4 for a map, and notices an end of the lease (ST2). */
  async #saw({ claims: found, others }: ShardMap): Promise<void> {
    const isHeld = ({ shard, epoch }: ShardClaim): boolean => epoch > (this.#released.get(shard) ?? 0);
    for (const claim of found) if (!isHeld(claim)) this.#releasing.set(claim.shard, claim);
    const claims = found.filter(isHeld);
    if (this.#claims.some((held) => !claims.some((each) => isSameClaim(each, held)))) {
      await this.#lose();
      return;
    }
    const isOther = claims.length !== this.#claims.length || !areSameNodes(others, this.#others);
    this.#claims = claims;
    this.#others = others;
    if (isOther) this.#parts.seen({ claims, others });
    this.#balance();
  }

  /** Enforces ST5. */
  #balance(): void {
    const { clock, give } = this.#parts;
    const nowMs = clock.monotonic();
    const [first] = this.#claims;
    if (first === undefined || this.#facts === undefined || this.#giving !== undefined) return;
    if (this.#releasing.size > 0 || nowMs - this.#gaveMs < SHARD_MOVE_MS) return;
    const own = this.#claims.map(({ shard }) => shard);
    const shard = shardToGive({ shards: this.#facts.shards, stay: first.owner, own, others: this.#others });
    if (shard === undefined) return;
    this.#giving = shard;
    this.#gaveMs = nowMs;
    give(shard);
  }

  /** Makes the next attempt of a member no later than at this moment. */
  #wakeAt(atMs: number): void {
    if (atMs >= this.#dueMs) return;
    this.#dueMs = atMs;
    this.#waitAgain?.();
  }

  async #untilDue(): Promise<void> {
    const { clock } = this.#parts;
    let timer: unknown;
    await new Promise<void>((resolve) => {
      this.#waitAgain = () => {
        clock.clearTimer(timer);
        timer = clock.setTimer(resolve, Math.max(0, this.#dueMs - clock.monotonic()));
      };
      this.#waitAgain();
    });
    this.#waitAgain = undefined;
  }

  /**
   * Tries to claim all shards until this node has them. Rejects with `CancelledError` once the node has left. After the
   * deadline rejects with `StoreLockedError`, or with `StoreFullError` if the database cannot be reached then.
   */
  async #untilClaimed({ shards }: ClusterFacts, { waitMs, deadlineMs }: WaitEnd): Promise<ShardMap> {
    const { clock, node, leaseMs } = this.#parts;
    while (!this.#hasLeft) {
      let owner: OtherNode | undefined;
      try {
        const map = await this.#claim('all');
        if (this.#hasLeft) break;
        if (map.claims.length === shards) {
          this.#claims = map.claims;
          return map;
        }
        owner = map.others.find((each) => each.shards.length > 0);
      } catch (error) {
        if (this.#hasLeft) break;
        if (clock.monotonic() >= deadlineMs) throw unreachable(error);
        this.#fails('the shards cannot be claimed now', error);
      }
      if (clock.monotonic() >= deadlineMs) {
        throw new StoreLockedError(
          `the node ${JSON.stringify(owner?.node ?? 'unknown')} has shards of the cluster; a standby waits longer ` +
            `than ${waitMs} ms: option "waitMs"`,
          { data: { owner: owner?.node, leaseLeftMs: owner?.leaseLeftMs, node } },
        );
      }
      await this.#wait(leaseMs * LEASE_RETRY_SHARE);
    }
    throw leftMeanwhile();
  }

  async #claim(want: ClaimRequest['want']): Promise<ShardMap> {
    this.#isClaiming = true;
    this.#claimedMs = this.#parts.clock.monotonic();
    try {
      return await this.#parts.directory.claim({ mayEndOthers: this.#mayEndOthers(), want });
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
    const { clock, directory, lease, node, leaseMs, address } = this.#parts;
    const moment = lease.moment();
    await directory.join(node, leaseMs, address);
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
      if (!isHeld && this.#claims.length === 0 && !this.#hasLeft) {
        // A claim in flight belongs to the stay that was ended. The node enters again once that claim has ended.
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
    const { clock, directory, lease, lost } = this.#parts;
    const held = this.#claims;
    this.#hasLeft = true;
    clock.clearTimer(this.#timer);
    this.#wakeAt(Number.NEGATIVE_INFINITY);
    lease.lose();
    // The name of a new owner only helps a reader of the log.
    const others = await directory.look().then(
      (map) => map.others,
      () => [],
    );
    lost(others.find(({ shards }) => held.some(({ shard }) => shards.includes(shard))));
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

function isSameClaim(a: ShardClaim, b: ShardClaim): boolean {
  return a.shard === b.shard && a.epoch === b.epoch;
}

/** True if both name the same stays, with the same addresses and shards. */
function areSameNodes(a: readonly OtherNode[], b: readonly OtherNode[]): boolean {
  return a.length === b.length && a.every((each, index) => isSameNode(each, b[index]));
}

function isSameNode(a: OtherNode, b: OtherNode | undefined): boolean {
  return (
    a.stay === b?.stay &&
    a.address?.host === b.address?.host &&
    a.address?.port === b.address?.port &&
    a.shards.length === b.shards.length &&
    a.shards.every((shard, index) => shard === b.shards[index])
  );
}

function leftMeanwhile(): CancelledError {
  return new CancelledError('the node left its cluster while it waited for the shards');
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
