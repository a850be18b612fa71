/**
 * The host's side of a runtime's place in its cluster. It starts the cluster thread, and reports the loss of the
 * shards.
 *
 * Owns: the cluster thread and the memory of the lease. Does not own: the shards; the runtime ends them after the
 * report.
 *
 * Invariants:
 *  MB1 the loss is reported once, by the first of these to find it: the cluster thread, a shard whose append was
 *     refused, or the end of the cluster thread;
 *  MB2 `leave` gives the shards back within `LEAVE_MS`, or leaves them to the end of the lease. It never rejects.
 */
import { LEAVE_MS } from '../base/bounds.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { asError, type ErrorShape, ShardMovedError, TroupeError } from '../base/errors.ts';
import { startThread, type Thread } from '../threads/thread.ts';
import { checkEntry, workerUrl } from '../threads/worker-url.ts';
import type { ShardPlace } from './cluster-journal.ts';
import { createLeaseMemory, Lease } from './lease.ts';
import type { ClusterBirth, ClusterFacts, ClusterPlan, ShardClaim, ShardOwner } from './plan.ts';
import type { Entered, WantedCluster } from './stay.ts';

/** The request that enters a cluster. */
export interface EnterRequest {
  readonly plan: ClusterPlan;
  readonly birth: ClusterBirth;
  /** The facts that an existing cluster must have. */
  readonly wanted: WantedCluster;
  readonly memory: SharedArrayBuffer;
}

/** The note that the lease of this node was ended. */
export interface LostNote {
  readonly owner: ShardOwner | undefined;
}

/** Facts about the place of a runtime in its cluster. */
export interface ClusterStatus {
  /** `owner`: this node has all shards. `lost`: another node has taken them, or this node has left. */
  readonly state: 'owner' | 'lost';
  /** The name of this node. */
  readonly node: string;
  /** The id of the cluster. */
  readonly cluster: string;
  /** Milliseconds for which this node believes in its lease, if the lease is not renewed. At 0 no work begins. */
  readonly leaseLeftMs: number;
  readonly shards: readonly { readonly shard: number; readonly epoch: number }[];
}

/** The cluster thread, as its host uses it. */
type ClusterThread = Pick<Thread, 'endpoint' | 'onExit' | 'exit' | 'unref'>;

/** The ports of a membership. A simulator replaces those of the machine. */
export interface MembershipPorts {
  readonly startThread: () => ClusterThread;
  readonly clock: Clock;
}

/** See the head of this file. */
export class ClusterMembership {
  readonly plan: ClusterPlan;
  readonly facts: ClusterFacts;
  readonly claims: readonly ShardClaim[];
  readonly memory: SharedArrayBuffer;
  readonly #thread: ClusterThread;
  readonly #clock: Clock;
  readonly #lease: Lease;
  readonly #listeners: ((error: ShardMovedError) => void)[] = [];
  #loss: ShardMovedError | undefined;
  #hasLeft = false;

  constructor(
    plan: ClusterPlan,
    { facts, claims }: Entered,
    memory: SharedArrayBuffer,
    { thread, clock }: { readonly thread: ClusterThread; readonly clock: Clock },
  ) {
    this.plan = plan;
    this.facts = facts;
    this.claims = claims;
    this.memory = memory;
    this.#thread = thread;
    this.#clock = clock;
    this.#lease = new Lease(memory, clock);
    thread.endpoint.handle('cluster.lost', (note) => this.#lostTo((note as LostNote).owner));
    thread.onExit(({ error }) => {
      if (!this.#hasLeft) this.lost(this.#moved('its cluster thread ended', error));
    });
  }

  status(): ClusterStatus {
    return {
      state: this.#loss === undefined && !this.#hasLeft ? 'owner' : 'lost',
      node: this.plan.node,
      cluster: this.facts.id,
      leaseLeftMs: Math.floor(this.#lease.leftMs),
      shards: this.claims.map(({ shard, epoch }) => ({ shard, epoch })),
    };
  }

  /** The place of one shard. Throws for a shard that the cluster does not have. */
  placeOf(shard: number): ShardPlace {
    const claim = this.claims.find((each) => each.shard === shard);
    if (claim === undefined) throw new TroupeError('internal', `there is no claim of shard ${shard}`);
    return { plan: this.plan, claim, memory: this.memory };
  }

  /** Calls `listener` once, when the shards are lost; in a microtask if they are lost already. */
  onLost(listener: (error: ShardMovedError) => void): void {
    const loss = this.#loss;
    if (loss === undefined) this.#listeners.push(listener);
    else queueMicrotask(() => listener(loss));
  }

  /** Notes that the shards are lost (MB1). */
  lost(error: ShardMovedError): void {
    if (this.#loss !== undefined || this.#hasLeft) return;
    this.#loss = error;
    this.#lease.lose();
    for (const listener of this.#listeners.splice(0)) listener(error);
  }

  /** Enforces MB2. */
  async leave(): Promise<void> {
    if (this.#hasLeft) return;
    this.#hasLeft = true;
    await left(this.#thread, this.#clock);
    this.#lease.lose();
  }

  #lostTo(owner: ShardOwner | undefined): void {
    const by =
      owner === undefined || owner.node === this.plan.node ? 'another node' : `the node ${JSON.stringify(owner.node)}`;
    this.lost(this.#moved(`${by} took its shards over after its lease had run out`, undefined, owner?.node));
  }

  #moved(reason: string, cause?: unknown, owner?: string): ShardMovedError {
    return new ShardMovedError(`the node ${JSON.stringify(this.plan.node)} has lost its shards: ${reason}`, {
      ...(cause === undefined ? {} : { cause }),
      data: { node: this.plan.node, ...(owner === undefined ? {} : { owner }) },
    });
  }
}

/** Gives the lease back within `LEAVE_MS`, and ends the thread. The pending timer keeps the process alive meanwhile. */
async function left(thread: ClusterThread, clock: Clock): Promise<void> {
  let timer: unknown;
  const late = new Promise<void>((resolve) => {
    timer = clock.setTimer(resolve, LEAVE_MS);
  });
  // A lease that is not given back ends by itself.
  await Promise.race([thread.endpoint.call('cluster.leave', undefined).catch(() => undefined), late]);
  clock.clearTimer(timer);
  await thread.exit();
}

/** Rejects when the thread ends. */
function endOf(thread: ClusterThread): Promise<never> {
  return new Promise((_resolve, reject) => {
    thread.onExit(({ error }) => reject(error ?? new TroupeError('internal', 'the cluster thread ended')));
  });
}

/**
 * Enters the cluster of a plan, and waits for its shards. `log` receives failures after which the node tries again.
 * Rejects like `Stay.enter`, and with the error that the plan's module throws.
 */
export async function joinCluster(
  plan: ClusterPlan,
  birth: ClusterBirth,
  wanted: WantedCluster,
  log: (message: string, error: ErrorShape) => void,
  ports: MembershipPorts = { startThread: startClusterThread, clock: systemClock },
): Promise<ClusterMembership> {
  const { clock } = ports;
  const memory = createLeaseMemory();
  const thread = ports.startThread();
  thread.endpoint.handle('cluster.failed', (note) => {
    const { message, error } = note as { readonly message: string; readonly error: ErrorShape };
    log(message, error);
  });
  try {
    const request: EnterRequest = { plan, birth, wanted, memory };
    const entered = (await Promise.race([thread.endpoint.call('cluster.enter', request), endOf(thread)])) as Entered;
    thread.unref();
    return new ClusterMembership(plan, entered, memory, { thread, clock });
  } catch (error) {
    await left(thread, clock);
    throw asError(error);
  }
}

function startClusterThread(): Thread {
  const entry = workerUrl('./cluster.worker', import.meta.url);
  checkEntry(entry);
  return startThread(entry, { name: 'troupe cluster' });
}
