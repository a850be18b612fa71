/**
 * Goal: a fork is a separate session that has its parent's history, in whatever order either is changed, restarted,
 * deleted, or lost by a crash. Method: the public API, in memory and on disk, and a shard whose store is copied before
 * each write.
 */
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { FORK_DEPTH_MAX, SNAPSHOT_TURNS } from '../../../src/base/bounds.ts';
import { shardOf } from '../../../src/base/ids.ts';
import { agent, open, tool } from '../../../src/index.ts';
import { MemoryStore } from '../../../src/journal/memory-store.ts';
import type { ModelProvider } from '../../../src/models/provider.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { failure, gatedModel, history, log, MATRIX, runtimeKit, types } from '../../support/runtime-kit.ts';
import { copyStore, openShard } from '../../support/shard-kit.ts';

const kit = runtimeKit();
const echo = scripted({ rules: [], otherwise: 'to {{text}}' });
const agents = [agent({ name: 'a' })];
const ONE = ['user_message:one', 'agent_message:to one'];
const TWO = [...ONE, 'user_message:two', 'agent_message:to two'];
/** Longer than any session stays in memory after its last use. */
const LONG_MS = 30_000;

describe.each(MATRIX)('a fork, sessions: $sessions, models: $models', (threads) => {
  test('H52: later changes in parent or fork are invisible in the other', async () => {
    const runtime = await kit.open({ threads, provider: echo });
    const parent = runtime.session('p');
    await parent.ask('one');
    await parent.ask('two');
    const fork = await parent.fork();
    expect(fork.id).toBe('p:fork-1');
    expect(await log(fork)).toEqual(TWO);
    await fork.ask('three');
    await parent.history.undo();
    await parent.ask('other');
    expect(await log(fork)).toEqual([...TWO, 'user_message:three', 'agent_message:to three']);
    expect(await log(parent)).toEqual([...TWO, 'user_message:other', 'agent_message:to other']);
    expect(JSON.stringify(await parent.request())).not.toContain('two');
    await fork.history.switchTo(1);
    expect((await fork.viewport()).map(({ content }) => content)).toEqual(['one', 'to one']);
    expect((await parent.viewport()).map(({ content }) => content)).toEqual(['one', 'to one', 'other', 'to other']);
    expect((await runtime.sessions.list({ order: 'id' })).map(({ id }) => id)).toEqual(['p', 'p:fork-1']);
  });

  test('the events of a fork begin with its own, and it has its own numbers, usage and receipts', async () => {
    const runtime = await kit.open({ threads, provider: echo });
    const parent = runtime.session('p');
    await parent.ask('one');
    const before = await parent.state();
    const fork = await parent.fork();
    expect(await fork.state()).toMatchObject({ state: 'idle', seq: 0, mailbox: 0, usage: { input_tokens: 0 } });
    const receipt = await fork.send('two', { key: 'k' });
    expect(await receipt.answer()).toBe('to two');
    const events = await history(fork);
    expect(types(events)[0]).toBe('pending.created');
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
    expect(await (await fork.receipt(receipt.id)).status()).toMatchObject({ status: 'answered' });
    expect(await parent.state()).toEqual(before);
  });

  test('a fork is cut after a message, at the end of its round; an unknown message is refused', async () => {
    const look = tool({ name: 'look', description: 'Looks.', input: z.object({}), run: () => 'seen' });
    const provider = scripted([{ text: 'I look.', toolUse: { name: 'look' } }, 'done', 'more']);
    const runtime = await kit.open({ threads, provider, agents: [agent({ name: 'a', tools: [look] })] });
    const parent = runtime.session('p');
    await parent.ask('one');
    await parent.ask('two');
    expect((await (await parent.fork({ at: 3 })).messages()).map(({ seq }) => seq)).toEqual([1, 2, 3, 4]);
    expect((await (await parent.fork({ at: 1, id: 'p:mine' })).messages()).map(({ seq }) => seq)).toEqual([1]);
    expect(await failure(parent.fork({ at: 99 }))).toMatchObject({ code: 'message_not_found' });
    expect(await failure(parent.fork({ at: 0.5 }))).toMatchObject({ code: 'invalid_argument' });
    expect(await failure(parent.fork({ id: 'p:mine' }))).toMatchObject({ code: 'invalid_name' });
    expect(await failure(parent.fork({ id: 'no good' }))).toMatchObject({ code: 'invalid_name' });
    expect(await failure(runtime.session('nobody').fork())).toMatchObject({ code: 'unknown_session' });
  });
});

test('a fork whose id lives on another thread gets a copy', async () => {
  const directory = await kit.directory();
  const runtime = await kit.open({ directory, provider: echo, agents, threads: { sessions: 2 } });
  const { shards } = runtime.info();
  const id = ['x1', 'x2', 'x3', 'x4', 'x5', 'x6', 'x7'].find((each) => shardOf(each, shards) !== shardOf('p', shards));
  if (id === undefined) throw new Error('all ids fall on one shard');
  const parent = runtime.session('p');
  await parent.ask('one');
  const fork = await parent.fork({ id });
  expect(fork.id).toBe(id);
  expect(await failure(parent.fork({ id }))).toMatchObject({ code: 'invalid_name' });
  await fork.ask('two');
  await parent.delete();
  await runtime.close();
  const again = await kit.open({ directory, provider: echo, agents, threads: { sessions: 2 } });
  expect(await log(again.session(id))).toEqual(TWO);
});

test('a fork of a working session starts idle, has the messages so far, and does not affect its parent', async () => {
  const model = gatedModel();
  const runtime = await kit.open({ provider: model.provider });
  const parent = runtime.session('p');
  const receipt = await parent.send('one');
  const call = await model.next();
  const fork = await parent.fork();
  expect(await fork.state()).toMatchObject({ state: 'idle', mailbox: 0 });
  expect(await log(fork)).toEqual(['user_message:one']);
  const asked = fork.ask('instead');
  const other = await model.next();
  expect(other.session).toBe(fork.id);
  expect(JSON.stringify(other.request.messages)).toContain('instead');
  other.answer('to instead');
  call.answer('to one');
  expect(await asked).toBe('to instead');
  expect(await receipt.answer()).toBe('to one');
  expect(await log(parent)).toEqual(ONE);
  expect(await log(fork)).toEqual(['user_message:one', 'user_message:instead', 'agent_message:to instead']);
});

test('a fork of a child keeps its narrowed tools and has no parent', async () => {
  const look = tool({ name: 'look', description: 'Looks.', input: z.object({}), run: () => 'seen' });
  const touch = tool({ name: 'touch', description: 'Touches.', input: z.object({}), run: () => 'felt' });
  const runtime = await kit.open({ provider: echo, agents: [agent({ name: 'a', tools: [look, touch] })] });
  const child = await runtime.session('p').spawn({ task: 'go', tools: ['look'], replies: 'handle' });
  await child.exit();
  const fork = await child.fork();
  expect((await fork.request()).tools?.map(({ name }) => name)).toEqual(['look']);
  expect(await runtime.sessions.get(fork.id)).not.toHaveProperty('parent');
  await runtime.session('p').delete();
  expect(await fork.ask('still there?')).toBe('to still there?');
});

test.each(['memory', 'disk'])('a fork and its own fork outlive their parents; %s', async (where) => {
  const clock = manualClock();
  const directory = where === 'disk' ? await kit.directory() : ':memory:';
  const runtime = await kit.open({ directory, provider: echo, agents, clock });
  await runtime.session('p').ask('one');
  const fork = await runtime.session('p').fork();
  await fork.ask('two');
  const second = await fork.fork();
  const cut = await fork.fork({ at: 2, id: 'p:cut' });
  await runtime.drain();
  // None of these sessions is in memory, so the kept part is read from the logs.
  await clock.advance(LONG_MS);
  expect(runtime.metrics().sessionsHot).toBe(0);
  expect(await runtime.session('p').delete()).toBe(true);
  const events = await history(fork);
  await clock.advance(LONG_MS);
  expect(await log(fork)).toEqual(TWO);
  expect(await history(fork)).toEqual(events);
  expect(await log(second)).toEqual(TWO);
  // A new session with the parent's name is not the parent.
  await runtime.session('p').ask('new');
  expect(await fork.delete()).toBe(true);
  await clock.advance(LONG_MS);
  expect(await log(second)).toEqual(TWO);
  expect(await log(cut)).toEqual(ONE);
  if (where !== 'disk') return;
  await runtime.close();
  const again = await kit.open({ directory, provider: echo, agents });
  expect(await log(again.session(second.id))).toEqual(TWO);
  expect(await log(again.session(cut.id))).toEqual(ONE);
  expect(await again.session(second.id).ask('three')).toBe('to three');
});

test('a chain of forks longer than FORK_DEPTH_MAX can be read at any length', async () => {
  const clock = manualClock();
  const runtime = await kit.open({ provider: echo, clock });
  await runtime.session('p').ask('one');
  let last = runtime.session('p');
  for (let depth = 0; depth < FORK_DEPTH_MAX + 3; depth += 1) last = await last.fork({ id: `p:${depth}-deep` });
  await last.ask('two');
  await runtime.drain();
  await clock.advance(LONG_MS);
  expect(await log(last)).toEqual(TWO);
});

test('forks from before and from after a snapshot of their parent', async () => {
  const directory = await kit.directory();
  const first = await open(directory, { provider: echo, agents, threads: { sessions: 0, models: 0, tools: 1 } });
  await first.session('p').ask('one');
  const before = (await first.session('p').fork({ id: 'p:before' })).id;
  for (let turn = 0; turn < SNAPSHOT_TURNS / 2 + 5; turn += 1) await first.session('p').ask('again');
  await first.close();
  const second = await open(directory, { provider: echo, agents, threads: { sessions: 0, models: 0, tools: 1 } });
  const behind = (await second.session('p').fork()).id;
  const all = await log(second.session('p'));
  await second.close();
  const third = await kit.open({ directory, provider: echo, agents });
  expect(await log(third.session(before))).toEqual(ONE);
  expect(await log(third.session(behind))).toEqual(all);
});

test('messages of a fork include those evicted from its parent’s window', async () => {
  const runtime = await kit.open({ provider: echo, agents: [agent({ name: 'a', tokenBudget: 1_000 })] });
  const parent = runtime.session('p');
  for (let turn = 0; turn < 10; turn += 1) await parent.ask(`${turn} ${'x'.repeat(800)}`);
  const all = await log(parent);
  expect((await parent.viewport()).length).toBeLessThan(all.length);
  const fork = await parent.fork();
  expect(await log(fork)).toEqual(all);
  expect(await fork.viewport()).toEqual(await parent.viewport());
});

test('A10: a crash at any write leaves a whole fork or none, and an existing one continues', async () => {
  const store = new MemoryStore();
  const crashes: MemoryStore[] = [];
  const provider = scripted((request) => `answer ${request.messages.length}`) as ModelProvider;
  const shard = openShard({
    store,
    provider,
    agents,
    refuse: () => {
      crashes.push(copyStore(store));
      return undefined;
    },
  });
  const say = async (to: typeof shard, session: string, content: string): Promise<void> => {
    await to.call('session.send', { session, content, agent: 'a' });
    await to.call('runtime.drain', { id: 0 });
  };
  const lines = async (of: typeof shard, session: string): Promise<readonly string[]> =>
    (await of.call('session.messages', { session })).map(({ type, content }) => `${type}:${String(content)}`);
  await say(shard, 'p', 'one');
  await shard.call('session.fork', { session: 'p' });
  await say(shard, 'p:fork-1', 'two');
  await shard.call('session.fork', { session: 'p:fork-1' });
  await shard.call('sessions.delete', { session: 'p' });
  await shard.call('sessions.delete', { session: 'p:fork-1' });
  const end = 'p:fork-1:fork-1';
  const whole = await lines(shard, end);
  expect(whole).toHaveLength(4);
  await shard.close();
  expect(crashes.length).toBeGreaterThan(6);
  let met = 0;
  for (const [number, crash] of crashes.entries()) {
    const again = openShard({ store: crash, provider, agents });
    const there = (await again.call('sessions.list', { order: 'id', limit: 10 })).map(({ id }) => id);
    for (const [id, least] of [
      ['p:fork-1', 2],
      [end, 4],
    ] as const) {
      if (!there.includes(id)) continue;
      met += 1;
      await say(again, id, 'more');
      const said = await lines(again, id);
      expect(said.slice(0, least), `${id} after the crash before write ${number}`).toEqual(whole.slice(0, least));
      expect(said.length).toBeGreaterThanOrEqual(least + 2);
    }
    await again.close();
  }
  expect(met).toBeGreaterThan(4);
});
