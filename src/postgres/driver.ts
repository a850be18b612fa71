/**
 * The module that the plan of `postgres()` names. Each thread of a node that needs the database loads this module, and
 * opens its own connections. The command line reads a cluster by it.
 */
import type { ClusterPlan, ShardDirectory, ShardLogParts } from '../cluster/plan.ts';
import type { ShardLog } from '../journal/replica/shard-log.ts';
import { Connection } from './connection.ts';
import { PostgresDirectory } from './directory.ts';
import { dataSchema } from './options.ts';
import { tablesOf } from './schema.ts';
import { PostgresShardLog } from './shard-log.ts';

export { changeTables, makeCluster } from './administration.ts';
export { readOverview } from './overview.ts';

/** See `ClusterModule`. Throws for data that `postgres()` did not make. */
export function openDirectory(data: ClusterPlan['data']): ShardDirectory {
  const checked = dataSchema.parse(data);
  return new PostgresDirectory(new Connection(checked), tablesOf(checked.schema));
}

/** See `ClusterModule`. Throws for data that `postgres()` did not make. */
export function openShardLog(data: ClusterPlan['data'], parts: ShardLogParts): ShardLog {
  const checked = dataSchema.parse(data);
  return new PostgresShardLog(() => new Connection(checked), tablesOf(checked.schema), parts);
}
