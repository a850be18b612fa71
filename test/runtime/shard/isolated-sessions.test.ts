/**
 * Goal: invariant N1 of isolated sessions, and their release. Method: a shard gets the list of isolated sessions, as a
 * thread gets it after the deaths of two threads.
 */
import { afterEach, expect, test } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { agent } from '../../../src/index.ts';
import { MemoryStore } from '../../../src/journal/memory-store.ts';
import type { ModelProvider } from '../../../src/models/provider.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { failure } from '../../support/runtime-kit.ts';
import { copyStore, openShard, type ShardOptions, type TestShard } from '../../support/shard-kit.ts';

const shards: TestShard[] = [];
afterEach(async () => {
  await Promise.allSettled(shards.splice(0).map((shard) => shard.close()));
});

function opened(options: Pick<ShardOptions, 'store' | 'isolated' | 'provider'>): TestShard {
  const shard = openShard({ agents: [agent({ name: 'a' })], clock: systemClock, ...options });
  shards.push(shard);
  return shard;
}

const provider = scripted(() => 'Done.') as ModelProvider;
const silent = scripted(() => new Promise<never>(() => undefined)) as ModelProvider;
const send = (session: string, content: string) => ({ session, agent: 'a', content });
const contents = async (shard: TestShard, session: string): Promise<readonly unknown[]> =>
  (await shard.call('session.messages', { session })).map(({ content }) => content);

test('N1: an isolated session is blocked with the reason and is not read, others work; resume() continues what was interrupted', async () => {
  const store = new MemoryStore();
  const first = opened({ store, provider: silent });
  const sent = await first.call('session.send', send('large', 'Hi'));
  const key = store.keys.get('large');
  if (key === undefined) throw new Error('the session has no key');
  const shard = opened({ store: copyStore(store), isolated: [key], provider });
  expect(await shard.call('session.state', { session: 'large' })).toMatchObject({ blocked: { code: 'out_of_memory' } });
  expect(await shard.call('session.explain', { session: 'large' })).toMatchObject({ reason: 'blocked' });
  expect(await failure(shard.call('session.send', send('large', 'More')))).toMatchObject({ code: 'out_of_memory' });
  expect(await failure(shard.call('session.messages', { session: 'large' }))).toMatchObject({ code: 'out_of_memory' });
  const other = await shard.call('session.send', send('other', 'Hi'));
  await shard.call('receipt.wait', { session: 'other', ...other, until: 'settled' });
  expect(await contents(shard, 'other')).toEqual(['Hi', 'Done.']);
  expect(shard.stateOf('large')).toBeUndefined();

  await shard.call('session.resume', { session: 'large' });
  expect((await shard.call('session.state', { session: 'large' })).blocked).toBeUndefined();
  await shard.call('receipt.wait', { session: 'large', ...sent, until: 'settled' });
  expect(await contents(shard, 'large')).toEqual(['Hi', 'Done.']);
});
