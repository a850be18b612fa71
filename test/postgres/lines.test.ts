/**
 * Goal: with lines, every node of a cluster answers for every session. A node without the sessions asks the owner, and
 * becomes the owner itself when that one is gone. No reader misses an event over it, and nothing is done twice.
 */
import { afterEach, describe, expect, test } from 'vitest';
import type { Runtime } from '../../src/index.ts';
import { type PostgresOptions, postgres } from '../../src/postgres/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { startChild, type TestChild } from '../support/children.ts';
import { collect, failure, MATRIX, runtimeKit, type TestOptions } from '../support/runtime-kit.ts';
import { NO_SERVER, newSchema, sharedServer } from './support/server.ts';

const kit = runtimeKit();
const NODE = new URL('./fixtures/node.ts', import.meta.url);
const children: TestChild[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) await child.kill();
});
const SECRET = 'a secret of more than thirty-two characters';
const answering = scripted({ rules: [], otherwise: 'A' });

/** The options of `postgres()` for the nodes of one new cluster. */
async function newCluster(leaseMs = 10_000): Promise<PostgresOptions> {
  const { url } = await sharedServer();
  return {
    url,
    schema: newSchema(),
    leaseMs,
    listen: { host: '127.0.0.1', port: 0 },
    secret: SECRET,
  };
}

async function openNode(cluster: PostgresOptions, node: string, options: TestOptions = {}): Promise<Runtime> {
  return kit.open({
    directory: await kit.directory(),
    provider: answering,
    cluster: postgres({ ...cluster, node }),
    ...options,
  });
}

/** A node that has the only shard, and one that has none. */
async function openPair(options: TestOptions = {}): Promise<readonly [owner: Runtime, member: Runtime]> {
  const cluster = await newCluster();
  const owner = await openNode(cluster, 'a', options);
  return [owner, await openNode(cluster, 'b', options)];
}

describe.skipIf(NO_SERVER !== undefined)('lines between nodes', () => {
  test.each(MATRIX)('a node without the sessions answers as the owner does: %o', async (threads) => {
    const [owner, member] = await openPair({ threads });
    expect(owner.cluster?.status()).toMatchObject({ state: 'owner', node: 'a', shards: [{ shard: 0, epoch: 1 }] });
    expect(member.cluster?.status()).toMatchObject({
      state: 'member',
      node: 'b',
      shards: [],
      others: [{ node: 'a', shards: [0] }],
    });
    expect(await member.isReady()).toBe(true);
    const session = member.session('order');
    expect(await session.ask('one', { key: 'k' })).toBe('A');
    const receipt = await owner.session('order').send('two');
    expect(await (await member.session('order').receipt(receipt.id)).answer()).toBe('A');
    const [again, texts] = [await session.send('one', { key: 'k' }), ['one', 'A', 'two', 'A']];
    expect(again.duplicate).toBe(true);
    expect((await session.messages()).map(({ content }) => content)).toEqual(texts);
    expect(await session.state()).toEqual(await owner.session('order').state());
    expect((await member.sessions.list()).map(({ id }) => id)).toEqual(['order']);
    expect((await member.search('two')).found.map(({ session: id }) => id)).toEqual(['order']);
    await member.drain();
    await session.delete();
    expect(await owner.sessions.list()).toEqual([]);
    expect((await member.audit()).items.map(({ action }) => action)).toContain('session.deleted');
  });

  test.each(MATRIX)(
    'readers at both nodes see the same events, each the sessions that it reads: %o',
    async (threads) => {
      const [owner, member] = await openPair({ threads });
      const until = (event: { readonly type: string }): boolean => event.type === 'turn.finished';
      const heard: unknown[] = [];
      member.session('one').onMessage(({ content }) => heard.push(content));
      const readers = [owner, member].map((runtime) => collect(runtime.session('one').events({ until })));
      await member.session('other').ask('Q');
      await owner.session('one').ask('Q');
      const [own = [], remote = []] = await Promise.all(readers);
      expect(own.length).toBeGreaterThan(3);
      expect(remote.filter(({ seq }) => seq !== undefined)).toEqual(own.filter(({ seq }) => seq !== undefined));
      await expect.poll(() => heard).toEqual(['A']);
      // The reader at one node has ended. The reader at the other continues.
      const rest = collect(owner.session('one').events({ after: own.at(-1)?.seq ?? 0, until }));
      await member.session('one').ask('again');
      expect((await rest).length).toBeGreaterThan(3);
    },
  );

  test('errors keep their class and code over a line', async () => {
    const [owner, member] = await openPair();
    await owner.session('one').send('Q', { key: 'k' });
    const error = await failure(member.session('one').send('another', { key: 'k' }));
    expect(error).toMatchObject({ code: 'key_reused', name: 'KeyReusedError' });
  });

  test('a turn waits only for listeners of its own node', async () => {
    const [owner, member] = await openPair();
    expect(() => member.session('one').onMessage(() => undefined, { wait: true })).toThrow(
      expect.objectContaining({ code: 'not_here' }),
    );
    const seen: unknown[] = [];
    owner.session('one').onMessage(({ content }) => void seen.push(content), { wait: true });
    await member.session('one').ask('Q');
    expect(seen).toEqual(['A']);
  });

  test.each(MATRIX)(
    'the owner closes: the member becomes the owner, and its readers miss nothing: %o',
    async (threads) => {
      const [owner, member] = await openPair({ threads });
      const seqs: number[] = [];
      const reading = (async () => {
        for await (const { seq, type } of member.session('one').events()) {
          if (seq !== undefined) seqs.push(seq);
          if (type === 'turn.finished' && seqs.length > 60) return;
        }
      })();
      for (let turn = 0; turn < 5; turn += 1) await member.session('one').ask(`Q${turn}`, { key: `k${turn}` });
      const closed = owner.close();
      // Requests wait for the next owner, or reject with an unknown outcome and are sent again with their key.
      for (let turn = 5; turn < 10; turn += 1) await askUntilAnswered(member, `Q${turn}`, `k${turn}`);
      await closed;
      await expect.poll(() => member.cluster?.status().state).toBe('owner');
      for (let turn = 10; seqs.length <= 60; turn += 1) await member.session('one').ask(`Q${turn}`);
      await member.session('one').ask('last');
      await reading;
      expect(seqs).toEqual(Array.from(seqs, (_, index) => index + 1));
      const questions = (await member.session('one').messages()).filter(({ type }) => type === 'user_message');
      expect(questions.slice(0, 10).map(({ content }) => content)).toEqual(
        Array.from({ length: 10 }, (_, n) => `Q${n}`),
      );
    },
  );

  test('the owner is killed: the member continues with everything that was acknowledged', async () => {
    const cluster = await newCluster(2_000);
    const { url, schema = '' } = cluster;
    const owner = startChild(NODE, [await kit.directory(), url, schema, 'a', '3', '', SECRET]);
    children.push(owner);
    await owner.said('ack s2 a-3\n');
    const member = await openNode(cluster, 'b');
    expect(member.cluster?.status()).toMatchObject({ state: 'member', others: [{ node: 'a', shards: [0] }] });
    const sent: string[] = [];
    for (let turn = 0; turn < 20; turn += 1) {
      if (turn === 10) {
        await owner.kill();
        // The lease of the killed node holds. No other node could do better, so this one stays behind its load balancer.
        expect(await member.isReady()).toBe(true);
      }
      sent.push(`Q${turn}`);
      await askUntilAnswered(member, `Q${turn}`, `k${turn}`);
    }
    const questions = (await member.session('one').messages()).filter(({ type }) => type === 'user_message');
    expect(questions.map(({ content }) => content)).toEqual(sent);
    expect(member.cluster?.status().state).toBe('owner');
    await expect.poll(() => member.isReady()).toBe(true);
  });

  test('another secret, and an owner without an address: `open` says why', async () => {
    const cluster = { ...(await newCluster(4_000)), holdMs: 0 };
    await openNode(cluster, 'a');
    const lines: unknown[] = [];
    const logger = { debug() {}, info() {}, warn: (_: unknown, text: string) => lines.push(text), error() {} };
    const other = { ...cluster, secret: SECRET.toUpperCase() };
    expect(await failure(openNode(other, 'b', { logger }))).toMatchObject({ code: 'store_full', retryable: true });
    expect(lines.join('\n')).toContain('postgres.secret');
    expect(lines.join('\n')).not.toContain(SECRET);
  });
});

/** Sends a keyed message again as long as its outcome is unknown, as an embedder does. */
async function askUntilAnswered(runtime: Runtime, text: string, key: string): Promise<void> {
  for (;;) {
    try {
      await runtime.session('one').ask(text, { key });
      return;
    } catch (error) {
      expect(error).toMatchObject({ retryable: true });
    }
  }
}
