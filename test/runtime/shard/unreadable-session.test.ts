/** Goal: a session whose log cannot be read stops no other session. */
import { expect, test } from 'vitest';
import { SESSION_IDLE_MS } from '../../../src/base/bounds.ts';
import { agent } from '../../../src/index.ts';
import { MemoryStore } from '../../../src/journal/memory-store.ts';
import type { ModelProvider } from '../../../src/models/provider.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { failure } from '../../support/runtime-kit.ts';
import { openShard } from '../../support/shard-kit.ts';

test('A10: a session that left memory while it waited for admission, and cannot be read then, stops no other one', async () => {
  let answer = (): void => undefined;
  const asked: string[] = [];
  const provider = scripted(async ({ messages }) => {
    asked.push(JSON.stringify(messages.at(-1)));
    if (asked.length === 1) await new Promise<void>((resolve) => (answer = resolve));
    return 'Done.';
  }) as ModelProvider;
  const store = new MemoryStore();
  const clock = manualClock();
  const shard = openShard({ agents: [agent({ name: 'a' })], provider, store, clock, limits: { liveSessions: 1 } });
  const send = (session: string) => shard.call('session.send', { session, agent: 'a', content: session });
  const working = await send('working');
  await send('damaged');
  const row = store.state.lastRow;
  const waiting = await send('waiting');
  expect(asked).toHaveLength(1);
  await clock.advance(2 * SESSION_IDLE_MS);
  expect(shard.stateOf('damaged')).toBeUndefined();
  const bytes = Buffer.from(store.rows.get(row) ?? '');
  bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 1, bytes.length - 1);
  store.rows.set(row, bytes);
  answer();
  for (const [session, receipt] of [
    ['working', working],
    ['waiting', waiting],
  ] as const)
    await shard.call('receipt.wait', { session, ...receipt, until: 'settled' });
  expect(asked).toHaveLength(2);
  expect(await failure(shard.call('session.messages', { session: 'damaged' }))).toMatchObject({
    code: 'store_corrupt',
  });
  await shard.close();
});
