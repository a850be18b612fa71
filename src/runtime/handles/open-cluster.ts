/**
 * Does the part of `open` for the option `cluster`: enters the cluster, and prepares the directory for the copies of
 * its shards.
 */
import { join } from 'node:path';
import { defined } from '../../base/defined.ts';
import { asError, ShardMovedError } from '../../base/errors.ts';
import { type ClusterMembership, joinCluster } from '../../cluster/membership.ts';
import type { ClusterPlan } from '../../cluster/plan.ts';
import { clusterOf, openCopyManifest } from '../../journal/store/birth.ts';
import { encryptionRecord, fittingKeys } from '../../journal/store/store-key.ts';
import type { CheckedOptions, GuardedLogger } from '../protocol/options.ts';
import type { Place } from './assemble.ts';
import { moveAway, type Runtime } from './runtime.ts';

/**
 * Waits until this node has the shards of the cluster, then returns the `Place` of the runtime. The caller holds the
 * lock of `directory`. The caller releases that lock after `release` of the place, or after a rejection. Rejects with
 * `ConfigError` for a cluster or a directory that does not fit, with `StoreKeyError`, with `StoreLockedError` while
 * another node has the shards, and with `StoreFullError` if the database cannot be reached.
 */
export async function openClusterPlace(directory: string, plan: ClusterPlan, checked: CheckedOptions): Promise<Place> {
  const { encryption, logger, shards } = checked;
  const known = await clusterOf(directory);
  const birth = {
    shards: plan.shards ?? shards ?? 1,
    ...defined({ keyId: encryption && encryptionRecord(encryption).keyId }),
  };
  const isCounted = (plan.shards ?? shards) !== undefined;
  const membership = await joinCluster(plan, birth, { isCounted, ...defined({ id: known }) }, (message, error) => {
    logger?.warn({ node: plan.node, err: error }, `cluster: ${message}: ${error.message}`);
  });
  try {
    const { id, shards: count } = membership.facts;
    // The data keys of a shard are in its log, so they are bound to the cluster and not to a directory.
    const record = encryption && encryptionRecord({ ...encryption, storeId: id });
    const manifest = await openCopyManifest(directory, count, { id }, record);
    const keys = fittingKeys(directory, manifest.encryption, encryption);
    return {
      ...defined({ encryption: keys }),
      directory,
      resultStore: join(directory, 'results'),
      shards: count,
      cluster: membership,
      release: () => membership.leave(),
    };
  } catch (error) {
    await membership.leave();
    throw error;
  }
}

/** Ends a runtime as soon as its node has lost the shards. */
export function endWhenLost(
  runtime: Runtime,
  cluster: Pick<ClusterMembership, 'onLost'>,
  logger: GuardedLogger | undefined,
): void {
  cluster.onLost((error) => {
    logger?.error({ err: error }, `${error.message}; this runtime ends`);
    moveAway(runtime, error).catch((ending: unknown) => {
      // The last commits are refused, as they must be.
      if (!(ending instanceof ShardMovedError)) {
        logger?.error({ err: ending }, `the runtime did not end as it should: ${asError(ending).message}`);
      }
    });
  });
}
