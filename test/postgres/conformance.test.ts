import { describe, expect, test } from 'vitest';
import { StoreFullError } from '../../src/base/errors.ts';
import type { ShardLog } from '../../src/journal/replica/shard-log.ts';
import { openDirectory } from '../../src/postgres/driver.ts';
import { journalChecks, runJournalCheck } from '../../src/testing/conformance/journal-conformance.ts';
import { runShardLogConformance, shardLogChecks } from '../journal/replica/shard-log-conformance.ts';
import { makeReplicaJournal } from '../journal/replica/support.ts';
import { makeCluster } from './support/cluster.ts';
import { NO_SERVER, newSchema, query, sharedServer } from './support/server.ts';

const LEASE_MS = 60_000;

/** A log that refuses writes while `cause` returns an error. */
function refusing(log: ShardLog, cause: () => Error | undefined): ShardLog {
  const check = (): void => {
    const error = cause();
    if (error !== undefined) throw new StoreFullError('the database refuses', { cause: error });
  };
  const { snapshots } = log;
  if (snapshots === undefined) throw new Error('the log has no snapshots');
  return {
    epoch: log.epoch,
    snapshots,
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
  test('PD5: a claim ends no lease after half of a lease without a renewal', async () => {
    const { url } = await sharedServer();
    const schema = newSchema();
    const [owner, standby] = [openDirectory({ url, schema }), openDirectory({ url, schema })];
    await owner.prepare({ shards: 1 }, true);
    await standby.prepare({ shards: 1 }, true);
    await owner.join('owner', LEASE_MS);
    expect((await owner.claimAll(true)).claims).toHaveLength(1);
    await query(url, `UPDATE "${schema}".troupe_node SET expires = clock_timestamp() - interval '1 second'`);
    // Its lease has run out before the claim is asked for, as if the database had stood still meanwhile.
    await standby.join('standby', 0.001);
    expect(await standby.claimAll(true)).toMatchObject({ owner: { node: 'owner', leaseLeftMs: 0 } });
    await standby.renew(LEASE_MS);
    expect((await standby.claimAll(true)).claims).toHaveLength(1);
    await Promise.all([owner.close(), standby.close()]);
  });

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
