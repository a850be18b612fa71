/**
 * Goal: the tables of a cluster keep what its sessions are, not all that they ever were: a node starts from a snapshot,
 * and what was deleted leaves all tables. Tables of an earlier version are raised.
 */
import pg from 'pg';
import { afterEach, describe, expect, test } from 'vitest';
import type { Runtime } from '../../src/index.ts';
import { digestAfter, LOG_START } from '../../src/journal/replica/shard-log.ts';
import { postgres } from '../../src/postgres/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { startChild } from '../support/children.ts';
import { failure, MATRIX, runtimeKit } from '../support/runtime-kit.ts';
import { makeCluster } from './support/cluster.ts';
import { startProxy } from './support/proxy.ts';
import { NO_SERVER, newSchema, query, sharedServer } from './support/server.ts';
import { type Place, tablesHolding } from './support/table-contents.ts';

const kit = runtimeKit();
const answering = scripted(() => 'A');
const NODE = new URL('./fixtures/node.ts', import.meta.url);
const CANARY = 'canary-7f3a';
const closing: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function newCluster(): Promise<Place & { readonly leaseMs: number }> {
  const { url } = await sharedServer();
  return { url, schema: newSchema(), leaseMs: 1_000 };
}

function tablesWith(place: Place, text: string): Promise<readonly string[]> {
  return tablesHolding(place, text, kit.directory);
}

async function snapshotNumber({ url, schema }: Place): Promise<number> {
  const [row] = await query(url, `SELECT no FROM "${schema}".troupe_snapshot`);
  return Number(row?.['no'] ?? 0);
}

async function firstEntry({ url, schema }: Place): Promise<number> {
  const [row] = await query(
    url,
    `SELECT coalesce((SELECT min(no) FROM "${schema}".troupe_log), last + 1) AS first FROM "${schema}".troupe_shard`,
  );
  return Number(row?.['first']);
}

async function textsOf(runtime: Runtime, id: string): Promise<readonly unknown[]> {
  return (await runtime.session(id).messages()).map(({ content }) => content);
}

describe.skipIf(NO_SERVER !== undefined)('snapshots of a cluster', () => {
  test.each(MATRIX)(
    'a deleted session leaves all tables, and the next node starts from the snapshot: %o',
    async (threads) => {
      const place = await newCluster();
      const options = { threads, provider: answering, store: { eraseWithinMs: 200 } };
      const a = await kit.open({ ...options, directory: await kit.directory(), cluster: postgres(place) });
      await a.session('kept').ask('one');
      await a.session('first').ask('Q');
      await a.session('gone').ask(CANARY);
      await a.session('first').delete();
      await expect.poll(() => snapshotNumber(place), { timeout: 30_000 }).toBeGreaterThan(0);
      await expect.poll(() => a.metrics().snapshots, { timeout: 30_000 }).toBeGreaterThan(0);
      await a.session('gone').ask(`again ${CANARY}`);
      // The check can fail.
      expect(await tablesWith(place, CANARY)).toEqual(['troupe_log', 'troupe_piece']);
      await a.session('gone').delete();
      await expect.poll(() => tablesWith(place, CANARY), { timeout: 60_000 }).toEqual([]);
      await a.session('kept').ask('two');
      await a.close();
      expect(await firstEntry(place)).toBeGreaterThan(1);
      const b = await kit.open({ ...options, directory: await kit.directory(), cluster: postgres(place) });
      expect(await textsOf(b, 'kept')).toEqual(['one', 'A', 'two', 'A']);
      expect((await b.sessions.list()).map(({ id }) => id)).toEqual(['kept']);
    },
  );

  test('in an encrypted cluster the wrapped key of a deleted session leaves all tables', async () => {
    const place = await newCluster();
    const options = { provider: answering, store: { eraseWithinMs: 200 }, encryption: { key: 'ab'.repeat(32) } };
    const a = await kit.open({ ...options, directory: await kit.directory(), cluster: postgres(place) });
    await a.session('kept').ask('one');
    await a.session('gone').ask('Q');
    await a.session('gone').delete();
    await expect.poll(() => a.metrics().snapshots, { timeout: 30_000 }).toBeGreaterThan(0);
    // Everything that the log has of the time before is in the snapshot.
    expect(await firstEntry(place)).toBeGreaterThan(await snapshotNumber(place));
    await a.close();
    const b = await kit.open({ ...options, directory: await kit.directory(), cluster: postgres(place) });
    expect(await textsOf(b, 'kept')).toEqual(['one', 'A']);
  });

  test('kill -9 of the owner while it writes a snapshot: the next one has every acknowledged message', async () => {
    const { url, schema } = await newCluster();
    const { socket } = await sharedServer();
    const proxy = await startProxy(socket);
    closing.push(() => proxy.close());
    const owner = startChild(NODE, [await kit.directory(), proxy.url, schema, 'a', '4', '100']);
    closing.push(() => owner.kill());
    await owner.said('ack s3 a-5\n');
    const pieces = async (): Promise<number> => {
      const [row] = await query(url, `SELECT count(*) AS pieces FROM "${schema}".troupe_piece`);
      return Number(row?.['pieces']);
    };
    // It deletes sessions all the time, so that one snapshot follows another.
    await expect.poll(pieces, { timeout: 30_000 }).toBeGreaterThan(0);
    await owner.kill();
    const b = await kit.open({
      directory: await kit.directory(),
      provider: answering,
      cluster: postgres({ url, schema, leaseMs: 1_000, waitMs: 'forever' }),
      store: { eraseWithinMs: 200 },
    });
    await b.drain();
    for (const id of ['s0', 's1', 's2', 's3']) {
      const keys = (await b.session(id).messages()).flatMap(({ type, key }) => (type === 'user_message' ? [key] : []));
      const acknowledged = [...owner.output().matchAll(/^ack (\S+) (\S+)$/gmu)].flatMap(([, session, key]) =>
        session === id ? [key] : [],
      );
      expect(keys.filter((key) => acknowledged.includes(key))).toEqual(acknowledged);
    }
    await expect.poll(() => b.metrics().snapshots, { timeout: 30_000 }).toBeGreaterThan(0);
  });

  test('PS2: a piece that arrives after a later claim is removed, and no snapshot is made of it', async () => {
    const cluster = await makeCluster();
    closing.push(() => cluster.dispose());
    const log = await cluster.claim();
    const bytes = Buffer.from('entry');
    const entry = { number: 1, digest: digestAfter(LOG_START.digest, bytes), bytes };
    await log.append(entry);
    const snapshot = { ...entry, pieces: 1, hash: Buffer.alloc(32) };
    await log.snapshots?.putPiece('aa', 0, Buffer.from('whole'));
    await log.snapshots?.put({ ...snapshot, id: 'aa' });
    // The piece of the former owner has the lock that it takes, and is not committed yet.
    const late = new pg.Client({ connectionString: cluster.url });
    await late.connect();
    closing.push(() => late.end());
    await late.query('BEGIN');
    await late.query(`SELECT 1 FROM "${cluster.schema}".troupe_shard WHERE shard = 0 FOR KEY SHARE`);
    await late.query(`INSERT INTO "${cluster.schema}".troupe_piece VALUES (0, 'bb', 0, 'late')`);
    const second = await cluster.claim();
    const trimming = second.snapshots?.trim(1);
    await expect
      .poll(async () => {
        const [row] = await query(cluster.url, `SELECT count(*) AS waiting FROM pg_locks WHERE NOT granted`);
        return Number(row?.['waiting']);
      })
      .toBe(1);
    await late.query('COMMIT');
    expect(await trimming).toBe(true);
    while ((await second.snapshots?.trim(1)) === true);
    const pieces = await query(cluster.url, `SELECT id FROM "${cluster.schema}".troupe_piece`);
    expect(pieces).toEqual([{ id: 'aa' }]);
    expect(await failure(log.snapshots?.put({ ...snapshot, id: 'bb' }) ?? Promise.resolve())).toMatchObject({
      code: 'shard_moved',
    });
  });

  test('tables of version 1 are raised with everything that they have, and refuse nodes of version 1 then', async () => {
    const place = await newCluster();
    const a = await kit.open({ directory: await kit.directory(), provider: answering, cluster: postgres(place) });
    await a.session('kept').ask('one');
    await a.close();
    // Version 1 had the other tables as they are, but for the address of a node.
    await query(place.url, `ALTER TABLE "${place.schema}".troupe_node DROP COLUMN address`);
    await query(place.url, `DROP TABLE "${place.schema}".troupe_snapshot, "${place.schema}".troupe_piece`);
    await query(place.url, `UPDATE "${place.schema}".troupe_version SET number = 1, lowest = 1`);
    const b = await kit.open({ directory: await kit.directory(), provider: answering, cluster: postgres(place) });
    expect(await textsOf(b, 'kept')).toEqual(['one', 'A']);
    await b.close();
    expect(await query(place.url, `SELECT number, lowest FROM "${place.schema}".troupe_version`)).toEqual([
      { number: 3, lowest: 2 },
    ]);
    await query(place.url, `UPDATE "${place.schema}".troupe_version SET number = 4, lowest = 4`);
    const refused = kit.open({ directory: await kit.directory(), cluster: postgres(place) });
    expect(await failure(refused)).toMatchObject({ code: 'store_version', data: { found: 4, supported: 3 } });
  });
});
