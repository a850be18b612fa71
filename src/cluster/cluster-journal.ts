/**
 * The journal of a shard in a cluster: the log outside this machine, under the claim of this node, and a copy in LMDB that
 * is not synced. Runs on the shard's thread.
 */
import { rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { defined } from '../base/defined.ts';
import { asError } from '../base/errors.ts';
import { EngineJournal } from '../journal/engine-journal.ts';
import type { Journal, JournalOptions } from '../journal/journal.ts';
import { type CopyFault, openReplicatedEngine } from '../journal/replica/replicated-engine.ts';
import { Lease } from './lease.ts';
import { type ClusterPlan, loadCluster, type ShardClaim } from './plan.ts';

/** The place of one shard in a cluster. Plain data. */
export interface ShardPlace {
  readonly plan: ClusterPlan;
  readonly claim: ShardClaim;
  /** The memory of the node's lease. */
  readonly memory: SharedArrayBuffer;
}

/** The parts of such a journal beside its options. */
export interface ClusterJournalParts {
  readonly place: ShardPlace;
  readonly options: JournalOptions & { readonly directory: string };
  /** Called when a read finds the copy damaged. The next write is refused, and `recover` builds the copy again. */
  readonly damaged: (error: Error) => void;
  readonly log: (message: string) => void;
}

/**
 * Opens the journal of a shard. Rejects with `ShardMovedError` if another node has claimed the shard since, with
 * `StoreFullError` if the database does not answer, with `StoreCorruptError` if the log itself is damaged, and like
 * `openLmdbJournal`.
 */
export async function openClusterJournal({ place, options, damaged, log }: ClusterJournalParts): Promise<Journal> {
  const { plan, claim, memory } = place;
  const { directory, gate, encryption, shard = 0 } = options;
  const lease = new Lease(memory);
  const { openShardLog } = await loadCluster(plan);
  const shardLog = openShardLog(plan.data, { claim, holdMs: plan.holdMs, isLost: () => lease.isLost });
  try {
    const { openLmdbEngine } = await import('../journal/lmdb/engine.ts');
    const engine = await openReplicatedEngine({
      log: shardLog,
      openCopy: (onLost) =>
        openLmdbEngine({ directory, durability: 'os', onLost, shard, ...defined({ gate, encryption }) }),
      removeCopy: async (fault) => log(await removeCopy(directory, fault)),
      leased: () => lease.whenValid(plan.holdMs),
      damaged,
    });
    return new EngineJournal(engine, { schedule: (run) => void setImmediate(run), shard, ...defined({ encryption }) });
  } catch (error) {
    await shardLog.close();
    throw asError(error);
  }
}

/**
 * Removes a copy, or puts it aside if it has commits that the log has not: they may have been acknowledged, by a database
 * that lost them. One copy of each shard is kept. Resolves to a line for the log.
 */
async function removeCopy(directory: string, fault: CopyFault): Promise<string> {
  if (fault === 'damaged') {
    await rm(directory, { recursive: true, force: true });
    return `the copy ${directory} of a shard was damaged; it is built again from the log`;
  }
  const aside = join(dirname(directory), `diverged-${basename(directory)}`);
  await rm(aside, { recursive: true, force: true });
  await rename(directory, aside);
  return `the copy ${directory} has commits that the log of the cluster has not; it was put aside as ${aside}`;
}
