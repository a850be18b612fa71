import { describe, expect, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { StoreFullError } from '../../src/base/errors.ts';
import type { ShardDirectory } from '../../src/cluster/plan.ts';
import type { ShardLog } from '../../src/journal/replica/shard-log.ts';
import { openDirectory, openShardLog } from '../../src/postgres/driver.ts';
import { journalChecks, runJournalCheck } from '../../src/testing/conformance/journal-conformance.ts';
import { runShardLogConformance, shardLogChecks } from '../journal/replica/shard-log-conformance.ts';
import { makeReplicaJournal } from '../journal/replica/support.ts';
import { NO_SERVER, newSchema, query, sharedServer } from './support/server.ts';

const LEASE_MS = 60_000;

interface Cluster {
  claim(): Promise<ShardLog>;
  goBack(entries: number): Promise<void>;
  dispose(): Promise<void>;
}

/** A cluster with one shard. Each claim takes it over from the node before, whose lease has run out. */
async function makeCluster(): Promise<Cluster> {
  const { url } = await sharedServer();
  const schema = newSchema();
  const open: Pick<ShardLog | ShardDirectory, 'close'>[] = [];
  return {
    async claim() {
      const directory = openDirectory({ url, schema });
      open.push(directory);
      await directory.prepare({ shards: 1 }, true);
      await query(url, `UPDATE "${schema}".troupe_node SET expires = clock_timestamp() - interval '1 second'`);
      await directory.join('test', LEASE_MS);
      const { claims } = await directory.claimAll(true);
      const [claim] = claims ?? [];
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
    },
    async dispose() {
      for (const each of open) await each.close();
      await query(url, `DROP SCHEMA "${schema}" CASCADE`);
    },
  };
}

/** A log that refuses writes while `cause` returns an error. */
function refusing(log: ShardLog, cause: () => Error | undefined): ShardLog {
  const check = (): void => {
    const error = cause();
    if (error !== undefined) throw new StoreFullError('the database refuses', { cause: error });
  };
  return {
    epoch: log.epoch,
    async append(entry) {
      check();
      return log.append(entry);
    },
    async reclaim() {
      check();
      return log.reclaim();
    },
    fetch: (after) => log.fetch(after),
    digestOf: (number) => log.digestOf(number),
    close: () => log.close(),
  };
}

describe.skipIf(NO_SERVER !== undefined)('on PostgreSQL', () => {
  test('conformance of the log', async () => {
    const { passed, skipped } = await runShardLogConformance(makeCluster);
    expect(passed).toEqual(shardLogChecks.map(({ title }) => title));
    expect(skipped).toEqual([]);
  });

  describe('conformance of the journal, with an empty directory at each opening', () => {
    test.each(journalChecks.map((check) => [check.title, check] as const))('%s', async (_title, check) => {
      const isRun = await runJournalCheck(check, async () => {
        const cluster = await makeCluster();
        let refusal: Error | undefined;
        return makeReplicaJournal({
          claim: async () => refusing(await cluster.claim(), () => refusal),
          refuse: (cause) => {
            refusal = cause;
          },
          dispose: () => cluster.dispose(),
        });
      });
      expect(isRun).toBe(true);
    });
  });
});
