import { rm } from 'node:fs/promises';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openLmdbJournal } from '../../../src/journal/lmdb/journal.ts';
import { temporaryDirectory } from '../support/stores.ts';

interface Note {
  readonly fence?: number;
  readonly found?: number;
  readonly durable?: number;
}

let directory: string;

beforeEach(async () => {
  directory = await temporaryDirectory();
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

/** Runs a thread until it has acknowledged `acknowledgements` times, and ends it in the middle of its work. */
async function runAndEnd(callers: number, acknowledgements: number): Promise<Note & { last: number }> {
  const worker = new Worker(new URL('../support/journal-thread.ts', import.meta.url), {
    workerData: { directory, callers },
  });
  let start: Note = {};
  let last = -1;
  let count = 0;
  await new Promise<void>((resolve, reject) => {
    worker.on('error', reject);
    worker.on('message', (note: Note) => {
      if (note.fence !== undefined) start = note;
      if (note.durable === undefined) return;
      last = Math.max(last, note.durable);
      count += 1;
      if (count === acknowledgements) resolve();
    });
  });
  const exited = new Promise((resolve) => worker.once('exit', resolve));
  worker.postMessage('exit');
  await exited;
  return { ...start, last };
}

// The thread ends by itself, as `Thread.exit` does. A terminate inside the addon can end the whole process.
test('a thread that owns a journal ends in the middle of a write, and the next one continues, 6 times', async () => {
  let fence = 0;
  let last = -1;
  for (let round = 0; round < 6; round += 1) {
    const callers = [1, 3, 200][round % 3] ?? 1;
    const run = await runAndEnd(callers, 1 + round * 7);
    expect(run.fence).toBeGreaterThan(fence);
    expect(run.found).toBeGreaterThan(last);
    fence = run.fence ?? 0;
    last = run.last;
  }
  const journal = await openLmdbJournal({ directory, durability: 'flush' });
  expect(journal.fence).toBeGreaterThan(fence);
  const numbers = [...journal.read(journal.keyOf('a') ?? 0, 0)].map(
    (entry) => (JSON.parse(entry.data) as { number: number }).number,
  );
  expect(numbers.length).toBeGreaterThan(last);
  expect(numbers).toEqual(Array.from({ length: numbers.length }, (_, number) => number));
  await journal.close();
});

test('J5: a previous owner that still runs on another thread is fenced off by the next owner', async () => {
  const worker = new Worker(new URL('../support/journal-thread.ts', import.meta.url), {
    workerData: { directory, callers: 2 },
  });
  const failed = new Promise<Error>((resolve) => worker.once('error', resolve));
  await new Promise<void>((resolve) => worker.on('message', (note: Note) => note.durable === 5 && resolve()));
  const journal = await openLmdbJournal({ directory, durability: 'flush' });
  expect(await failed).toMatchObject({ message: expect.stringContaining('another owner') });
  const key = journal.keyOf('a') ?? 0;
  const found = [...journal.read(key, 0)].length;
  expect(found).toBeGreaterThan(5);
  journal.append([{ key, data: '1' }]);
  await journal.flushed();
  expect([...journal.read(key, 0)]).toHaveLength(found + 1);
  await journal.close();
});
