/**
 * The journal of a shard in a cluster: the log outside this machine, under the claim of this node, and a copy in LMDB.
 * The copy is not synced, because the log has the same commits. Runs on the shard's thread.
 */
import { rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { systemClock } from '../base/clock.ts';
import { defined } from '../base/defined.ts';
import type { Journal, JournalOptions } from '../journal/journal.ts';
import type { CopyFault } from '../journal/replica/replicated-engine.ts';
import { Lease } from './lease.ts';
import { type ClusterPlan, loadCluster, type ShardClaim } from './plan.ts';
import { openShardJournal } from './shard-journal.ts';

/** The place of one shard in a cluster. Plain data. */
export interface ShardPlace {
  readonly plan: ClusterPlan;
  readonly claim: ShardClaim;
  /** The memory of the node's lease. */
  readonly memory: SharedArrayBuffer;
}

/** The parts of which the journal of a shard in a cluster is made. */
export interface ClusterJournalParts {
  readonly place: ShardPlace;
  readonly options: JournalOptions & { readonly directory: string };
  /** Called when the copy is found damaged. The next write is refused, and `recover` builds the copy again. */
  readonly damaged: (error: Error) => void;
  readonly log: (message: string) => void;
}

/**
 * Opens the journal of a shard. Rejects with `ShardMovedError` if another node has claimed the shard since, and with
 * `StoreFullError` if the database does not answer. Rejects with `StoreCorruptError` if the log itself is damaged, and
 * like `openLmdbJournal`.
 */
export async function openClusterJournal({ place, options, damaged, log }: ClusterJournalParts): Promise<Journal> {
  const { plan, claim, memory } = place;
  const { directory, gate, encryption, shard = 0 } = options;
  const lease = new Lease(memory);
  const { openShardLog } = await loadCluster(plan);
  const [{ openLmdbEngine }, { lmdbSnapshotFiles }] = await Promise.all([
    import('../journal/lmdb/engine.ts'),
    import('../journal/lmdb/snapshot-file.ts'),
  ]);
  return openShardJournal({
    log: openShardLog(plan.data, { claim, holdMs: plan.holdMs, isLost: () => lease.isLost, clock: systemClock }),
    lease,
    holdMs: plan.holdMs,
    openCopy: (onLost) =>
      openLmdbEngine({ directory, durability: 'os', onLost, shard, ...defined({ gate, encryption }) }),
    removeCopy: async (fault) => log(await removeCopy(directory, fault)),
    files: lmdbSnapshotFiles(directory),
    damaged,
    schedule: (run) => void setImmediate(run),
    shard,
    encryption,
  });
}

/**
 * Removes a copy, or puts it aside if it has commits that the log does not have. A database may have acknowledged these
 * commits and then lost them. At most one copy of each shard is kept aside. Resolves to a line for the log.
 */
async function removeCopy(directory: string, fault: CopyFault): Promise<string> {
  if (fault !== 'diverged') {
    await rm(directory, { recursive: true, force: true });
    const is = fault === 'damaged' ? 'is damaged' : 'is older than the first entry of the log';
    return `the copy ${directory} ${is}; it is built again`;
  }
  const aside = join(dirname(directory), `diverged-${basename(directory)}`);
  await rm(aside, { recursive: true, force: true });
  await rename(directory, aside);
  return `the copy ${directory} has commits that the log has not; it was put aside as ${aside}`;
}
