/** A cluster on the shared server whose shard is claimed without a runtime. */
import { systemClock } from '../../../src/base/clock.ts';
import type { ShardDirectory } from '../../../src/cluster/plan.ts';
import type { ShardLog } from '../../../src/journal/replica/shard-log.ts';
import { openDirectory, openShardLog } from '../../../src/postgres/driver.ts';
import { newSchema, query, sharedServer } from './server.ts';

const LEASE_MS = 60_000;

/** A cluster with one shard. */
export interface TestCluster {
  readonly url: string;
  readonly schema: string;
  claim(): Promise<ShardLog>;
  goBack(entries: number): Promise<void>;
  dispose(): Promise<void>;
}

/** Makes a cluster with one shard. Each claim takes it over from the node before, whose lease has run out. */
export async function makeCluster(): Promise<TestCluster> {
  const { url } = await sharedServer();
  const schema = newSchema();
  const open: Pick<ShardLog | ShardDirectory, 'close'>[] = [];
  return {
    url,
    schema,
    async claim() {
      const directory = openDirectory({ url, schema });
      open.push(directory);
      await directory.prepare({ shards: 1 }, true);
      await query(url, `UPDATE "${schema}".troupe_node SET expires = clock_timestamp() - interval '1 second'`);
      await directory.join('test', LEASE_MS);
      const { claims } = await directory.claim({ mayEndOthers: true, want: 'all' });
      const [claim] = claims;
      if (claim === undefined) throw new Error('the shard was not claimed');
      const log = openShardLog({ url, schema }, { claim, holdMs: 1_000, isLost: () => false, clock: systemClock });
      open.push(log);
      return log;
    },
    async goBack(entries) {
      await query(url, `UPDATE "${schema}".troupe_shard SET last = last - $1`, [entries]);
      await query(
        url,
        `DELETE FROM "${schema}".troupe_log l USING "${schema}".troupe_shard s WHERE l.shard = s.shard AND l.no > s.last`,
      );
      await query(
        url,
        `DELETE FROM "${schema}".troupe_snapshot n USING "${schema}".troupe_shard s WHERE n.shard = s.shard AND n.no > s.last`,
      );
    },
    async dispose() {
      for (const each of open) await each.close();
      await query(url, `DROP SCHEMA "${schema}" CASCADE`);
    },
  };
}
