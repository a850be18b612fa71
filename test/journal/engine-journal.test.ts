/**
 * Goal: large data that waits for a flush is not held as text on the heap. Method: the batch that the engine is given
 * to write.
 */
import { rm } from 'node:fs/promises';
import { afterEach, expect, test, vi } from 'vitest';
import { ROW_TURN_HELD_BYTES_MIN } from '../../src/base/bounds.ts';
import { EngineJournal } from '../../src/journal/engine-journal.ts';
import { openLmdbEngine } from '../../src/journal/lmdb/engine.ts';
import { temporaryDirectory } from './support/stores.ts';

let directory: string | undefined;
afterEach(async () => {
  if (directory !== undefined) await rm(directory, { recursive: true, force: true });
});

test('a large turn waits for its flush as bytes, a small one as text, and both are read meanwhile', async () => {
  directory = await temporaryDirectory();
  const engine = await openLmdbEngine({ directory, durability: 'os' });
  const write = vi.spyOn(engine, 'write');
  const journal = new EngineJournal(engine, { schedule: (run) => void setImmediate(run) });
  const key = journal.intern('s');
  const texts = ['small', 'l'.repeat(ROW_TURN_HELD_BYTES_MIN), 'é'.repeat(ROW_TURN_HELD_BYTES_MIN)].map((text) =>
    JSON.stringify(text),
  );
  const positions = texts.map((data) => journal.append([{ key, data }]));
  expect(positions.map((position) => journal.entry(key, position)?.data)).toEqual(texts);
  const flushed = journal.flushed();
  await vi.waitFor(() => expect(write).toHaveBeenCalled());
  const held = write.mock.calls.flatMap(([{ rows }]) => rows.flatMap(({ entries }) => entries));
  expect(held.map(({ data }) => (typeof data === 'string' ? 'text' : 'bytes'))).toEqual(['text', 'bytes', 'bytes']);
  await flushed;
  expect(positions.map((position) => journal.entry(key, position)?.data)).toEqual(texts);
  await journal.close();
});
