/**
 * Goal: two runtimes over one database are a fail-over pair. What was acknowledged is at the next owner, whatever became
 * of the former one's directory; the former one writes nothing.
 */
import { readdir, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { postgres } from '../../src/postgres/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { failure, gatedModel, MATRIX, runtimeKit } from '../support/runtime-kit.ts';
import { NO_SERVER, newSchema, query, sharedServer } from './support/server.ts';

const kit = runtimeKit();
const answering = scripted(() => 'A');

/** The options of a node, with a lease that ends soon. */
async function newCluster(): Promise<{ readonly url: string; readonly schema: string; readonly leaseMs: number }> {
  const { url } = await sharedServer();
  return { url, schema: newSchema(), leaseMs: 1_000 };
}

/** Ends all leases, as if their nodes had not renewed them. */
async function endLeases({ url, schema }: { readonly url: string; readonly schema: string }): Promise<void> {
  await query(url, `UPDATE "${schema}".troupe_node SET expires = clock_timestamp() - interval '1 second'`);
}

describe.skipIf(NO_SERVER !== undefined)('open with a cluster', () => {
  test.each(MATRIX)('everything is there in another directory after the first one is gone: %o', async (threads) => {
    const cluster = await newCluster();
    const directory = await kit.directory();
    const a = await kit.open({ directory, threads, provider: answering, cluster: postgres({ ...cluster, node: 'a' }) });
    expect(a.cluster?.status()).toMatchObject({ state: 'owner', node: 'a', shards: [{ shard: 0, epoch: 1 }] });
    await a.session('order').ask('one');
    await a.close();
    expect(a.cluster?.status()).toMatchObject({ state: 'lost', leaseLeftMs: 0 });
    await rm(directory, { recursive: true, force: true });
    const b = await kit.open({
      directory: await kit.directory(),
      threads,
      provider: answering,
      cluster: postgres({ ...cluster, node: 'b' }),
    });
    expect(b.cluster?.status()).toMatchObject({ state: 'owner', node: 'b', shards: [{ shard: 0, epoch: 2 }] });
    await b.session('order').ask('two');
    const texts = (await b.session('order').messages()).map(({ content }) => content);
    expect(texts).toEqual(['one', 'A', 'two', 'A']);
  });

  test('an encrypted cluster with several shards; keys and shards that do not fit are refused', async () => {
    const cluster = await newCluster();
    const encryption = { key: 'ab'.repeat(32) };
    const a = await kit.open({
      directory: await kit.directory(),
      threads: { sessions: 2, models: 0 },
      provider: answering,
      cluster: postgres(cluster),
      encryption,
    });
    await Promise.all(['one', 'two', 'three', 'four'].map((id) => a.session(id).ask('Q')));
    await a.session('three').delete();
    await a.close();
    const directory = await kit.directory();
    const reopened = (options: object): Promise<unknown> =>
      failure(kit.open({ directory, provider: answering, cluster: postgres(cluster), ...options }));
    expect(await reopened({})).toMatchObject({ code: 'store_key' });
    expect(await reopened({ encryption: { key: 'cd'.repeat(32) } })).toMatchObject({ code: 'store_key' });
    expect(await reopened({ encryption, threads: { sessions: 3 } })).toMatchObject({
      code: 'config',
      data: { value: 3, expected: 2 },
    });
    const b = await kit.open({ directory, provider: answering, cluster: postgres(cluster), encryption });
    expect(b.info().shards).toBe(2);
    expect((await b.sessions.list()).map(({ id }) => id).sort()).toEqual(['four', 'one', 'two']);
    expect((await b.session('two').messages()).map(({ content }) => content)).toEqual(['Q', 'A']);
    expect((await b.audit()).items.filter(({ action }) => action === 'session.deleted')).toHaveLength(1);
  });

  test('a directory belongs to one cluster, or to none', async () => {
    const [cluster, other] = [await newCluster(), await newCluster()];
    const [plain, node] = [await kit.directory(), await kit.directory()];
    await (await kit.open({ directory: plain })).close();
    await (await kit.open({ directory: node, cluster: postgres(cluster) })).close();
    const cases = [
      { directory: plain, cluster: postgres(cluster) },
      { directory: node },
      { directory: node, cluster: postgres(other) },
    ];
    for (const each of cases) {
      expect(await failure(kit.open(each))).toMatchObject({ code: 'config', data: { key: 'cluster' } });
    }
    await (await kit.open({ directory: node, cluster: postgres(cluster) })).close();
  });

  test('a copy that is gone, cut short or has other bytes costs only time', async () => {
    const cluster = await newCluster();
    const directory = await kit.directory();
    const options = { directory, provider: answering, cluster: postgres(cluster) };
    const file = join(directory, 'shard-0', 'data.mdb');
    const faults = [
      async () => rm(file),
      async () => truncate(file, 10_000),
      async () => writeFile(file, 'no store'),
      async () => rm(join(directory, 'shard-0'), { recursive: true }),
    ];
    const sent: string[] = [];
    for (const [index, fault] of faults.entries()) {
      const runtime = await kit.open(options);
      sent.push(`Q${index}`, 'A');
      await runtime.session('one').ask(`Q${index}`);
      await runtime.close();
      await fault();
    }
    const runtime = await kit.open(options);
    expect((await runtime.session('one').messages()).map(({ content }) => content)).toEqual(sent);
  });

  test('a copy that is removed while it is used is built again, and nothing is lost', async () => {
    const cluster = await newCluster();
    const directory = await kit.directory();
    const runtime = await kit.open({ directory, provider: answering, cluster: postgres(cluster) });
    await runtime.session('one').ask('Q1');
    await rm(join(directory, 'shard-0', 'data.mdb'));
    await expect.poll(async () => (await readdir(join(directory, 'shard-0'))).includes('data.mdb')).toBe(true);
    await expect.poll(() => runtime.metrics().degraded).toBe(undefined);
    await runtime.session('one').ask('Q2');
    const texts = (await runtime.session('one').messages()).map(({ content }) => content);
    expect(texts).toEqual(['Q1', 'A', 'Q2', 'A']);
  });

  test('a copy with commits that the database lost is put aside, and nothing of it is shown', async () => {
    const cluster = await newCluster();
    const directory = await kit.directory();
    const options = { directory, provider: answering, cluster: postgres(cluster) };
    const a = await kit.open(options);
    await a.session('kept').ask('Q');
    await a.close();
    const [row] = await query(cluster.url, `SELECT last FROM "${cluster.schema}".troupe_shard`);
    const b = await kit.open(options);
    await b.session('lost').ask('Q');
    await b.close();
    await query(cluster.url, `DELETE FROM "${cluster.schema}".troupe_log WHERE no > $1`, [row?.['last']]);
    await query(cluster.url, `UPDATE "${cluster.schema}".troupe_shard SET last = $1`, [row?.['last']]);
    const c = await kit.open(options);
    expect((await c.sessions.list()).map(({ id }) => id)).toEqual(['kept']);
    expect(await readdir(directory)).toContain('diverged-shard-0');
  });

  test('a compaction of the copy keeps its place in the log', async () => {
    const cluster = await newCluster();
    const directory = await kit.directory();
    const options = { directory, provider: answering, cluster: postgres(cluster), store: { eraseWithinMs: 100 } };
    const a = await kit.open(options);
    await a.session('gone').ask('Q');
    await a.session('kept').ask('Q');
    await a.session('gone').delete();
    await expect.poll(() => a.metrics().compactions).toBeGreaterThan(0);
    await a.session('kept').ask('Q2');
    await a.close();
    const b = await kit.open(options);
    await b.session('kept').ask('Q3');
    expect((await b.session('kept').messages()).map(({ content }) => content)).toEqual([
      'Q',
      'A',
      'Q2',
      'A',
      'Q3',
      'A',
    ]);
    expect(await readdir(directory)).not.toContain('diverged-shard-0');
  });

  test('a second node is refused after `waitMs`, and names the owner; a standby continues after a close', async () => {
    const cluster = await newCluster();
    const a = await kit.open({
      directory: await kit.directory(),
      provider: answering,
      cluster: postgres({ ...cluster, node: 'a' }),
    });
    const refused = kit.open({
      directory: await kit.directory(),
      cluster: postgres({ ...cluster, node: 'b', waitMs: 0 }),
    });
    expect(await failure(refused)).toMatchObject({ code: 'store_locked', data: { owner: 'a', node: 'b' } });
    const standby = kit.open({
      directory: await kit.directory(),
      provider: answering,
      cluster: postgres({ ...cluster, node: 'c', waitMs: 'forever' }),
    });
    await a.session('one').ask('Q');
    await a.close();
    const c = await standby;
    expect((await c.session('one').messages()).map(({ content }) => content)).toEqual(['Q', 'A']);
  });

  test.each(MATRIX)('a node whose lease was ended writes nothing more, and ends: %o', async (threads) => {
    const cluster = await newCluster();
    const model = gatedModel();
    const directory = await kit.directory();
    const a = await kit.open({
      directory,
      threads,
      provider: model.provider,
      cluster: postgres({ ...cluster, node: 'a' }),
    });
    const session = a.session('one');
    const asked = await session.send('Q');
    const call = await model.next();
    // The register of nodes is set as the node that takes over sets it, before the node learns of it.
    await query(cluster.url, `DELETE FROM "${cluster.schema}".troupe_node`);
    await query(cluster.url, `UPDATE "${cluster.schema}".troupe_shard SET epoch = epoch + 1, token = 'x', owner = 'x'`);
    call.answer('late');
    const errors = await Promise.all([failure(asked.answer()), failure(a.session('two').send('Q'))]);
    for (const error of errors) expect(error).toMatchObject({ code: 'shard_moved', retryable: true });
    expect(await a.closed).toMatchObject({ reason: 'moved' });
    expect(await a.isReady()).toBe(false);
    expect(a.cluster?.status().state).toBe('lost');
    expect(await failure(session.messages())).toMatchObject({ code: 'shard_moved' });
    const b = await kit.open({ directory, provider: answering, cluster: postgres({ ...cluster, node: 'b' }) });
    await b.drain();
    expect((await b.session('one').messages()).map(({ content }) => content)).toEqual(['Q', 'A']);
    expect((await b.sessions.list()).map(({ id }) => id)).toEqual(['one']);
  });

  test('a standby takes over when the lease has run out', async () => {
    const cluster = await newCluster();
    const a = await kit.open({
      directory: await kit.directory(),
      provider: answering,
      cluster: postgres({ ...cluster, node: 'a' }),
    });
    await a.session('one').ask('Q');
    const standby = kit.open({
      directory: await kit.directory(),
      provider: answering,
      cluster: postgres({ ...cluster, node: 'b', waitMs: 'forever' }),
    });
    let isOver = false;
    const over = standby.finally(() => {
      isOver = true;
    });
    // The owner renews its lease in between; the standby needs one moment at which it has run out.
    while (!isOver) await endLeases(cluster);
    const b = await over;
    expect(await a.closed).toMatchObject({ reason: 'moved' });
    expect((await b.session('one').messages()).map(({ content }) => content)).toEqual(['Q', 'A']);
  });

  test.each([
    ['takeover', { takeover: true }],
    ['webhooks', { webhooks: [{ url: 'http://127.0.0.1:1/' }] }],
    ['encryption.previousKeys', { encryption: { key: 'ab'.repeat(32), previousKeys: ['cd'.repeat(32)] } }],
  ])('the option %s is refused with a cluster', async (key, options) => {
    const cluster = postgres({ url: 'postgres://localhost/none' });
    const opened = kit.open({ directory: await kit.directory(), cluster, ...options });
    expect(await failure(opened)).toMatchObject({ code: 'config', data: { key } });
  });

  test('a store in memory, a backup of a node, and a database that cannot be reached are refused', async () => {
    const cluster = await newCluster();
    expect(await failure(kit.open({ cluster: postgres(cluster) }))).toMatchObject({ code: 'config' });
    const a = await kit.open({ directory: await kit.directory(), cluster: postgres(cluster) });
    expect(await failure(a.backup(await kit.directory()))).toMatchObject({ code: 'config' });
    const unreachable = postgres({ url: 'postgres://user:secret@127.0.0.1:1/none' });
    const error = await failure(kit.open({ directory: await kit.directory(), cluster: unreachable }));
    expect(error).toMatchObject({ code: 'store_full', data: { reason: 'database' } });
    expect(JSON.stringify(error)).not.toContain('secret');
  });
});
