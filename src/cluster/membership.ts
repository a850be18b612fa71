/**
 * The place of a runtime in its cluster, on the host thread. It starts the cluster thread, and says which node has which
 * shard.
 *
 * Owns: the cluster thread, the memory of the lease, the claims of this node. Does not own: the shards, which their
 * links start and close.
 *
 * Invariants:
 *  MB1 the loss is reported once, by the first of these to find it: the cluster thread, a shard whose append was
 *     refused, or the end of the cluster thread;
 *  MB2 `leave` gives the shards back within `LEAVE_MS`. If that fails, they become free when the lease ends. `leave`
 *     never rejects;
 *  MB3 each note is applied before its listeners are called, in the order in which the cluster thread sent the notes,
 *     and none after the loss or `leave`;
 *  MB4 a claim that was released is not a claim of this node any more, also if an earlier note still names it.
 */
import { LEAVE_MS } from '../base/bounds.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { asError, type ErrorShape, ShardMovedError, TroupeError } from '../base/errors.ts';
import type { Endpoint } from '../threads/endpoint.ts';
import { startThread, type Thread } from '../threads/thread.ts';
import { checkEntry, workerUrl } from '../threads/worker-url.ts';
import type { ShardPlace } from './cluster-journal.ts';
import { createLeaseMemory, Lease } from './lease.ts';
import type { ClusterBirth, ClusterFacts, ClusterPlan, NodeAddress, OtherNode, ShardClaim, ShardMap } from './plan.ts';
import type { Entered, WantedCluster } from './stay.ts';

/** The request that enters a cluster. */
export interface EnterRequest {
  readonly plan: ClusterPlan;
  readonly birth: ClusterBirth;
  /** The facts that an existing cluster must have. */
  readonly wanted: WantedCluster;
  readonly memory: SharedArrayBuffer;
  /** The address at which this node answers other nodes; missing: it does not. */
  readonly address?: NodeAddress;
}

/** The note that the shards have other owners, or that there are other nodes. */
export interface MapNote {
  readonly map: ShardMap;
}

/** The note that this node is to give a shard away. */
export interface GiveNote {
  readonly shard: number;
}

/** The note that the lease of this node was ended. */
export interface LostNote {
  readonly owner: OtherNode | undefined;
}

/** The request to give up the claim of a shard. */
export interface ReleaseRequest {
  readonly shard: number;
}

/** Facts about the place of a runtime in its cluster. */
export interface ClusterStatus {
  /**
   * `owner`: this node has shards. `member`: it has none, and claims its share as soon as there is one. `lost`: another
   * node has taken its shards, or this node has left.
   */
  readonly state: 'owner' | 'member' | 'lost';
  /** The name of this node. */
  readonly node: string;
  /** The id of the cluster. */
  readonly cluster: string;
  /** The other nodes with their shards, as this node saw them last. */
  readonly others: readonly { readonly node: string; readonly shards: readonly number[] }[];
  /** Milliseconds for which an owner may begin work if its lease is not renewed. At 0 no work begins. */
  readonly leaseLeftMs: number;
  /** The shards of this node, in ascending order; none at a member. */
  readonly shards: readonly { readonly shard: number; readonly epoch: number }[];
}

/** The cluster thread, as its host uses it. */
type ClusterThread = Pick<Thread, 'endpoint' | 'onExit' | 'exit' | 'unref'>;

/** A note of the cluster thread. */
type ClusterNote = MapNote | { readonly give: GiveNote } | { readonly lost: LostNote };

/** Gives the notes of the cluster thread to one receiver, the earlier ones at once. */
type NoteSource = (receiver: (note: ClusterNote) => void) => void;

/** The cluster thread and the clock of a membership. A simulator gives its own. */
export interface MembershipPorts {
  readonly startThread: () => ClusterThread;
  readonly clock: Clock;
}

/** See the head of this file. */
export class ClusterMembership {
  readonly plan: ClusterPlan;
  readonly facts: ClusterFacts;
  readonly memory: SharedArrayBuffer;
  readonly #thread: ClusterThread;
  readonly #clock: Clock;
  readonly #lease: Lease;
  readonly #listeners: ((error: ShardMovedError) => void)[] = [];
  readonly #changeListeners: (() => void)[] = [];
  #giveListener: ((shard: number) => void) | undefined;
  /** The shards that this node is to give away, until there is a listener. */
  readonly #given: number[] = [];
  #claims: readonly ShardClaim[];
  #others: readonly OtherNode[];
  /** The epochs of the claims that were released, by shard (MB4). */
  readonly #released = new Map<number, number>();
  #loss: ShardMovedError | undefined;
  #hasLeft = false;

  constructor(
    plan: ClusterPlan,
    { facts, map }: Entered,
    memory: SharedArrayBuffer,
    { thread, clock, notes }: { readonly thread: ClusterThread; readonly clock: Clock; readonly notes: NoteSource },
  ) {
    this.plan = plan;
    this.facts = facts;
    this.#claims = map.claims;
    this.#others = map.others;
    this.memory = memory;
    this.#thread = thread;
    this.#clock = clock;
    this.#lease = new Lease(memory, clock);
    notes((note) => this.#noted(note));
    thread.onExit(({ error }) => {
      if (!this.#hasLeft) this.lost(this.#moved('its cluster thread ended', error));
    });
  }

  /** The claims of this node. */
  get claims(): readonly ShardClaim[] {
    return this.#claims;
  }

  /** The other nodes that this node saw last. */
  get others(): readonly OtherNode[] {
    return this.#others;
  }

  /** True if this node has claimed a shard. */
  isHere(shard: number): boolean {
    return this.#claims.some((each) => each.shard === shard);
  }

  /** The other node that has a shard, as this node saw it last; undefined: this node has it, or none. */
  ownerOf(shard: number): OtherNode | undefined {
    return this.#others.find(({ shards }) => shards.includes(shard));
  }

  status(): ClusterStatus {
    const state = this.#claims.length === 0 ? 'member' : 'owner';
    return {
      state: this.#hasEnded ? 'lost' : state,
      node: this.plan.node,
      cluster: this.facts.id,
      others: this.#others.map(({ node, shards }) => ({ node, shards })),
      leaseLeftMs: Math.floor(this.#lease.leftMs),
      shards: this.#claims.map(({ shard, epoch }) => ({ shard, epoch })),
    };
  }

  /** The place of one shard. Throws unless this node has claimed it. */
  placeOf(shard: number): ShardPlace {
    const claim = this.#claims.find((each) => each.shard === shard);
    if (claim === undefined) throw new TroupeError('internal', `there is no claim of shard ${shard}`);
    return { plan: this.plan, claim, memory: this.memory };
  }

  /** Gives up the claim of a shard that was closed. Without a claim does nothing. */
  release(shard: number): void {
    const claim = this.#claims.find((each) => each.shard === shard);
    if (claim === undefined || this.#hasEnded) return;
    this.#released.set(shard, claim.epoch);
    this.#claims = this.#claims.filter((each) => each !== claim);
    this.#thread.endpoint.notify('cluster.release', { shard } satisfies ReleaseRequest);
    this.#changed();
  }

  /** Asks for an attempt to claim shards soon, because a shard is looked for that no node answers for. */
  look(): void {
    if (!this.#hasEnded) this.#thread.endpoint.notify('cluster.look', undefined);
  }

  /** Leaves the shards to the other nodes from now on, because this runtime closes. */
  retire(): void {
    if (!this.#hasEnded) this.#thread.endpoint.notify('cluster.retire', undefined);
  }

  /**
   * Calls `listener` after each later change of `claims` or `others` (MB3). Changes before this call are not repeated,
   * so read both first. The loss is no such change: see `onLost`.
   */
  onChange(listener: () => void): void {
    this.#changeListeners.push(listener);
  }

  /**
   * Calls `listener` when this node is to give a shard away, also for notes before this call. The listener closes the
   * shard, and calls `release`.
   */
  onGive(listener: (shard: number) => void): void {
    this.#giveListener = listener;
    for (const shard of this.#given.splice(0)) listener(shard);
  }

  /** Calls `listener` once, when the shards are lost; in a microtask if they are lost already. */
  onLost(listener: (error: ShardMovedError) => void): void {
    const loss = this.#loss;
    if (loss === undefined) this.#listeners.push(listener);
    else queueMicrotask(() => listener(loss));
  }

  /** Notes that the shards are lost (MB1). */
  lost(error: ShardMovedError): void {
    if (this.#hasEnded) return;
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

  get #hasEnded(): boolean {
    return this.#loss !== undefined || this.#hasLeft;
  }

  /** Enforces MB3. */
  #noted(note: ClusterNote): void {
    if (this.#hasEnded) return;
    if ('lost' in note) {
      this.#lostTo(note.lost.owner);
      return;
    }
    if ('give' in note) {
      if (this.#giveListener === undefined) this.#given.push(note.give.shard);
      else this.#giveListener(note.give.shard);
      return;
    }
    const { claims, others } = note.map;
    this.#claims = claims.filter(({ shard, epoch }) => epoch > (this.#released.get(shard) ?? 0));
    this.#others = others;
    this.#changed();
  }

  #changed(): void {
    for (const listener of this.#changeListeners) listener();
  }

  #lostTo(owner: OtherNode | undefined): void {
    const by =
      owner === undefined || owner.node === this.plan.node ? 'another node' : `the node ${JSON.stringify(owner.node)}`;
    this.lost(this.#moved(`${by} took its shards over after its lease had run out`, undefined, owner?.node));
  }

  #moved(reason: string, cause?: unknown, owner?: string): ShardMovedError {
    const what = this.#claims.length === 0 ? 'its place in the cluster' : 'its shards';
    return new ShardMovedError(`the node ${JSON.stringify(this.plan.node)} has lost ${what}: ${reason}`, {
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
 * The notes of a cluster thread, in order. They wait until the membership receives them, since the first ones may come
 * together with the answer to `cluster.enter`.
 */
function notesFrom(endpoint: Pick<Endpoint, 'handle'>): NoteSource {
  const early: ClusterNote[] = [];
  let receive = (note: ClusterNote): void => void early.push(note);
  endpoint.handle('cluster.map', (note) => receive(note as MapNote));
  endpoint.handle('cluster.give', (note) => receive({ give: note as GiveNote }));
  endpoint.handle('cluster.lost', (note) => receive({ lost: note as LostNote }));
  return (receiver) => {
    receive = receiver;
    for (const note of early.splice(0)) receiver(note);
  };
}

/**
 * Enters the cluster of a plan: as a member at once if the plan has a line, and otherwise as soon as the node has the
 * shards. `log` receives the failures that do not end the stay: the node tries again. Rejects like `Stay.enter`, and
 * with the error that the plan's module throws.
 */
export async function joinCluster(
  entering: Omit<EnterRequest, 'memory'>,
  log: (message: string, error: ErrorShape) => void,
  ports: MembershipPorts = { startThread: startClusterThread, clock: systemClock },
): Promise<ClusterMembership> {
  const { clock } = ports;
  const memory = createLeaseMemory();
  const thread = ports.startThread();
  const notes = notesFrom(thread.endpoint);
  thread.endpoint.handle('cluster.failed', (note) => {
    const { message, error } = note as { readonly message: string; readonly error: ErrorShape };
    log(message, error);
  });
  try {
    const request: EnterRequest = { ...entering, memory };
    const entered = (await Promise.race([thread.endpoint.call('cluster.enter', request), endOf(thread)])) as Entered;
    thread.unref();
    return new ClusterMembership(entering.plan, entered, memory, { thread, clock, notes });
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
