import { expect, test } from 'vitest';
import { FLUSH_PATIENCE_MS } from '../../../src/base/bounds.ts';
import { soon } from '../../../src/base/clock.ts';
import { type CommitItem, CommitQueue } from '../../../src/runtime/shard/commit-queue.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { eventually, queue } from '../../support/runtime-kit.ts';

interface Flush {
  resolve(): void;
  reject(error: Error): void;
}

function stage() {
  const flushes = queue<Flush>();
  const told: string[] = [];
  const clock = manualClock();
  const commits = new CommitQueue({
    flushed: () => new Promise((resolve, reject) => flushes.put({ resolve, reject })),
    failed: (error) => void told.push(`failed ${error.message}`),
    threw: (thrown) => void told.push(`threw ${String(thrown)}`),
    emptied: () => void told.push('emptied'),
    soon,
    clock,
  });
  const itemOf = (name: string, act?: () => void): CommitItem => ({
    release: () => {
      told.push(name);
      act?.();
    },
    refuse: (error) => void told.push(`${name} refused: ${error.message}`),
  });
  const add = (name: string, act?: () => void): void => commits.add(itemOf(name, act));
  const addDeferrable = (name: string): void => commits.add(itemOf(name), true);
  return { commits, flushes, told, clock, add, addDeferrable };
}

test('Q1, Q2: items are released in order; items added during a flush wait for the next flush', async () => {
  const { commits, flushes, told, add } = stage();
  add('a');
  add('b');
  const first = await flushes.take();
  add('c');
  expect(told).toEqual([]);
  first.resolve();
  const second = await flushes.take();
  expect(told).toEqual(['a', 'b']);
  expect(commits.isEmpty).toBe(false);
  second.resolve();
  await eventually(() => commits.isEmpty);
  expect(told).toEqual(['a', 'b', 'c', 'emptied']);
});

test('a failed flush refuses its items and those added meanwhile, once; later items are flushed', async () => {
  const { commits, flushes, told, add } = stage();
  add('a');
  const first = await flushes.take();
  add('b');
  first.reject(new Error('full'));
  await eventually(() => commits.isEmpty);
  expect(told).toEqual(['failed full', 'a refused: full', 'b refused: full', 'emptied']);
  add('c');
  (await flushes.take()).resolve();
  await eventually(() => commits.isEmpty);
  expect(told.at(-2)).toBe('c');
});

test('Q4: an item that throws is reported, fails no flush, and stops no other item', async () => {
  const { commits, flushes, told, add } = stage();
  add('a', () => {
    throw new Error('mine');
  });
  add('b');
  (await flushes.take()).resolve();
  await eventually(() => commits.isEmpty);
  expect(told).toEqual(['a', 'threw Error: mine', 'b', 'emptied']);
});

test('an item added by another waits for a separate flush', async () => {
  const { commits, flushes, told, add } = stage();
  add('a', () => add('b'));
  (await flushes.take()).resolve();
  const second = await flushes.take();
  expect(told).toEqual(['a']);
  second.resolve();
  await eventually(() => commits.isEmpty);
  expect(told).toEqual(['a', 'b', 'emptied']);
});

test('Q5: a deferrable item joins the next flush, in its order', async () => {
  const { commits, flushes, told, clock, add, addDeferrable } = stage();
  addDeferrable('a');
  addDeferrable('b');
  add('c');
  expect(clock.pending).toBe(0);
  const first = await flushes.take();
  addDeferrable('d');
  first.resolve();
  await eventually(() => told.length === 3);
  expect(told).toEqual(['a', 'b', 'c']);
  expect(commits.isEmpty).toBe(false);
  add('e');
  (await flushes.take()).resolve();
  await eventually(() => commits.isEmpty);
  expect(told).toEqual(['a', 'b', 'c', 'd', 'e', 'emptied']);
  expect(clock.pending).toBe(0);
});

test('Q5: a deferrable item waits until its time is over, or until the queue must flush at once', async () => {
  const { commits, flushes, told, clock, addDeferrable } = stage();
  addDeferrable('a');
  await clock.advance(FLUSH_PATIENCE_MS - 1);
  expect(told).toEqual([]);
  await clock.advance(1);
  (await flushes.take()).resolve();
  await eventually(() => commits.isEmpty);
  addDeferrable('b');
  commits.hurry();
  (await flushes.take()).resolve();
  await eventually(() => commits.isEmpty);
  expect(told).toEqual(['a', 'emptied', 'b', 'emptied']);
});
