/**
 * Goal: the bytes that the host encodes and writes in one tick are bounded. Method: the test runs the ticks of the
 * loop, and small budgets.
 */
import { expect, test } from 'vitest';
import { LOOP_YIELDS_MAX } from '../../src/base/bounds.ts';
import { EncodedEvents } from '../../src/server/encoded-events.ts';
import { LoopBudget } from '../../src/server/loop-budget.ts';

/** A loop whose ticks the test runs. */
function loop(bytesMax: number) {
  let scheduled: (() => void)[] = [];
  const budget = new LoopBudget(bytesMax, (run) => void scheduled.push(run));
  return {
    budget,
    isScheduled: () => scheduled.length > 0,
    async turn() {
      const now = scheduled;
      scheduled = [];
      for (const run of now) run();
      await Promise.resolve();
    },
  };
}

test('B1, B2: a tick grants the work that fits, later work waits in order, and a piece that is too large gets its own tick', async () => {
  const { budget, turn } = loop(10);
  const granted: string[] = [];
  const take = (name: string, bytes: number): void => {
    const later = budget.take(bytes);
    if (later === undefined) granted.push(name);
    else void later.then(() => granted.push(name));
  };
  take('a', 6);
  take('b', 6);
  take('small, behind b', 1);
  take('large', 50);
  take('last', 1);
  expect(granted).toEqual(['a']);
  await turn();
  expect(granted).toEqual(['a', 'b', 'small, behind b']);
  await turn();
  expect(granted.slice(3)).toEqual(['large']);
  take('asked late', 1);
  await turn();
  expect(granted.slice(4)).toEqual(['last', 'asked late']);
});

test('B3: a budget that granted nothing in a tick schedules no further tick', async () => {
  const { budget, turn, isScheduled } = loop(10);
  expect(isScheduled()).toBe(false);
  expect(budget.take(4)).toBeUndefined();
  await turn();
  expect(isScheduled()).toBe(false);
  expect(budget.take(10)).toBeUndefined();
});

test('B4: a tick that accepted a connection grants nothing; a flood of connections cannot stop the work', async () => {
  const { budget, turn, isScheduled } = loop(10);
  let granted = 0;
  const take = (): void => void budget.take(10)?.then(() => (granted += 1));
  budget.yieldTick();
  take();
  await turn();
  expect(granted).toBe(0);
  await turn();
  expect(granted).toBe(1);
  take();
  let ticks = 0;
  for (; granted === 1 && ticks < 10 * LOOP_YIELDS_MAX; ticks += 1) {
    budget.yieldTick();
    await turn();
  }
  expect(ticks).toBe(LOOP_YIELDS_MAX + 1);
  await turn();
  expect(isScheduled()).toBe(false);
  expect(budget.take(10)).toBeUndefined();
});

test('K3: large events are encoded in ticks with room; a small or encoded event does not wait', async () => {
  const { budget, turn } = loop(100_000);
  const encoded = new EncodedEvents(1_000_000, budget);
  const event = (seq: number, size: number) =>
    ({ session: 's', at: 0, seq, type: 'bounce_back', content: 'x'.repeat(size), entries: [] }) as never;
  const [first, second, small] = [event(1, 80_000), event(2, 80_000), event(3, 10)];
  expect(encoded.inTick(first, 'debug')).toBeInstanceOf(Uint8Array);
  const waits = encoded.inTick(second, 'debug');
  expect(waits).toBeInstanceOf(Promise);
  expect(encoded.inTick(first, 'debug')).toBeInstanceOf(Uint8Array);
  expect(encoded.inTick(small, 'debug')).toBeInstanceOf(Uint8Array);
  await turn();
  expect(await waits).toBe(encoded.bytesOf(second, 'debug'));
  expect(encoded.inTick(second, 'debug')).toBe(await waits);
});
