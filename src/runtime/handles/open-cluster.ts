/**
 * Does the part of `open` for the option `cluster`: enters the cluster, and prepares the directory for the copies of
 * its shards.
 */
import { join } from 'node:path';
import { LINE_CONNECT_MS } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { asError, type ErrorShape, ShardMovedError } from '../../base/errors.ts';
import { type ClusterMembership, joinCluster } from '../../cluster/membership.ts';
import type { ClusterPlan, NodeAddress } from '../../cluster/plan.ts';
import { clusterOf, openCopyManifest } from '../../journal/store/birth.ts';
import { encryptionRecord, fittingKeys } from '../../journal/store/store-key.ts';
import type { Endpoint } from '../../threads/endpoint.ts';
import { keepAliveFor } from '../../threads/thread.ts';
import { ownShards } from '../host/shard-finder.ts';
import type { ShardLines } from '../host/shard-lines.ts';
import type { CheckedOptions, GuardedLogger } from '../protocol/options.ts';
import { VERSION } from '../protocol/version.ts';
import type { Place } from './assemble.ts';
import { moveAway, type Runtime } from './runtime.ts';

/**
 * Enters the cluster and returns the `Place` of the runtime. Without lines, waits until this node has the shards. The
 * caller holds the lock of `directory`, and releases it after `release` of the place, or after a rejection. Rejects with
 * `ConfigError` if the options do not fit the cluster, the directory or this machine, and with `StoreKeyError`. Rejects
 * with `StoreLockedError` while another node has the shards, and with `StoreFullError` if the database cannot be
 * reached.
 */
export async function openClusterPlace(directory: string, plan: ClusterPlan, checked: CheckedOptions): Promise<Place> {
  const { encryption, logger, shards } = checked;
  const known = await clusterOf(directory);
  const birth = {
    shards: plan.shards ?? shards ?? 1,
    ...defined({ keyId: encryption && encryptionRecord(encryption).keyId }),
  };
  const wanted = { isCounted: (plan.shards ?? shards) !== undefined, ...defined({ id: known }) };
  const failed = (message: string, error: Error | ErrorShape): void => {
    logger?.warn({ node: plan.node, err: error }, `cluster: ${message}: ${error.message}`);
  };
  const door = plan.line === undefined ? undefined : await openDoor(plan.line, checked, failed);
  let membership: ClusterMembership;
  try {
    membership = await joinCluster({ plan, birth, wanted, ...defined({ address: door?.address }) }, failed);
  } catch (error) {
    await door?.close();
    throw error;
  }
  const release = async (): Promise<void> => {
    await membership.leave();
    await door?.close();
  };
  try {
    const { id, shards: count } = membership.facts;
    // The data keys of a shard are in its log, so they are bound to the cluster and not to a directory.
    const record = encryption && encryptionRecord({ ...encryption, storeId: id });
    const manifest = await openCopyManifest(directory, count, { id }, record);
    const keys = fittingKeys(directory, manifest.encryption, encryption);
    const lines = door?.lines(membership);
    return {
      ...defined({ encryption: keys, lines }),
      directory,
      resultStore: join(directory, 'results'),
      shards: count,
      cluster: membership,
      finder: lines ?? ownShards(membership),
      release,
    };
  } catch (error) {
    await release();
    throw error;
  }
}

/** The address at which this node answers other nodes, and the lines that begin and end there. */
interface Door {
  readonly address: NodeAddress;
  lines(membership: ClusterMembership): ShardLines;
  close(): Promise<void>;
}

/** Listens for other nodes. The code of lines is imported only here. Rejects with `ConfigError` if it cannot listen. */
async function openDoor(
  { listen, secret }: NonNullable<ClusterPlan['line']>,
  { clock }: CheckedOptions,
  failed: (message: string, error: Error) => void,
): Promise<Door> {
  const [{ listenForLines }, { connectLine }, { ShardLines }] = await Promise.all([
    import('../../cluster/line/line-server.ts'),
    import('../../cluster/line/line-client.ts'),
    import('../host/shard-lines.ts'),
  ]);
  const common = { secret, clock, failed, version: VERSION };
  let lines: ShardLines | undefined;
  const accepted = (line: Endpoint): void => {
    // The node answers as soon as it has entered the cluster. The other node tries again.
    if (lines === undefined) line.close();
    else lines.accept(line);
  };
  const server = await listenForLines({ ...common, listen, accepted });
  // Other nodes depend on this one, so it keeps its process alive until it closes, as a server does.
  let closed = (): void => undefined;
  void keepAliveFor(new Promise<void>((resolve) => (closed = resolve)));
  return {
    address: server.address,
    lines(membership) {
      const connect = async (address: NodeAddress): Promise<Endpoint> => {
        const line = await connectLine({ ...common, address, timeoutMs: LINE_CONNECT_MS });
        // The server keeps the process alive. A line that takes its time to end does not.
        line.unref();
        return line;
      };
      lines = new ShardLines({ membership, own: server.address, connect, clock, failed });
      return lines;
    },
    close: async () => {
      closed();
      await server.close();
    },
  };
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
