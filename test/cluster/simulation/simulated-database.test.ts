/** Goal: the statements of `src/postgres` do over the simulated database what they do over PostgreSQL. */
import { expect, test } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import {
  digestAfter,
  LOG_START,
  type LogEnd,
  type LogEntry,
  type ShardLog,
} from '../../../src/journal/replica/shard-log.ts';
import type { StatementPort } from '../../../src/postgres/connection.ts';
import { PostgresDirectory } from '../../../src/postgres/directory.ts';
import { tablesOf } from '../../../src/postgres/schema.ts';
import { PostgresShardLog } from '../../../src/postgres/shard-log.ts';
import {
  runShardLogConformance,
  type ShardLogCheck,
  shardLogChecks,
} from '../../journal/replica/shard-log-conformance.ts';
import { SimulatedDatabase } from './simulated-database.ts';
import { runSql, type SqlRow, type SqlTables } from './sql.ts';

const LEASE_MS = 1_000;
const TABLES = tablesOf('troupe');

/** A database whose statements are answered at once. */
class DirectDatabase {
  nowMs = 0;
  readonly violations: string[] = [];
  readonly database: SimulatedDatabase;

  constructor() {
    this.database = new SimulatedDatabase(1, () => this.nowMs, {
      violate: (what) => void this.violations.push(what),
      claimed: () => undefined,
      gaveAway: () => undefined,
      tookOver: () => undefined,
      trace: () => undefined,
    });
  }

  get port(): StatementPort {
    return {
      run: async (name, text, values) => this.database.run(name, text, values),
      runAll: async (texts) => this.database.runAll(texts),
      rest: async () => undefined,
      close: async () => undefined,
    };
  }

  /** The stay that has the shard. */
  get stay(): string {
    return String(this.database.run('end', '', [0]).rows[0]?.['owner']);
  }

  /** Claims the shard as a node does whose predecessor's lease has run out. */
  async claim(): Promise<ShardLog> {
    this.nowMs += 2 * LEASE_MS;
    const directory = new PostgresDirectory(this.port, TABLES);
    await directory.prepare({ shards: 1 }, true);
    await directory.join('node', LEASE_MS);
    const [claim] = (await directory.claim({ mayEndOthers: true, want: 'all' })).claims;
    if (claim === undefined) throw new Error('the shard was not claimed');
    return new PostgresShardLog(() => this.port, TABLES, { claim, holdMs: 0, isLost: () => false, clock: systemClock });
  }
}

function after(end: LogEnd, text: string): LogEntry {
  const bytes = Buffer.from(text);
  return { number: end.number + 1, digest: digestAfter(end.digest, bytes), bytes };
}

test('SL1 to SL5: the log over the simulated database passes the suite of a log', async () => {
  const violations: string[][] = [];
  const { passed, skipped } = await runShardLogConformance(async () => {
    const direct = new DirectDatabase();
    violations.push(direct.violations);
    return {
      claim: () => direct.claim(),
      goBack: async (entries) => void direct.database.goBack(entries),
      hasNoSnapshots: true,
      dispose: async () => undefined,
    };
  });
  const isOfSnapshots = ({ needsSnapshots }: ShardLogCheck): boolean => needsSnapshots === true;
  expect(passed).toEqual(shardLogChecks.filter((check) => !isOfSnapshots(check)).map(({ title }) => title));
  expect(skipped).toEqual(shardLogChecks.filter(isOfSnapshots).map(({ title }) => title));
  expect(violations.flat()).toEqual([]);
});

test('PL3: a database that went back to before the claim was made again by its owner has lost nothing', async () => {
  const direct = new DirectDatabase();
  const log = await direct.claim();
  const one = after(LOG_START, 'one');
  await log.append(one);
  await log.reclaim();
  const two = after(one, 'two');
  await log.append(two);
  // The entry, and the token of the claim before it.
  direct.database.goBack(2);
  expect(await log.append(after(two, 'three'))).toEqual({ number: 1, digest: one.digest });
  expect(await log.append(two)).toEqual({ number: 2, digest: two.digest });
  // Another claim is one.
  await direct.claim();
  await expect(log.append(after(two, 'three'))).rejects.toMatchObject({ code: 'shard_moved' });
});

test('SL4, PL3: an append that is late takes effect only until its claim was proved again', async () => {
  const direct = new DirectDatabase();
  const log = await direct.claim();
  const late: (() => unknown)[] = [];
  const { port } = direct;
  const lost: StatementPort = {
    ...port,
    run: async (name, text, values) => {
      if (name !== 'append') return port.run(name, text, values);
      late.push(() => direct.database.run(name, text, values));
      throw new Error('read ECONNRESET');
    },
  };
  const owner = direct.stay;
  const [row] = direct.database.run('end', '', [0]).rows;
  const token = String((row?.['token'] as Buffer | undefined)?.toString('hex'));
  const claim = { shard: 0, epoch: log.epoch, token, owner };
  const cut = new PostgresShardLog(() => lost, TABLES, { claim, holdMs: 0, isLost: () => false, clock: systemClock });
  await expect(cut.append(after(LOG_START, 'late'))).rejects.toMatchObject({ code: 'store_full' });
  expect(await cut.reclaim()).toEqual(LOG_START);
  for (const arrive of late) arrive();
  expect(direct.database.logs[0]).toEqual([]);
});

test('PD2, PD4: a node has all shards or none, and a lease that holds is not ended', async () => {
  const direct = new DirectDatabase();
  await direct.claim();
  const directory = new PostgresDirectory(direct.port, TABLES);
  await directory.prepare({ shards: 1 }, true);
  await directory.join('second', LEASE_MS);
  const stay = direct.stay;
  const node = { stay, node: 'node', leaseLeftMs: LEASE_MS, shards: [0] };
  expect(await directory.claim({ mayEndOthers: true, want: 'all' })).toEqual({ claims: [], others: [node] });
  direct.nowMs += LEASE_MS + 1;
  await directory.join('second', LEASE_MS);
  expect(await directory.claim({ mayEndOthers: false, want: 'all' })).toMatchObject({
    claims: [],
    others: [{ ...node, leaseLeftMs: 0 }],
  });
  expect(await directory.claim({ mayEndOthers: true, want: 'all' })).toMatchObject({
    claims: [{ shard: 0, epoch: 2 }],
  });
});

test('the address with which a node joins is that of the owner', async () => {
  const direct = new DirectDatabase();
  const [owner, member] = [new PostgresDirectory(direct.port, TABLES), new PostgresDirectory(direct.port, TABLES)];
  const address = { host: '::1', port: 4_100 };
  await owner.prepare({ shards: 1 }, true);
  await owner.join('owner', LEASE_MS, address);
  await owner.claim({ mayEndOthers: false, want: 'all' });
  await member.prepare({ shards: 1 }, true);
  await member.join('member', LEASE_MS);
  const found = { stay: direct.stay, node: 'owner', leaseLeftMs: LEASE_MS, address, shards: [0] };
  expect(await member.look()).toEqual({ claims: [], others: [found] });
  expect(await member.claim({ mayEndOthers: false, want: 'all' })).toEqual({ claims: [], others: [found] });
});

test('C1, C2: a log with a gap, a broken chain or an entry of an earlier claim is reported', () => {
  const direct = new DirectDatabase();
  const { database, violations } = direct;
  const unfenced = 'UPDATE shard SET last = $4 WHERE shard = $1 RETURNING 1';
  const append = ({ number, digest, bytes }: LogEntry): unknown =>
    database.run('append', unfenced, [0, 1, Buffer.alloc(0), number, digest, bytes]);
  const one = after(LOG_START, 'one');
  append(one);
  append({ ...after(one, 'two'), number: 3 });
  expect(violations).toEqual(['entry 3 of shard 0 follows entry 1 (C1)']);
  append({ ...one, number: 3 });
  expect(violations.at(-1)).toBe('the digest of entry 3 of shard 0 does not follow from the entry before (C1)');
});

/** The rows of one table. */
function tableOf(table: string, rows: readonly SqlRow[]): { readonly tables: SqlTables; rows: readonly SqlRow[] } {
  const held = {
    rows,
    tables: {
      nowMs: 10,
      rows: (name: string) => (name === table ? held.rows : []),
      put: (_table: string, row: SqlRow, changed: SqlRow | undefined) => {
        held.rows = held.rows.flatMap((each) => (each !== row ? [each] : changed === undefined ? [] : [changed]));
      },
    },
  };
  return held;
}

test('SQ1: a statement that compares less changes more rows, and NULL is equal to nothing', () => {
  const row = { shard: 1, token: Buffer.from('a'), last: 4, owner: null };
  const values = [1, Buffer.from('b'), 5];
  const changed = (text: string): number => runSql(text, values, tableOf('shard', [row]).tables).rowCount;
  const update = 'UPDATE shard SET last = $3 WHERE shard = $1 AND last = $3::bigint - 1';
  expect(changed(`${update} RETURNING 1`)).toBe(1);
  expect(changed(`${update} AND token = $2 RETURNING 1`)).toBe(0);
  expect(changed("DELETE FROM shard WHERE owner <> 'x'")).toBe(0);
  expect(changed("DELETE FROM shard s WHERE s.owner IS DISTINCT FROM 'x'")).toBe(1);
  expect(changed('UPDATE shard SET last = 0 WHERE NOT EXISTS (SELECT 1 FROM node n WHERE n.stay = owner)')).toBe(1);
});

test('SQ2: the rows that a statement changes are chosen before it changes one', () => {
  const held = tableOf(
    'shard',
    [0, 1, 2, 3].map((shard) => ({ shard, owner: shard === 3 ? 'a' : null })),
  );
  const own = "(SELECT count(*) FROM shard o WHERE o.owner = 'a')";
  const free = `SELECT f.shard FROM shard f WHERE f.owner IS NULL ORDER BY f.shard LIMIT greatest(0, (5 / 2) - ${own})`;
  const { rowCount, rows } = runSql(
    `UPDATE shard s SET owner = 'a' FROM (VALUES (0, 'x'), (1, 'y'), (2, 'z')) c (shard, name) ` +
      `WHERE c.shard = s.shard AND s.shard IN (${free}) RETURNING s.shard`,
    [],
    held.tables,
  );
  expect([rowCount, rows]).toEqual([1, [{ shard: 0 }]]);
  expect(held.rows.map(({ owner }) => owner)).toEqual(['a', null, null, 'a']);
});

test('SQ3: what the simulated database does not know is an error', () => {
  const { tables } = tableOf('shard', [{ shard: 1 }]);
  expect(() => runSql('DELETE FROM shard WHERE shard LIKE 1', [], tables)).toThrow('does not know');
  expect(() => runSql('DELETE FROM shard WHERE random() < 1', [], tables)).toThrow('does not know');
  expect(() => runSql('DELETE FROM shard WHERE node = $1', [1], tables)).toThrow('no column');
  expect(() => runSql('TRUNCATE shard', [], tables)).toThrow('does not know');
});
