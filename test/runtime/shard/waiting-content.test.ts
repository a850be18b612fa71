/**
 * Goal: a shard holds no large content that waits, whether it was sent just now or is read from the log. Method: the states of its
 * actors.
 */
import { afterEach, expect, test } from 'vitest';
import { STORED_CONTENT_BYTES_MIN } from '../../../src/base/bounds.ts';
import { agent } from '../../../src/index.ts';
import { MemoryStore } from '../../../src/journal/memory-store.ts';
import type { ModelProvider } from '../../../src/models/provider.ts';
import { isStored } from '../../../src/session/rules/waiting-content.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { heapBytes } from '../../support/heap.ts';
import { type Deferred, deferred, eventually } from '../../support/runtime-kit.ts';
import { copyStore, openShard, type ShardOptions, type TestShard } from '../../support/shard-kit.ts';

const MEGABYTE = 1024 * 1024;
const ROOM = 64 * MEGABYTE;
const shards: TestShard[] = [];
/** Disks that hold all writes until the test releases them or ends. */
const disks: Deferred<void>[] = [];
afterEach(async () => {
  for (const disk of disks.splice(0)) disk.resolve();
  await Promise.allSettled(shards.splice(0).map((shard) => shard.close()));
});

function opened(store: MemoryStore, device?: ShardOptions['device']): TestShard {
  const provider = scripted(() => 'Done.') as ModelProvider;
  const agents = [agent({ name: 'a' })];
  const limits = { mailboxBytes: ROOM, waitingBytes: ROOM };
  const shard = openShard({ store, agents, provider, limits, ...(device === undefined ? {} : { device }) });
  shards.push(shard);
  return shard;
}

const small = 's'.repeat(STORED_CONTENT_BYTES_MIN - 1);
const large = 'l'.repeat(STORED_CONTENT_BYTES_MIN);
const send = (content: string) => ({ session: 's', agent: 'a', content });
const areStored = (shard: TestShard) => shard.stateOf('s')?.mailbox.map(({ content }) => isStored(content));

test('waiting contents below 1 KiB are in memory, larger ones in the log alone, also after a reopen', async () => {
  expect(STORED_CONTENT_BYTES_MIN).toBe(1_024);
  const store = new MemoryStore();
  const shard = opened(store);
  await shard.call('session.pause', { session: 's', agent: 'a' });
  await shard.call('session.send', send(small));
  const last = await shard.call('session.send', send(large));
  expect(areStored(shard)).toEqual([false, true]);
  const again = opened(copyStore(store));
  expect((await again.call('session.pending', { session: 's' })).map(({ content }) => content)).toEqual([small, large]);
  expect(areStored(again)).toEqual([false, true]);
  await again.call('session.resume', { session: 's' });
  await again.call('receipt.wait', { session: 's', ...last, until: 'settled' });
  const messages = await again.call('session.messages', { session: 's' });
  expect(messages.map(({ content }) => content)).toEqual([small, 'Done.', large, 'Done.']);
});

test('while a slow disk keeps large messages waiting for their flush, none of them is on the heap', async () => {
  const messages = 32;
  const disk = deferred();
  disks.push(disk);
  const shard = opened(new MemoryStore(), async ({ commit }) => {
    await disk.promise;
    commit();
  });
  // Events carry the contents to their readers.
  await shard.call('session.watch', { on: false });
  const answers: Promise<unknown>[] = [shard.call('session.pause', { session: 's', agent: 'a' })];
  const sendOne = (index: number): void => {
    answers.push(shard.call('session.send', send(`${index} ${'x'.repeat(MEGABYTE)}`)));
  };
  sendOne(0);
  await eventually(() => shard.stateOf('s')?.mailbox.length === 1);
  const before = heapBytes();
  for (let index = 1; index <= messages; index += 1) sendOne(index);
  await eventually(() => shard.stateOf('s')?.mailbox.length === messages + 1);
  expect(heapBytes() - before).toBeLessThan(8 * MEGABYTE);
  disk.resolve();
  await Promise.all(answers);
});
