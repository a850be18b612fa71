/**
 * Goal: a message that replaces an earlier one takes its place in one durable step, and says which one it replaces by a
 * key or an id that the history shows. Method: sessions at each stage of a turn; a store copied before each write.
 */
import { expect, test } from 'vitest';
import { agent, type Session } from '../../src/index.ts';
import { MemoryStore } from '../../src/journal/memory-store.ts';
import type { ModelProvider } from '../../src/models/provider.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { failure, gatedModel, history, MATRIX, runtimeKit } from '../support/runtime-kit.ts';
import { copyStore, openShard, type TestShard } from '../support/shard-kit.ts';

const kit = runtimeKit();

const said = async (session: Session): Promise<readonly string[]> =>
  (await session.history.messages()).map(({ id, role, key, content }) =>
    [id, key, role, content].filter((part) => part !== undefined).join(' '),
  );

test.each(MATRIX)(
  'messages, waiting entries and their events carry the key they were sent with: %o',
  async (threads) => {
    const runtime = await kit.open({ provider: scripted(['One.']), threads: { ...threads, tools: 1 } });
    const session = runtime.session('s');
    await session.pause();
    await session.send('first', { key: 'k1' });
    expect(await session.pending()).toMatchObject([{ content: 'first', key: 'k1' }]);
    await session.resume();
    await (await session.receipt({ key: 'k1' })).answer();
    expect(await said(session)).toEqual(['m1 k1 user first', 'm2 assistant One.']);
    expect((await session.messages()).map(({ key }) => key)).toEqual(['k1', undefined]);
    expect((await session.viewport())[0]?.key).toBe('k1');
    const events = (await history(session)).flatMap((event) => {
      if (event.type === 'pending.created') return [event.pending.key];
      return event.type === 'message.created' ? [event.message.key] : [];
    });
    expect(events).toEqual(['k1', 'k1', undefined]);
  },
);

test('replaces: the message and everything after it leave, by key or by id; the receipts of both stay', async () => {
  const runtime = await kit.open({ provider: scripted(['One.', 'Two.', 'Three.', 'Four.']) });
  const session = runtime.session('s');
  await session.ask('first', { key: 'k1' });
  await session.ask('second', { key: 'k2' });
  expect(await session.ask('2nd', { key: 'k3', replaces: { key: 'k2' } })).toBe('Three.');
  expect(await said(session)).toEqual([
    'm1 k1 user first',
    'm2 assistant One.',
    'm5 k3 user 2nd',
    'm6 assistant Three.',
  ]);
  expect(await session.ask('1st', { replaces: { id: 'm1' } })).toBe('Four.');
  expect(await said(session)).toEqual(['m7 user 1st', 'm8 assistant Four.']);
  expect(await (await session.receipt({ key: 'k2' })).status()).toMatchObject({ status: 'answered' });
  // A repetition is answered by the receipt it has, and removes nothing.
  expect(await session.send('2nd', { key: 'k3', replaces: { key: 'k2' } })).toMatchObject({ duplicate: true });
  expect(await said(session)).toEqual(['m7 user 1st', 'm8 assistant Four.']);
});

test('replaces: an unknown message is refused, and so is what cannot be sent; nothing is removed or interrupted', async () => {
  const model = gatedModel();
  const runtime = await kit.open({ provider: model.provider, limits: { messageBytes: 1_000 } });
  const session = runtime.session('s');
  await session.send('first', { key: 'k1' });
  const call = await model.next();
  const unknown = await failure(session.send('new', { replaces: { key: 'other' } }));
  expect(unknown).toMatchObject({ code: 'message_not_found', data: { key: 'other' } });
  expect(unknown.message).toContain('no message with the key "other"');
  expect(await failure(session.send('new', { replaces: { id: 'm7' } }))).toMatchObject({ code: 'message_not_found' });
  const long = await failure(session.send('x'.repeat(1_001), { replaces: { key: 'k1' } }));
  expect(long).toMatchObject({ code: 'limit' });
  const busy = await failure(session.send('new', { deliver: 'reject', replaces: { key: 'k1' } }));
  expect(busy).toMatchObject({ code: 'session_busy' });
  call.answer('One.');
  await (await session.receipt({ key: 'k1' })).answer();
  expect(await said(session)).toEqual(['m1 k1 user first', 'm2 assistant One.']);
  await expect(session.send('new', { replaces: { seq: 1 } as never })).rejects.toMatchObject({ code: 'config' });
});

test('replaces: a running turn is interrupted; a message that waits is withdrawn, and the turn before it continues', async () => {
  const model = gatedModel();
  const runtime = await kit.open({ provider: model.provider });
  const session = runtime.session('s');
  const first = await session.send('frist', { key: 'k1' });
  await model.next();
  const second = await session.send('first', { key: 'k2', replaces: { key: 'k1' } });
  const call = await model.next();
  expect(await first.status()).toMatchObject({ status: 'interrupted' });
  const third = await session.send('third', { key: 'k3', deliver: 'turn' });
  const fourth = await session.send('3rd', { key: 'k4', deliver: 'turn', replaces: { key: 'k3' } });
  expect(await third.status()).toMatchObject({ status: 'dropped', reason: 'recalled' });
  call.answer('One.');
  expect(await second.answer()).toBe('One.');
  (await model.next()).answer('Three.');
  expect(await fourth.answer()).toBe('Three.');
  expect(await said(session)).toEqual([
    'm2 k2 user first',
    'm3 assistant One.',
    'm4 k4 user 3rd',
    'm5 assistant Three.',
  ]);
});

const FIRST = { session: 's', agent: 'a', content: 'frist', key: 'k1', fingerprint: 'f1' };
const EDIT = { session: 's', agent: 'a', content: 'first', key: 'k2', fingerprint: 'f2', replaces: { key: 'k1' } };

function shardOn(store: MemoryStore, onWrite?: () => void): TestShard {
  const provider = scripted(() => 'Yes.') as ModelProvider;
  return openShard({
    store,
    provider,
    agents: [agent({ name: 'a' })],
    refuse: () => {
      onWrite?.();
      return undefined;
    },
  });
}

test('replaces: after a crash at any write the conversation has the old message or the new one, and the same end', async () => {
  const store = new MemoryStore();
  const crashes: MemoryStore[] = [];
  const shard = shardOn(store, () => crashes.push(copyStore(store)));
  await shard.call('session.send', FIRST);
  await shard.call('runtime.drain', { id: 0 });
  const before = crashes.length;
  await shard.call('session.send', EDIT);
  await shard.call('runtime.drain', { id: 1 });
  await shard.close();
  const found: string[] = [];
  for (const crash of crashes.slice(before)) {
    const again = shardOn(crash);
    const users = async (): Promise<string> => {
      const shown = await again.call('session.viewport', { session: 's' });
      const waiting = await again.call('session.pending', { session: 's' });
      const texts = shown.filter(({ type }) => type === 'user_message');
      return [...texts, ...waiting].map(({ content }) => String(content)).join();
    };
    found.push(await users());
    await again.call('session.send', EDIT);
    await again.call('runtime.drain', { id: 0 });
    expect(await users()).toBe('first');
    await again.close();
  }
  expect(found.length).toBeGreaterThan(2);
  expect(new Set(found)).toEqual(new Set(['frist', 'first']));
});
