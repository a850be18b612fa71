import { describe, expect, test } from 'vitest';
import { StoreFullError } from '../../src/base/errors.ts';
import type { ShardLog } from '../../src/journal/replica/shard-log.ts';
import { Connection, type StatementPort } from '../../src/postgres/connection.ts';
import { PostgresDirectory } from '../../src/postgres/directory.ts';
import { openDirectory } from '../../src/postgres/driver.ts';
import { tablesOf } from '../../src/postgres/schema.ts';
import { journalChecks, runJournalCheck } from '../../src/testing/conformance/journal-conformance.ts';
import { runShardLogConformance, shardLogChecks } from '../journal/replica/shard-log-conformance.ts';
import { makeReplicaJournal } from '../journal/replica/support.ts';
import { makeCluster } from './support/cluster.ts';
import { NO_SERVER, newSchema, query, sharedServer } from './support/server.ts';

const LEASE_MS = 60_000;
const ALL = { mayEndOthers: true, want: 'all' } as const;

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
    const connection = new Connection({ url, schema });
    // The database answers the join as if it had stood still for a lease before the claim.
    const late: StatementPort = {
      run: async (name, ...statement) => {
        const result = await connection.run(name, ...statement);
        if (name !== 'join') return result;
        return { ...result, rows: result.rows.map((row) => ({ ...row, now: Number(row['now']) - LEASE_MS })) };
      },
      runAll: (...statements) => connection.runAll(...statements),
      rest: () => connection.rest(),
      close: () => connection.close(),
    };
    const [owner, standby] = [openDirectory({ url, schema }), new PostgresDirectory(late, tablesOf(schema))];
    await owner.prepare({ shards: 1 }, true);
    await standby.prepare({ shards: 1 }, true);
    await owner.join('owner', LEASE_MS);
    expect((await owner.claim(ALL)).claims).toHaveLength(1);
    await query(url, `UPDATE "${schema}".troupe_node SET expires = clock_timestamp() - interval '1 second'`);
    await standby.join('standby', LEASE_MS);
    expect(await standby.claim(ALL)).toMatchObject({ claims: [], others: [{ node: 'owner', leaseLeftMs: 0 }] });
    await standby.renew(LEASE_MS);
    expect((await standby.claim(ALL)).claims).toHaveLength(1);
    await Promise.all([owner.close(), standby.close()]);
  });

  test('a node sees the address of an owner; a text that is no address counts as none', async () => {
    const { url } = await sharedServer();
    const schema = newSchema();
    const [owner, member] = [openDirectory({ url, schema }), openDirectory({ url, schema })];
    await owner.prepare({ shards: 1 }, true);
    await member.prepare({ shards: 1 }, true);
    await owner.join('owner', LEASE_MS, { host: '2001:db8::1', port: 4_100 });
    const [claim] = (await owner.claim({ ...ALL, mayEndOthers: false })).claims;
    await member.join('member', LEASE_MS, { host: 'member', port: 1 });
    const found = { stay: claim?.owner, node: 'owner', leaseLeftMs: expect.any(Number), shards: [0] };
    const address = { host: '2001:db8::1', port: 4_100 };
    expect(await member.look()).toEqual({ claims: [], others: [{ ...found, address }] });
    expect(await member.claim(ALL)).toEqual({ claims: [], others: [{ ...found, address }] });
    for (const text of [null, '', 'host', 'host:', ':1', 'host:0', 'host:65536', 'host:1x', 'two words:1', 'a\nb:1']) {
      await query(url, `UPDATE "${schema}".troupe_node SET address = $1 WHERE name = 'owner'`, [text]);
      expect((await member.look()).others, JSON.stringify(text)).toEqual([found]);
    }
    await Promise.all([owner.close(), member.close()]);
  });

  test('PD4, PD6: nodes with an address claim free shards up to their shares, and leave the last to one that lacks it', async () => {
    const { url } = await sharedServer();
    const schema = newSchema();
    const nodes = ['a', 'b', 'c'].map((name) => ({ name, directory: openDirectory({ url, schema }) }));
    const [a, b, c] = nodes.map(({ directory }) => directory);
    if (a === undefined || b === undefined || c === undefined) throw new Error('there are three nodes');
    for (const { directory } of nodes) await directory.prepare({ shards: 5 }, true);
    const enter = async (index: number): Promise<void> => {
      const { name = '', directory } = nodes[index] ?? {};
      await directory?.join(name, LEASE_MS, { host: name, port: 1 });
    };
    const share = async (directory: typeof a): Promise<readonly (readonly [number, number])[]> => {
      const { claims } = await directory.claim({ mayEndOthers: false, want: 'share' });
      return claims.map(({ shard, epoch }) => [shard, epoch] as const);
    };
    const shards = async (directory: typeof a): Promise<readonly number[]> =>
      (await share(directory)).map(([shard]) => shard);
    await enter(0);
    expect(await shards(a)).toEqual([0, 1, 2, 3, 4]);
    await enter(1);
    expect(await shards(b)).toEqual([]);
    for (const shard of [4, 3]) await a.release({ shard, epoch: 1 });
    // A claim of another epoch is not this one.
    await a.release({ shard: 2, epoch: 7 });
    expect(await share(b)).toEqual([
      [3, 2],
      [4, 2],
    ]);
    await a.release({ shard: 3, epoch: 2 });
    expect(await shards(b)).toEqual([3, 4]);
    await enter(2);
    await a.release({ shard: 2, epoch: 1 });
    expect(await Promise.all([shards(a), shards(b), shards(c)])).toEqual([[0, 1], [3, 4], [2]]);
    // The third one lacks a shard: the first, which has the fewest of a share, leaves the free ones to it.
    await c.release({ shard: 2, epoch: 2 });
    await a.release({ shard: 1, epoch: 1 });
    expect([await shards(a), await shards(b)]).toEqual([[0], [3, 4]]);
    expect(await shards(c)).toEqual([1, 2]);
    // A standby gets none while another node has one.
    expect((await b.claim({ mayEndOthers: true, want: 'all' })).claims).toHaveLength(2);
    // One that retires has no share: what it gives up goes to the others.
    await c.retire();
    await c.release({ shard: 2, epoch: 3 });
    expect(await shards(a)).toEqual([0, 2]);
    expect((await a.look()).others.map(({ node, address, shards: own }) => [node, address, own])).toEqual([
      ['b', { host: 'b', port: 1 }, [3, 4]],
      ['c', undefined, [1]],
    ]);
    // A stay that was ended has no claims any more, and its shard is free.
    await query(url, `DELETE FROM "${schema}".troupe_node WHERE name = 'c'`);
    expect(await shards(c)).toEqual([]);
    expect(await shards(b)).toEqual([1, 3, 4]);
    await Promise.all(nodes.map(({ directory }) => directory.close()));
  });

  test('tables of version 2 are raised by two nodes at once, and a node of version 2 continues with them', async () => {
    const { url } = await sharedServer();
    const schema = newSchema();
    const first = openDirectory({ url, schema });
    await first.prepare({ shards: 1 }, true);
    await first.close();
    await query(url, `ALTER TABLE "${schema}".troupe_node DROP COLUMN address`);
    await query(url, `UPDATE "${schema}".troupe_version SET number = 2, lowest = 2`);
    // The statements of a node of version 2.
    const enters =
      `INSERT INTO "${schema}".troupe_node (stay, name, joined, expires) ` +
      "VALUES ($1, 'old', clock_timestamp(), clock_timestamp() + interval '1 h')";
    const claims = `UPDATE "${schema}".troupe_shard SET owner = $1, epoch = epoch + 1, token = 'a'`;
    await query(url, enters, ['a']);
    await query(url, claims, ['a']);
    const nodes = [openDirectory({ url, schema }), openDirectory({ url, schema })] as const;
    await Promise.all(nodes.map((node) => node.prepare({ shards: 1 }, true)));
    const version = await query(url, `SELECT number, lowest FROM "${schema}".troupe_version`);
    expect(version).toEqual([{ number: 3, lowest: 2 }]);
    const [member] = nodes;
    await member.join('member', LEASE_MS, { host: 'member', port: 1 });
    const old = { node: 'old', leaseLeftMs: expect.any(Number), shards: [0] };
    expect(await member.claim(ALL)).toEqual({ claims: [], others: [{ ...old, stay: 'a' }] });
    await query(url, enters, ['b']);
    await query(url, claims, ['b']);
    expect((await member.look()).others).toEqual([
      { ...old, stay: 'a', shards: [] },
      { ...old, stay: 'b' },
    ]);
    await Promise.all(nodes.map((node) => node.close()));
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
