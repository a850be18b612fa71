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
import { fits } from './statement-conditions.ts';

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

  /** Claims the shard as a node does whose predecessor's lease has run out. */
  async claim(): Promise<ShardLog> {
    this.nowMs += 2 * LEASE_MS;
    const directory = new PostgresDirectory(this.port, TABLES);
    await directory.prepare({ shards: 1 }, true);
    await directory.join('node', LEASE_MS);
    const [claim] = (await directory.claimAll(true)).claims ?? [];
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
  const owner = direct.database.ownerOf(0) ?? '';
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
  expect(await directory.claimAll(true)).toEqual({ owner: { node: 'node', leaseLeftMs: LEASE_MS } });
  direct.nowMs += LEASE_MS + 1;
  await directory.join('second', LEASE_MS);
  expect(await directory.claimAll(false)).toEqual({ owner: { node: 'node', leaseLeftMs: 0 } });
  expect(await directory.claimAll(true)).toMatchObject({ claims: [{ shard: 0, epoch: 2 }] });
});

test('C1, C2: a log with a gap, a broken chain or an entry of an earlier claim is reported', () => {
  const direct = new DirectDatabase();
  const { database, violations } = direct;
  const unfenced = 'UPDATE t SET last = $4 WHERE shard = $1 RETURNING 1';
  const append = ({ number, digest, bytes }: LogEntry): unknown =>
    database.run('append', unfenced, [0, 1, Buffer.alloc(0), number, digest, bytes]);
  const one = after(LOG_START, 'one');
  append(one);
  append({ ...after(one, 'two'), number: 3 });
  expect(violations).toEqual(['entry 3 of shard 0 follows entry 1 (C1)']);
  append({ ...one, number: 3 });
  expect(violations.at(-1)).toBe('the digest of entry 3 of shard 0 does not follow from the entry before (C1)');
});

test('a statement that compares less fits more rows, and an unknown condition is an error', () => {
  const row = { shard: 1, token: Buffer.from('a'), last: 4, owner: null };
  const scope = { row, values: [1, Buffer.from('b'), 5], nowMs: 10 };
  const update = 'UPDATE t SET last = $3 WHERE shard = $1 AND last = $3::bigint - 1';
  expect(fits(`${update} RETURNING 1`, 'UPDATE', scope)).toBe(true);
  expect(fits(`${update} AND token = $2 RETURNING 1`, 'UPDATE', scope)).toBe(false);
  expect(fits("DELETE FROM t WHERE owner <> 'x'", 'DELETE', scope)).toBe(false);
  expect(() => fits('DELETE FROM t WHERE shard IN (1)', 'DELETE', scope)).toThrow('does not know');
  expect(() => fits('DELETE FROM t WHERE node = $1', 'DELETE', scope)).toThrow('no column');
});
