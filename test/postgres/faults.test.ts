/**
 * Goal: whatever happens to the owner, to the database or to the line between them, what was acknowledged is there once
 * and in order, and the former owner writes nothing.
 */
import { afterEach, describe, expect, test } from 'vitest';
import type { Runtime } from '../../src/index.ts';
import { postgres } from '../../src/postgres/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { startChild, type TestChild } from '../support/children.ts';
import { eventually, failure, runtimeKit } from '../support/runtime-kit.ts';
import { startProxy, type TestProxy } from './support/proxy.ts';
import { NO_SERVER, newSchema, query, sharedServer, startServer, type TestServer } from './support/server.ts';

const kit = runtimeKit();
const answering = scripted({ rules: [], otherwise: 'An answer.' });
const NODE = new URL('./fixtures/node.ts', import.meta.url);
const closing: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  // In reverse: a runtime closes before the database that it writes to.
  for (const close of closing.splice(0).reverse()) await close();
});

async function startNode(url: string, schema: string, name: string): Promise<TestChild> {
  const child = startChild(NODE, [await kit.directory(), url, schema, name, '10']);
  closing.push(() => child.kill());
  return child;
}

async function openNode(url: string, schema: string, options: object = {}): Promise<Runtime> {
  const runtime = await kit.open({
    directory: await kit.directory(),
    provider: answering,
    cluster: postgres({ url, schema, leaseMs: 1_000, waitMs: 'forever', ...options }),
  });
  closing.push(() => runtime.close({ deadlineMs: 0 }));
  return runtime;
}

/** Every acknowledged key is there once, in order, and each message has at most one answer after it. */
async function checkAcknowledged(runtime: Runtime, outputs: readonly string[]): Promise<number> {
  await runtime.drain();
  const acknowledged = outputs.flatMap((output) => [...output.matchAll(/^ack (\S+) (\S+)$/gmu)]);
  for (const id of new Set(acknowledged.map(([, session = '']) => session))) {
    const messages = await runtime.session(id).messages();
    const keys = messages.flatMap(({ type, key }) => (type === 'user_message' ? [key] : []));
    expect(new Set(keys).size, id).toBe(keys.length);
    const own = acknowledged.flatMap(([, session, key]) => (session === id ? [key] : []));
    expect(
      keys.filter((key) => own.includes(key)),
      id,
    ).toEqual(own);
    expect(
      messages.map(({ type }) => type),
      id,
    ).toEqual(keys.flatMap(() => ['user_message', 'agent_message']));
  }
  return acknowledged.length;
}

/** The log has no gap, and no entry of an earlier claim after one of a later claim. */
async function checkLog(url: string, schema: string): Promise<void> {
  const [row] = await query(
    url,
    `SELECT count(*) FILTER (WHERE no <> place) AS gaps, count(*) FILTER (WHERE epoch < before) AS late FROM
     (SELECT no, epoch, row_number() OVER w AS place, lag(epoch) OVER w AS before
      FROM "${schema}".troupe_log WINDOW w AS (PARTITION BY shard ORDER BY no)) l`,
  );
  expect(row).toEqual({ gaps: '0', late: '0' });
}

describe.skipIf(NO_SERVER !== undefined)('faults of a cluster', () => {
  test('kill -9 of the owner under load: the standby has every acknowledged message once', async () => {
    const { url } = await sharedServer();
    const schema = newSchema();
    const owner = await startNode(url, schema, 'a');
    await owner.said('ack s9 a-3\n');
    const standby = openNode(url, schema);
    await owner.said('ack s9 a-8\n');
    await owner.kill();
    const runtime = await standby;
    expect(await checkAcknowledged(runtime, [owner.output()])).toBeGreaterThan(50);
    await checkLog(url, schema);
  });

  test('an owner that is stopped and continued after the take-over is refused, and ends', async () => {
    const { url } = await sharedServer();
    const schema = newSchema();
    const owner = await startNode(url, schema, 'a');
    await owner.said('ack s9 a-3\n');
    owner.process.kill('SIGSTOP');
    const taker = await startNode(url, schema, 'b');
    await taker.said('ack s9 b-3\n');
    owner.process.kill('SIGCONT');
    await owner.said('ended ');
    expect(owner.output()).toContain('"reason":"moved"');
    expect(owner.output()).toMatch(/^refused \S+ \S+ shard_moved$/mu);
    await taker.kill();
    const runtime = await openNode(url, schema);
    await checkAcknowledged(runtime, [owner.output(), taker.output()]);
    await checkLog(url, schema);
  });

  test('lost answers of the database: what landed is not written again', async () => {
    const { url, socket } = await sharedServer();
    const schema = newSchema();
    const proxy: TestProxy = await startProxy(socket);
    closing.push(() => proxy.close());
    const runtime = await openNode(proxy.url, schema, { leaseMs: 60_000, holdMs: 60_000 });
    const entries = async (): Promise<number> => {
      const [row] = await query(url, `SELECT last FROM "${schema}".troupe_shard`);
      return Number(row?.['last']);
    };
    let landed = 0;
    for (let round = 0; round < 20; round += 1) {
      const before = await entries();
      proxy.dropAnswers();
      const asked = runtime.session('one').ask(`Q${round}`, { key: `k${round}` });
      await eventually(async () => (await entries()) > before);
      proxy.cut();
      expect(await asked).toBe('An answer.');
      landed += 1;
    }
    expect(landed).toBe(20);
    expect(proxy.connections).toBeGreaterThanOrEqual(20);
    const texts = (await runtime.session('one').messages()).map(({ content }) => content);
    expect(texts).toEqual(Array.from({ length: 20 }, (_, round) => [`Q${round}`, 'An answer.']).flat());
    await runtime.close();
    await checkLog(url, schema);
  });

  test('kill -9 of the database and a restart: nothing is lost, and no shard moves', async () => {
    const server: TestServer = await startServer();
    closing.push(() => server.stop());
    const schema = newSchema();
    const runtime = await openNode(server.url, schema);
    const standby = openNode(server.url, schema, { waitMs: 60_000 });
    standby.catch(() => undefined);
    await runtime.session('one').ask('Q1');
    await server.kill();
    const asked = runtime.session('one').ask('Q2');
    await server.restart();
    expect(await asked).toBe('An answer.');
    expect(runtime.cluster?.status()).toMatchObject({ state: 'owner', shards: [{ epoch: 1 }] });
    await runtime.close();
    const next = await standby;
    const texts = (await next.session('one').messages()).map(({ content }) => content);
    expect(texts).toEqual(['Q1', 'An answer.', 'Q2', 'An answer.']);
    await next.close();
    await checkLog(server.url, schema);
  });

  test('an outage beyond the hold: sends are refused as retryable, reads go on, and it ends by itself', async () => {
    const { socket } = await sharedServer();
    const proxy = await startProxy(socket);
    closing.push(() => proxy.close());
    const runtime = await openNode(proxy.url, newSchema(), { leaseMs: 60_000, holdMs: 100 });
    await runtime.session('one').ask('Q1');
    proxy.refuse(true);
    proxy.cut();
    const refused = await failure(runtime.session('one').send('lost', { key: 'k' }));
    expect(refused).toMatchObject({ code: 'store_full', retryable: true });
    expect(await runtime.isReady()).toBe(false);
    expect(await runtime.session('one').messages()).toHaveLength(2);
    proxy.refuse(false);
    await eventually(async () => runtime.metrics().degraded === undefined);
    expect(await runtime.session('one').ask('Q2')).toBe('An answer.');
  });

  test('without a lease no work begins; the outage of the lease ends by itself', async () => {
    const { socket } = await sharedServer();
    const proxy = await startProxy(socket);
    closing.push(() => proxy.close());
    const runtime = await openNode(proxy.url, newSchema(), { leaseMs: 500, holdMs: 60_000 });
    await runtime.session('one').ask('Q1');
    proxy.refuse(true);
    proxy.cut();
    await eventually(async () => runtime.cluster?.status().leaseLeftMs === 0);
    const asked = runtime.session('one').ask('Q2');
    proxy.refuse(false);
    expect(await asked).toBe('An answer.');
    expect(runtime.cluster?.status()).toMatchObject({ state: 'owner', shards: [{ epoch: 1 }] });
  });

  test('a database set back some commits has them again', async () => {
    const { url } = await sharedServer();
    const schema = newSchema();
    const runtime = await openNode(url, schema, { leaseMs: 60_000 });
    for (const text of ['Q1', 'Q2', 'Q3']) await runtime.session('one').ask(text);
    await query(url, `UPDATE "${schema}".troupe_shard SET last = last - 3`);
    await query(url, `DELETE FROM "${schema}".troupe_log WHERE no > (SELECT last FROM "${schema}".troupe_shard)`);
    await runtime.session('one').ask('Q4');
    await runtime.close();
    await checkLog(url, schema);
    const next = await openNode(url, schema);
    const texts = (await next.session('one').messages()).map(({ content }) => content);
    expect(texts.filter((text) => text !== 'An answer.')).toEqual(['Q1', 'Q2', 'Q3', 'Q4']);
  });
});
