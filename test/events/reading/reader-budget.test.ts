/**
 * Goal: M1 to M3 of the budget of all readers. Method: queues whose log is an array, and a small budget.
 */
import { expect, test } from 'vitest';
import { READERS_BYTES_MAX } from '../../../src/base/bounds.ts';
import type { SessionEvent } from '../../../src/events/event.ts';
import { charactersOf } from '../../../src/events/reading/event-buffer.ts';
import { EventQueue } from '../../../src/events/reading/event-queue.ts';
import { ReaderBudget } from '../../../src/events/reading/reader-budget.ts';
import { replayOf, settled, short, take } from '../packing/event-samples.ts';

const now = (): number => 0;
const large = (seq: number, session = 's'): SessionEvent => ({
  session,
  at: 0,
  seq,
  type: 'session.name',
  name: `${seq} ${'x'.repeat(9_000)}`,
});
const log = Array.from({ length: 40 }, (_, index) => large(index + 1));
const bytes = charactersOf(large(1));

test('M1: the reader that holds most gives up its events first, and still reads every event', async () => {
  const budget = new ReaderBudget(bytes * 10);
  const slow = new EventQueue({ session: 's', replay: replayOf(log), now, budget });
  const quick = new EventQueue({ session: 's', replay: replayOf(log), now, budget });
  const seen: string[] = [];
  for (const event of log) {
    slow.push(event);
    quick.push(event);
    seen.push(...(await take(quick, 1)));
    expect(budget.held).toBeLessThanOrEqual(bytes * 10);
  }
  expect(seen).toEqual(log.map(short));
  // The buffer was given up once while it filled, and again for the page of the log.
  const late = (await take(slow, 42)).filter((word) => !word.startsWith('gap'));
  expect(late).toEqual(log.map(short));
});

test('M1: the default budget is READERS_BYTES_MAX', () => {
  const budget = new ReaderBudget();
  const reader = {
    held: 0,
    giveUp(): void {
      const before = reader.held;
      reader.held = 0;
      budget.changed(reader, before, 0);
    },
  };
  const grow = (bytes: number): void => {
    const before = reader.held;
    reader.held += bytes;
    budget.changed(reader, before, reader.held);
  };
  grow(READERS_BYTES_MAX);
  expect(budget.held).toBe(READERS_BYTES_MAX);
  grow(1);
  expect(budget.held).toBe(0);
});

test('M3: a log page that a reader gave up is read again, without a gap', async () => {
  const budget = new ReaderBudget(bytes * 15);
  const open = (): EventQueue =>
    new EventQueue({ session: 's', after: 0, replay: (from) => replayOf(log)(from, 10), now, budget });
  const readers = [open(), open(), open()];
  for (const reader of readers) expect(await take(reader, 1)).toEqual(['1']);
  expect(budget.held).toBeLessThanOrEqual(bytes * 15);
  for (const reader of readers) expect(await take(reader, 39)).toEqual(log.slice(1).map(short));
  await settled();
});

test('M2: shared data is counted once, and is freed with its last holder', () => {
  const budget = new ReaderBudget(1_000_000);
  const thing = {};
  const readers = Array.from({ length: 3 }, () => ({ held: 10_000, giveUp: () => undefined }));
  for (const reader of readers) budget.hold(reader, thing, 10_000);
  expect(budget.held).toBe(10_000);
  for (const reader of readers) budget.release(reader, thing, 10_000);
  expect(budget.held).toBe(0);
});

test('readers that end, are ended, or are never read to their end leave nothing behind', async () => {
  const budget = new ReaderBudget();
  const [broken, aborted, abandoned] = Array.from({ length: 3 }, () => {
    const stop = new AbortController();
    const queue = new EventQueue({ session: 's', replay: replayOf([]), now, budget, signal: stop.signal });
    for (const event of log) queue.push(event);
    return { queue, stop };
  });
  expect(budget.held).toBe(3 * log.length * bytes + 3 * 31);
  await broken?.queue.return();
  aborted?.stop.abort();
  abandoned?.queue.close();
  expect(budget.held).toBe(0);
  expect(await take(abandoned?.queue ?? broken?.queue ?? ([][Symbol.iterator]() as never), 50)).toHaveLength(40);
  expect(budget.held).toBe(0);
});
