/**
 * Goal: nodes with lines share the shards of their cluster. A node that comes gets its share, and the shards of one that
 * goes are elsewhere at once. Requests and readers at any node notice none of it.
 */
import { setImmediate } from 'node:timers/promises';
import { afterEach, describe, expect, onTestFinished, test } from 'vitest';
import { shardOf } from '../../src/base/ids.ts';
import type { Runtime } from '../../src/index.ts';
import { type PostgresOptions, postgres } from '../../src/postgres/index.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { startChild, type TestChild } from '../support/children.ts';
import { failure, MATRIX, runtimeKit, type TestOptions } from '../support/runtime-kit.ts';
import { NO_SERVER, newSchema, sharedServer } from './support/server.ts';

const kit = runtimeKit();
const NODE = new URL('./fixtures/node.ts', import.meta.url);
const children: TestChild[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) await child.kill();
});
const SECRET = 'a secret of more than thirty-two characters';
const SHARDS = 4;
const answering = scripted({ rules: [], otherwise: 'A' });
/** A session of each shard. */
const SESSIONS = Array.from({ length: SHARDS }, (_, shard) => {
  for (let n = 0; ; n += 1) if (shardOf(`s${n}`, SHARDS) === shard) return `s${n}`;
});

/** Opens the nodes of one new cluster. */
async function newCluster(options: TestOptions & { readonly leaseMs?: number } = {}) {
  const { url } = await sharedServer();
  const { leaseMs = 4_000, ...rest } = options;
  const listen = { host: '127.0.0.1', port: 0 };
  const cluster: PostgresOptions = { url, schema: newSchema(), leaseMs, listen, secret: SECRET };
  const open = async (node: string, more: TestOptions = {}): Promise<Runtime> =>
    kit.open({
      directory: await kit.directory(),
      provider: answering,
      cluster: postgres({ ...cluster, shards: SHARDS, node }),
      ...rest,
      ...more,
    });
  return { cluster, open };
}

/** The number of shards of each node. */
function counts(nodes: readonly Runtime[]): number[] {
  return nodes.map((node) => node.cluster?.status().shards.length ?? 0);
}

/** Waits until the nodes have so many shards, the most first, and know it of each other. */
async function untilSpread(nodes: readonly Runtime[], wanted: readonly number[]): Promise<void> {
  const sorted = (): readonly number[] => counts(nodes).sort((a, b) => b - a);
  await expect.poll(sorted, { timeout: 30_000 }).toEqual(wanted);
  const all = (node: Runtime): number =>
    node.cluster?.status().others.reduce((sum, { shards }) => sum + shards.length, 0) ?? 0;
  const others = counts(nodes).map((count) => SHARDS - count);
  await expect.poll(() => nodes.map(all), { timeout: 10_000 }).toEqual(others);
}

/** Sends keyed messages to all sessions at all nodes until `stop`, and collects what was refused. */
function load(nodes: Runtime[]) {
  const errors: unknown[] = [];
  const sent = new Map<string, string[]>(SESSIONS.map((id) => [id, []]));
  let isOver = false;
  const running = Promise.all(
    SESSIONS.map(async (id, index) => {
      for (let turn = 0; !isOver; turn += 1) {
        const node = nodes[(index + turn) % nodes.length];
        const text = `Q${turn}`;
        sent.get(id)?.push(text);
        await node
          ?.session(id)
          .ask(text, { key: text })
          .catch(async (error: unknown) => {
            errors.push(error);
            // Something else has a turn, also if every request is refused at once.
            await setImmediate();
          });
      }
    }),
  );
  const stop = async (): Promise<void> => {
    isOver = true;
    await running;
  };
  onTestFinished(stop);
  /** Takes nodes out, and waits until no request at them is under way. */
  const without = async (...gone: readonly Runtime[]): Promise<void> => {
    for (const node of gone) nodes.splice(nodes.indexOf(node), 1);
    const turns = SESSIONS.map((id) => sent.get(id)?.length ?? 0);
    const hasTurned = (): boolean => SESSIONS.every((id, index) => (sent.get(id)?.length ?? 0) > (turns[index] ?? 0));
    await expect.poll(hasTurned, { timeout: 20_000 }).toBe(true);
  };
  return { sent, errors, without, stop };
}

/** Reads the events of all sessions at a node, and says which sequence numbers are missing. */
function reader(node: Runtime) {
  const seqs = new Map<string, number[]>();
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const failures: unknown[] = [];
  const read = async (id: string): Promise<void> => {
    const own: number[] = [];
    seqs.set(id, own);
    for await (const { seq } of node.session(id).events({ signal: stop.signal })) if (seq !== undefined) own.push(seq);
  };
  for (const id of SESSIONS) read(id).catch((error: unknown) => failures.push(error));
  return {
    /** Waits until everything up to the end of the logs was read, and checks that nothing is missing or there twice. */
    check: async (): Promise<void> => {
      for (const id of SESSIONS) {
        const { seq } = await node.session(id).state();
        await expect.poll(() => seqs.get(id)?.at(-1), { timeout: 20_000 }).toBe(seq);
        expect(seqs.get(id)).toEqual(Array.from({ length: seq }, (_, index) => index + 1));
      }
      expect(failures).toEqual([]);
      stop.abort();
    },
  };
}

async function questionsOf(node: Runtime, id: string): Promise<readonly unknown[]> {
  const messages = await node.session(id).messages();
  return messages.filter(({ type }) => type === 'user_message').map(({ content }) => content);
}

describe.skipIf(NO_SERVER !== undefined)('shards spread over nodes', () => {
  test.each(MATRIX)(
    'nodes come and go under keyed sends, and nothing is refused, lost or double: %o',
    async (threads) => {
      const { open } = await newCluster({ threads });
      const a = await open('a');
      expect(counts([a])).toEqual([4]);
      const nodes = [a];
      const work = load(nodes);
      const readers = [reader(a)];
      const b = await open('b');
      nodes.push(b);
      readers.push(reader(b));
      await untilSpread([a, b], [2, 2]);
      const c = await open('c');
      nodes.push(c);
      await untilSpread([a, b, c], [2, 1, 1]);
      const d = await open('d');
      nodes.push(d);
      await untilSpread([a, b, c, d], [1, 1, 1, 1]);
      await work.without(c, d);
      await Promise.all([c.close(), d.close()]);
      await untilSpread([a, b], [2, 2]);
      await work.stop();
      expect(work.errors).toEqual([]);
      for (const node of [a, b])
        for (const id of SESSIONS) expect(await questionsOf(node, id)).toEqual(work.sent.get(id));
      for (const each of readers) await each.check();
    },
  );

  test('a node is killed: its shards are at the others after its lease, with everything that was acknowledged', async () => {
    const { cluster, open } = await newCluster({ leaseMs: 2_000 });
    const { url, schema = '' } = cluster;
    const a = await open('a');
    const killed = startChild(NODE, [await kit.directory(), url, schema, 'k', '1', '', SECRET]);
    children.push(killed);
    await expect.poll(() => counts([a]), { timeout: 30_000 }).toEqual([2]);
    const acknowledged = new Map<string, string[]>();
    for (let turn = 0; turn < 3; turn += 1) {
      if (turn === 2) await killed.kill();
      for (const id of SESSIONS) {
        const text = `Q${turn}`;
        await askUntilAnswered(a, id, text);
        acknowledged.set(id, [...(acknowledged.get(id) ?? []), text]);
      }
    }
    expect(counts([a])).toEqual([4]);
    for (const id of SESSIONS) {
      const asked = (await questionsOf(a, id)).filter((text) => String(text).startsWith('Q'));
      expect(asked).toEqual(acknowledged.get(id));
    }
  });

  test('each node searches its own shards, and one question finds the messages of all', async () => {
    const { open } = await newCluster();
    const a = await open('a');
    const b = await open('b');
    await untilSpread([a, b], [2, 2]);
    for (const id of SESSIONS) await a.session(id).ask(`zebra ${id}`);
    for (const node of [a, b]) {
      const { found, isComplete } = await node.search('zebra', { limit: 10 });
      expect([found.map(({ session }) => session).sort(), isComplete]).toEqual([[...SESSIONS].sort(), true]);
      expect((await node.search('zebra', { limit: 2 })).found).toHaveLength(2);
    }
    await b.close();
    await a.session(SESSIONS[3] ?? '').ask('zebra again');
    expect((await a.search('zebra', { limit: 10 })).found).toHaveLength(SHARDS + 1);
  });

  test('a turn waits for the listeners of the node that has the session', async () => {
    const { open } = await newCluster();
    const a = await open('a');
    const b = await open('b');
    await untilSpread([a, b], [2, 2]);
    for (const id of SESSIONS) {
      const isAtA = a.cluster?.status().shards.some(({ shard }) => shard === shardOf(id, SHARDS)) === true;
      const [here, elsewhere] = isAtA ? [a, b] : [b, a];
      const seen: unknown[] = [];
      here.session(id).onMessage(({ content }) => void seen.push(content), { wait: true });
      expect(() => elsewhere.session(id).onMessage(() => undefined, { wait: true })).toThrow(
        expect.objectContaining({ code: 'not_here' }),
      );
      await elsewhere.session(id).ask('Q');
      expect(seen).toEqual(['A']);
    }
  });

  test('nodes that open a new cluster at the same time share it, and its number of shards is given once', async () => {
    const { open, cluster } = await newCluster();
    const nodes = await Promise.all(['a', 'b', 'c'].map((node) => open(node)));
    await untilSpread(nodes, [2, 1, 1]);
    await Promise.all(SESSIONS.map((id, index) => nodes[index % 3]?.session(id).ask('Q')));
    for (const node of nodes) {
      expect((await node.sessions.list()).map(({ id }) => id).sort()).toEqual([...SESSIONS].sort());
    }
    const other = open('d', { cluster: postgres({ ...cluster, shards: SHARDS + 1, node: 'd' }) });
    expect(await failure(other)).toMatchObject({ code: 'config' });
  });
});

/** Sends a keyed message again as long as its outcome is unknown, as an embedder does. */
async function askUntilAnswered(runtime: Runtime, id: string, text: string): Promise<void> {
  for (;;) {
    try {
      await runtime.session(id).ask(text, { key: text });
      return;
    } catch (error) {
      expect(error).toMatchObject({ retryable: true });
    }
  }
}
