/** K1 and K2 of `src/journal/stored-batch.ts`, over both engines. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Engine, StoredBatch } from '../../src/journal/engine.ts';
import { EngineJournal } from '../../src/journal/engine-journal.ts';
import { openLmdbEngine } from '../../src/journal/lmdb/engine.ts';
import { createMemoryStore, openMemoryEngine } from '../../src/journal/memory-journal.ts';
import { contentsOf } from './support/engine-contents.ts';
import { removeAndErase } from './support/erase.ts';
import { temporaryDirectory } from './support/stores.ts';
import { noiseText } from './support/texts.ts';

let directory: string;
const opened: Engine[] = [];

beforeEach(async () => {
  directory = await temporaryDirectory();
});

afterEach(async () => {
  for (const engine of opened.splice(0)) await engine.close();
  await rm(directory, { recursive: true, force: true });
});

async function onDisk(name: string): Promise<Engine> {
  const engine = await openLmdbEngine({ directory: join(directory, name), durability: 'os' });
  opened.push(engine);
  return engine;
}

/** Runs a journal over `engine` that uses every table, and returns what was written, in order. */
async function written(engine: Engine): Promise<readonly StoredBatch[]> {
  const batches: StoredBatch[] = [];
  vi.spyOn(engine, 'write').mockImplementation(async (batch) => {
    const stored = await engine.pack(batch);
    batches.push(stored);
    await engine.writeStored(stored);
  });
  const journal = new EngineJournal(engine, { schedule: (run) => void setImmediate(run) });
  const keys = ['kept', 'removed', 'cut'].map((name) => journal.intern(name));
  const [kept = 0, removed = 0, cut = 0] = keys;
  const medium = JSON.stringify({ data: Buffer.alloc(9_000, 7).toString('base64') });
  for (let round = 0; round < 6; round += 1) {
    journal.append(keys.map((key) => ({ key, data: JSON.stringify(noiseText(3_000, round * 10 + key)) })));
    await journal.flushed();
  }
  journal.append([{ key: removed, data: medium }]);
  const end = journal.append([{ key: kept, data: medium }]);
  await journal.flushed();
  journal.drafts.put(kept, 'é');
  journal.drafts.put(kept, '');
  const address = journal.putBlob('a'.repeat(5_000), kept);
  const outdated = journal.putBlob('outdated');
  await journal.flushed();
  journal.checkpoint([{ key: kept, position: end, data: '{}', runnable: true }], end, [outdated]);
  await journal.flushed();
  expect(journal.blob(address)).toBe('a'.repeat(5_000));
  await removeAndErase(journal, [removed, cut]);
  return batches;
}

test('K1: what one engine packed, each engine can write, and then reads the same', async () => {
  const disk = await onDisk('first');
  const ofDisk = await written(disk);
  const memory = openMemoryEngine({ store: createMemoryStore() });
  const ofMemory = await written(memory);
  expect(contentsOf(memory)).toEqual(contentsOf(disk));
  expect(ofDisk.length).toBeGreaterThan(8);
  const copies = [await onDisk('disk-to-disk'), openMemoryEngine()];
  for (const copy of copies) for (const stored of ofDisk) await copy.writeStored(stored);
  const others = [await onDisk('memory-to-disk'), openMemoryEngine()];
  for (const copy of others) for (const stored of ofMemory) await copy.writeStored(stored);
  for (const copy of [...copies, ...others]) expect(contentsOf(copy)).toEqual(contentsOf(disk));
});

test('K2: a commit is written with its number, which a later open reads; another number is refused', async () => {
  const first = await onDisk('store');
  const batches = await written(first);
  expect(batches.map(({ state }) => state.commit)).toEqual(batches.map((_, index) => index + 1));
  const last = batches.at(-1);
  if (last === undefined) throw new Error('the journal wrote nothing');
  const memory = openMemoryEngine();
  for (const engine of [first, memory]) {
    const next = engine.state().commit + 1;
    for (const commit of [next - 1, next + 1]) {
      const wrong = { ...last, state: { ...last.state, commit } };
      await expect(engine.writeStored(wrong)).rejects.toThrow(`K2: commit ${commit} does not follow`);
    }
    expect(engine.state().commit).toBe(next - 1);
  }
  await first.close();
  const again = await onDisk('store');
  expect(again.state()).toEqual(last.state);
  await again.reopen();
  expect(again.state()).toEqual(last.state);
});
