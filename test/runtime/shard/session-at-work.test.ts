/**
 * Goal: a thread that runs out of memory left behind the session that it worked on. Method: a shard whose randomness looks at what is
 * in hand when it is asked.
 */
import { afterEach, expect, test } from 'vitest';
import { agent } from '../../../src/index.ts';
import { MemoryStore } from '../../../src/journal/memory-journal.ts';
import type { ModelProvider } from '../../../src/models/provider.ts';
import { SessionAtWork } from '../../../src/runtime/shard/session-at-work.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { openShard, type TestShard } from '../../support/shard-kit.ts';

let shard: TestShard | undefined;
afterEach(async () => {
  await shard?.close();
});

test('a session is in hand during its transitions, and none is afterwards', async () => {
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

test('work within work names its own session, and the outer one is named again, also after a throw', () => {
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
