/** The option `cluster` of `open`, and the options that it excludes. */
import { z } from 'zod';
import { ConfigError } from '../../base/errors.ts';
import { isRecord } from '../../base/json.ts';
import type { ClusterPlan } from '../../cluster/plan.ts';

/** The schema of the option. The plan was checked when it was made. */
export const clusterSchema: z.ZodType<ClusterPlan> = z.custom<ClusterPlan>(
  (value) => isRecord(value) && value['kind'] === 'cluster' && typeof value['module'] === 'string',
  'must be a cluster, such as postgres({ url }) of troupe/postgres',
);

/** The options that a cluster excludes. */
interface ExcludedOptions {
  readonly cluster?: ClusterPlan | undefined;
  readonly takeover?: unknown;
  readonly webhooks?: readonly unknown[] | undefined;
  readonly encryption?: { readonly previousKeys?: readonly unknown[] | undefined } | undefined;
}

/**
 * The cluster of the options; undefined without the option `cluster`. Throws `ConfigError` for an option that a cluster
 * excludes.
 */
export function checkCluster({ cluster, takeover, webhooks, encryption }: ExcludedOptions): ClusterPlan | undefined {
  if (cluster === undefined) return undefined;
  const refuse = (key: string, reason: string): never => {
    throw new ConfigError(`option "${key}": not allowed with the option "cluster": ${reason}`, { data: { key } });
  };
  if (takeover !== undefined && takeover !== false) {
    refuse('takeover', 'the next node waits for the lease');
  }
  if (webhooks !== undefined && webhooks.length > 0) {
    refuse('webhooks', 'their cursor is a file of one machine');
  }
  if (encryption?.previousKeys !== undefined && encryption.previousKeys.length > 0) {
    refuse('encryption.previousKeys', 'the key of a cluster cannot be replaced yet');
  }
  return cluster;
}
