/**
 * Goal: a thread that runs out of memory has recorded the session that it worked on. Method: a shard whose random
 * source reads that record whenever it is called.
 */
import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import { agent, tool } from '../../../src/index.ts';
import { MemoryStore } from '../../../src/journal/memory-store.ts';
import type { ModelProvider } from '../../../src/models/provider.ts';
import { SessionAtWork } from '../../../src/runtime/shard/session-at-work.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { openShard, type TestShard } from '../../support/shard-kit.ts';

let shard: TestShard | undefined;
afterEach(async () => {
  await shard?.close();
});

test('the current session is known during its transitions, and unknown afterwards', async () => {
  const sessionAtWork = new SessionAtWork();
  const store = new MemoryStore();
  const inTransitions = new Set<number>();
  shard = openShard({
    store,
    sessionAtWork,
    agents: [agent({ name: 'a' })],
    random: () => {
      inTransitions.add(sessionAtWork.key);
      return 0;
    },
    provider: scripted(() => 'Done.') as ModelProvider,
  });
  for (const session of ['s', 't']) {
    const sent = await shard.call('session.send', { session, agent: 'a', content: 'Hi' });
    await shard.call('receipt.wait', { session, ...sent, until: 'settled' });
  }
  const keys = ['s', 't'].map((session) => store.keys.get(session));
  expect([...inTransitions]).toEqual(keys);
  expect(sessionAtWork.key).toBe(0);
});

test('a session is named while its tool call starts, which is after its transition', async () => {
  const sessionAtWork = new SessionAtWork();
  const store = new MemoryStore();
  const atStart: number[] = [];
  const note = tool({ name: 'note', description: 'Notes.', input: z.object({}), effect: 'once', run: () => 'noted' });
  shard = openShard({
    store,
    sessionAtWork,
    agents: [agent({ name: 'a', tools: [note] })],
    provider: scripted(({ messages }) =>
      messages.length === 1 ? { toolUse: { name: 'note', input: {} } } : 'Done.',
    ) as ModelProvider,
    makeToolPool: (listener) => ({
      run: ({ id }) => {
        atStart.push(sessionAtWork.key);
        queueMicrotask(() => listener.finished(id, { success: true, content: 'noted', ms: 1 }));
      },
      cancel: () => undefined,
      holds: () => true,
      describe: () => Promise.resolve([]),
      close: () => Promise.resolve(),
    }),
  });
  const sent = await shard.call('session.send', { session: 's', agent: 'a', content: 'Hi' });
  await shard.call('receipt.wait', { session: 's', ...sent, until: 'settled' });
  expect(atStart).toEqual([store.keys.get('s')]);
});

test('nested work names its own session, and afterwards the outer one is named again, even after a throw', () => {
  const sessionAtWork = new SessionAtWork();
  const host = new SessionAtWork(sessionAtWork.memory);
  const seen: number[] = [];
  sessionAtWork.during(1, () => {
    expect(() =>
      sessionAtWork.during(2, () => {
        seen.push(host.key);
        throw new Error('failed');
      }),
    ).toThrow('failed');
    seen.push(host.key);
  });
  expect([...seen, host.key]).toEqual([2, 1, 0]);
});
