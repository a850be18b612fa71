import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import { agent, tool } from '../../src/index.ts';
import type { ModelProvider } from '../../src/models/provider.ts';
import { manualClock } from '../../src/testing/manual-clock.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { deferred, eventually, failure, gatedModel } from '../support/runtime-kit.ts';
import { openShard, type ShardOptions, type TestShard } from '../support/shard-kit.ts';

const shards: TestShard[] = [];
afterEach(async () => {
  await Promise.allSettled(shards.splice(0).map((shard) => shard.close()));
});

/** A shard whose disk can be made full. */
function shardWithDisk(options: Omit<ShardOptions, 'refuse' | 'clock' | 'agents'> & Partial<ShardOptions>) {
  const disk: { fault: Error | undefined } = { fault: undefined };
  const clock = manualClock();
  const shard = openShard({ agents: [agent({ name: 'a' })], ...options, clock, refuse: () => disk.fault });
  shards.push(shard);
  return { shard, disk, clock };
}

const full = new Error('no space left');
const send = (content: string, session = 's') => ({ session, agent: 'a', content });
const contents = async (shard: TestShard, session = 's'): Promise<readonly unknown[]> =>
  (await shard.call('session.messages', { session })).map(({ content }) => content);

test('F06: a full disk refuses sends with StoreFullError; they leave no trace, and nothing acknowledged is lost', async () => {
  const { shard, disk, clock } = shardWithDisk({ provider: echo() });
  const first = await shard.call('session.send', send('kept'));
  await shard.call('receipt.wait', { session: 's', ...first, until: 'settled' });
  disk.fault = full;
  const refused = await failure(shard.call('session.send', send('refused')));
  expect(refused).toMatchObject({ name: 'StoreFullError', code: 'store_full', retryable: true });
  expect(shard.degraded.at(-1)).toMatchObject({ code: 'store_full' });
  expect((await failure(shard.call('session.send', send('refused too')))).name).toBe('StoreFullError');
  expect(await contents(shard)).toEqual(['kept', 'to kept']);
  await clock.advance(1_000);
  expect((await failure(shard.call('session.send', send('still refused')))).name).toBe('StoreFullError');

  disk.fault = undefined;
  await clock.advance(1_000);
  expect(shard.degraded.at(-1)).toBeUndefined();
  const after = await shard.call('session.send', send('after'));
  await shard.call('receipt.wait', { session: 's', ...after, until: 'settled' });
  expect(await contents(shard)).toEqual(['kept', 'to kept', 'after', 'to after']);
  expect((await shard.call('session.state', { session: 's' })).seq).toBe(lastSeq(shard));
});

test('F06, H2: a message refused by the last flush of a close is refused to its sender, and nothing throws', async () => {
  const writes: ((error: Error) => void)[] = [];
  const clock = manualClock();
  const shard = openShard({
    provider: echo(),
    agents: [agent({ name: 'a' })],
    clock,
    device: () => new Promise<void>((_resolve, reject) => writes.push(reject)),
  });
  const refused = failure(shard.call('session.send', send('too late')));
  await eventually(() => writes.length === 1);
  const closing = Promise.allSettled([shard.close()]);
  await clock.advance(1);
  // Nothing more happens until the write ends, because the journal is closing and no longer answers.
  let turns = 0;
  await eventually(() => {
    turns += 1;
    return turns > 20;
  });
  writes[0]?.(full);
  expect((await refused).name).toBe('StoreFullError');
  await closing;
});

test('H3: work that ran when the disk filled up resumes from the log when there is space again', async () => {
  const model = gatedModel();
  const { shard, disk, clock } = shardWithDisk({ provider: model.provider });
  const accepted = await shard.call('session.send', send('Hi'));
  const lost = await model.next();
  await shard.call('session.state', { session: 's' });
  disk.fault = full;
  lost.answer('never written');
  await eventually(() => shard.degraded.length === 1);
  expect(await contents(shard)).toEqual(['Hi']);
  const drained = shard.call('runtime.drain', { id: 0 });
  disk.fault = undefined;
  await clock.advance(1_000);
  const again = await model.next();
  expect(JSON.stringify(again.request)).toBe(JSON.stringify(lost.request));
  const settled = shard.call('receipt.wait', { session: 's', ...accepted, until: 'settled' });
  again.answer('written');
  expect(await settled).toMatchObject({ status: 'answered', text: 'written' });
  await drained;
  expect(await contents(shard)).toEqual(['Hi', 'written']);
});

test('A2: a tool does not start when the answer that asks for it could not be written', async () => {
  let runs = 0;
  const count = tool({
    name: 'count',
    description: 'Counts.',
    input: z.object({}),
    run: () => {
      runs += 1;
    },
  });
  const model = gatedModel();
  const agents = [agent({ name: 'a', tools: [count] })];
  const { shard, disk, clock } = shardWithDisk({ provider: model.provider, agents });
  await shard.call('session.send', send('Go'));
  const call = await model.next();
  await shard.call('session.state', { session: 's' });
  disk.fault = full;
  call.answer({ toolUse: { name: 'count' } });
  await eventually(() => shard.degraded.length === 1);
  expect(runs).toBe(0);
  disk.fault = undefined;
  await clock.advance(1_000);
  (await model.next()).answer({ toolUse: { name: 'count' } });
  (await model.next()).answer('Counted.');
  await shard.call('runtime.drain', { id: 0 });
  expect(runs).toBe(1);
});

test('after one resume a running tool is not answered twice, however often the device refuses', async () => {
  const started = deferred();
  const finish = deferred<string>();
  const slow = tool({
    name: 'slow',
    description: 'Slow.',
    input: z.object({}),
    effect: 'pure',
    run: () => {
      started.resolve();
      return finish.promise;
    },
  });
  const agents = [agent({ name: 'a', tools: [slow] })];
  const provider = scripted([{ toolUse: { name: 'slow' } }, 'Done.'], { clock: manualClock() }) as ModelProvider;
  const { shard, disk, clock } = shardWithDisk({ provider, agents });
  await shard.call('session.send', send('Go'));
  await started.promise;
  // A `pure` tool starts before its intent is flushed; this read waits for the flush.
  await shard.call('session.state', { session: 's' });
  disk.fault = full;
  await failure(shard.call('session.send', send('x', 'other')));
  await failure(shard.call('sessions.delete', { session: 'other' }));
  await failure(shard.call('session.pause', { session: 's' }));
  disk.fault = undefined;
  await clock.advance(5_000);
  finish.resolve('slow result');
  await shard.call('runtime.drain', { id: 0 });
  expect(shard.events.filter(({ type }) => type === 'session.recovered').length).toBe(1);
  expect(await contents(shard)).toEqual(['Go', 'Calling slow', 'slow result', 'Done.']);
});

test('closing a shard whose disk is full leaves no timer', async () => {
  const { shard, disk, clock } = shardWithDisk({ provider: echo() });
  disk.fault = full;
  await failure(shard.call('session.send', send('x')));
  await shard.close();
  expect(clock.pending).toBe(0);
});

function echo(): ModelProvider {
  return scripted((request) => `to ${String(request.messages.at(-1)?.content)}`) as ModelProvider;
}

function lastSeq(shard: TestShard): number {
  return Math.max(...shard.events.map(({ seq }) => seq ?? 0));
}

test('A2: a child counts as ended only once its end is written', async () => {
  const model = gatedModel();
  const { shard, disk, clock } = shardWithDisk({ provider: model.provider });
  const item = { task: 'Help', replies: 'handle' as const };
  await shard.call('session.spawn', { session: 's', agent: 'a', items: [item] });
  const lost = await model.next();
  const ended = shard.call('child.wait', { session: 's:1' });
  await shard.call('session.state', { session: 's:1' });
  disk.fault = full;
  lost.answer('never written');
  await eventually(() => shard.degraded.length === 1);
  disk.fault = undefined;
  await clock.advance(1_000);
  (await model.next()).answer('written');
  expect(await ended).toMatchObject({ reason: 'completed', reply: 'written' });
});

test('the events of a session are published in order, also when an interrupt reaches its children', async () => {
  const model = gatedModel();
  const { shard } = shardWithDisk({ provider: model.provider });
  await shard.call('session.send', send('Hi'));
  await model.next();
  const items = [{ task: 'Help', replies: 'mailbox' as const }];
  await shard.call('session.spawn', { session: 's', agent: 'a', items });
  await model.next();
  expect(await shard.call('session.interrupt', { session: 's' })).toBe(true);
  await eventually(() => shard.events.some(({ type }) => type === 'child.exited'));
  const told = shard.events.flatMap(({ session, seq }) => (session === 's' && seq !== undefined ? [seq] : []));
  expect(told).toEqual(told.map((_, index) => index + 1));
});
