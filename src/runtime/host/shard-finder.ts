/** The port through which a link finds its shard in a cluster. */
import { FAIL_OVER_LEASES } from '../../base/bounds.ts';
import type { Clock } from '../../base/clock.ts';
import { StoreFullError, TroupeError } from '../../base/errors.ts';
import type { ShardPlace } from '../../cluster/cluster-journal.ts';
import type { ClusterMembership } from '../../cluster/membership.ts';
import type { ClusterPlan } from '../../cluster/plan.ts';
import type { Endpoint } from '../../threads/endpoint.ts';

/** A line to the host of the node that has a shard. Its endpoint answers `ask` and the other host's own methods. */
export interface ShardLine {
  readonly endpoint: Endpoint;
  /** Runs `listener` once when the line has ended, also by `exit`. */
  onExit(listener: () => void): void;
  exit(): Promise<void>;
}

/** A shard that was found: this node may start it, or another node answers for it. */
export type FoundShard = { readonly place: ShardPlace } | { readonly line: ShardLine };

/** Finds the shards of a cluster. */
export interface ShardFinder {
  /**
   * Milliseconds for which requests wait for a shard that is nowhere. A fail-over, and an outage of the database, end
   * within this time.
   */
  readonly absenceMs: number;
  /** True if this node has claimed the shard. */
  isHere(shard: number): boolean;
  /** Waits until a shard is here or can be reached. Rejects with `CancelledError` once `signal` is aborted. */
  find(shard: number, signal: AbortSignal): Promise<FoundShard>;
  /** Gives up the claim of a shard that was closed here. */
  release(shard: number): void;
}

/** The time for which requests wait for a shard: a fail-over, and then an outage of the database. */
export function absenceMsOf({ leaseMs, holdMs }: Pick<ClusterPlan, 'leaseMs' | 'holdMs'>): number {
  return leaseMs * FAIL_OVER_LEASES + holdMs;
}

/** Finds the shards of a node that enters its cluster with claims of all of them. */
export function ownShards(membership: Pick<ClusterMembership, 'plan' | 'placeOf'>): ShardFinder {
  return {
    absenceMs: absenceMsOf(membership.plan),
    isHere: () => true,
    // Another standby claims all shards or none, so they are given back together, when the node leaves.
    release: () => undefined,
    find: async (shard) => ({ place: membership.placeOf(shard) }),
  };
}

/** The time in which a link looks for its shard. */
export class ShardAbsence {
  /** Rejects when the shard has been looked for longer than `ms`. Never resolves. */
  readonly #over: Promise<never>;
  readonly #clock: Pick<Clock, 'setTimer' | 'clearTimer'>;
  #timer: unknown;

  constructor(shard: number, ms: number, clock: Pick<Clock, 'setTimer' | 'clearTimer'>) {
    this.#clock = clock;
    this.#over = new Promise((_resolve, reject) => {
      this.#timer = clock.setTimer(() => reject(absent(shard, ms)), ms);
    });
    // Without a request that waits, the rejection has no reader.
    this.#over.catch(() => undefined);
  }

  /** Settles as `work` does, or rejects with `refusal` of the error when the shard has been looked for too long. */
  bound<T>(work: Promise<T>, refusal: (error: unknown) => unknown): Promise<T> {
    return Promise.race([work, this.#over.catch((error: unknown) => Promise.reject(refusal(error)))]);
  }

  /** Called when the shard was found, or is looked for no longer. */
  end(): void {
    this.#clock.clearTimer(this.#timer);
  }
}

function absent(shard: number, ms: number): StoreFullError {
  return new StoreFullError(
    `no node of the cluster has answered for shard ${shard} in ${ms} ms. Nothing was done; try again later`,
    { data: { reason: 'owner', shard } },
  );
}

/** Throws `not_here` unless this node has the shard of a session. */
export function checkHere({ isElsewhere }: { readonly isElsewhere: boolean }, session: string): void {
  if (!isElsewhere) return;
  throw new TroupeError(
    'not_here',
    `another node of the cluster has the session ${JSON.stringify(session)}, and a turn waits only for the listeners of ` +
      'that node: register the listener there, or leave out "wait"',
    { data: { session } },
  );
}
