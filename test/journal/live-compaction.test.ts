/** M1 to M4 of `src/journal/live-compaction.ts`, and Y1 to Y3 of `src/journal/lmdb/live-copy.ts`, over both engines. */
import fs from 'node:fs';
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { setImmediate as nextTick } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { COMPACT_KEPT_BYTES_MAX } from '../../src/base/bounds.ts';
import { CancelledError, LimitError } from '../../src/base/errors.ts';
import type { CompactionResult, Engine } from '../../src/journal/engine.ts';
import { EngineJournal } from '../../src/journal/engine-journal.ts';
import { LiveCompaction } from '../../src/journal/live-compaction.ts';
import { openLmdbEngine } from '../../src/journal/lmdb/engine.ts';
import { checkLmdbFile } from '../../src/journal/lmdb/file.ts';
import { openLmdbJournal } from '../../src/journal/lmdb/journal.ts';
import { createMemoryStore, type DeviceOperation, openMemoryEngine } from '../../src/journal/memory-journal.ts';
import type { SessionKey } from '../../src/journal/position.ts';
import { SeededRandom } from '../../src/testing/simulation/seeded-random.ts';
import { startChild } from '../support/children.ts';
import { contentsOf } from './support/engine-contents.ts';
import { removeAndErase } from './support/erase.ts';
import { temporaryDirectory } from './support/stores.ts';
import { noiseText } from './support/texts.ts';

const CANARY = 'canary-live-31';
let directory: string;
const opened: Engine[] = [];

beforeEach(async () => {
  directory = await temporaryDirectory();
});

afterEach(async () => {
  vi.restoreAllMocks();
  syncBuiltinESMExports();
  for (const engine of opened.splice(0)) await engine.close();
  await rm(directory, { recursive: true, force: true });
});

async function onDisk(durability: 'flush' | 'os' = 'os'): Promise<Engine> {
  const engine = await openLmdbEngine({ directory, durability });
  opened.push(engine);
  return engine;
}

/** A device whose operations take some ticks. */
async function later({ commit }: DeviceOperation): Promise<void> {
  for (let tick = 0; tick < 3; tick += 1) await nextTick();
  commit();
}

/** An engine, and one in memory that has every commit of it. */
function mirrored(engine: Engine): Engine {
  const mirror = openMemoryEngine();
  vi.spyOn(engine, 'write').mockImplementation(async (batch) => {
    const stored = await engine.pack(batch);
    await engine.writeStored(stored);
    await mirror.writeStored(stored);
  });
  return mirror;
}

function journalOf(engine: Engine): EngineJournal {
  return new EngineJournal(engine, { schedule: (run) => void setImmediate(run) });
}

/** One random change of a journal. */
function change(journal: EngineJournal, random: SeededRandom, sessions: Map<string, SessionKey>): void {
  const name = `s${random.between(0, 12)}`;
  const key = journal.keyOf(name) ?? journal.intern(name);
  sessions.set(name, key);
  const kind = random.between(0, 10);
  if (kind < 7) {
    const data = JSON.stringify(noiseText(random.between(1, 9_000), `${name} ${random.number()}`));
    journal.append([{ key, data }]);
    return;
  }
  if (kind === 7) journal.drafts.put(key, noiseText(random.between(1, 3_000), random.number()));
  else if (kind === 8) {
    const position = journal.append([{ key, data: '"head"' }]);
    journal.checkpoint([{ key, position, data: noiseText(2_000, random.number()), runnable: true }], position);
  } else {
    journal.remove([key]);
    sessions.delete(name);
  }
}

describe.each(['disk', 'memory'] as const)('an engine on %s', (place) => {
  test('M1: commits at any moment of a compaction are there afterwards, and after the next open', async () => {
    const store = createMemoryStore();
    const reopen = async (): Promise<Engine> =>
      place === 'disk' ? onDisk() : openMemoryEngine({ store, device: later });
    const engine = await reopen();
    const mirror = mirrored(engine);
    const journal = journalOf(engine);
    const random = new SeededRandom(20_261_126);
    const sessions = new Map<string, SessionKey>();
    let [compactions, during] = [0, 0];
    while (compactions < 10) {
      let result: CompactionResult | undefined;
      const running = journal.compaction.run().then((found) => {
        result = found;
      });
      const changes = random.between(0, 40);
      for (let index = 0; index < changes; index += 1) {
        change(journal, random, sessions);
        if (random.chance(0.5)) await journal.flushed();
        if (random.chance(0.2)) journal.eraseSome();
        if (random.chance(0.1)) journal.erased(journal.erasable());
        if (random.chance(0.3)) await nextTick();
        if (result === undefined) during += 1;
      }
      await running;
      await journal.flushed();
      compactions += 1;
      expect(contentsOf(engine), `compaction ${compactions}`).toEqual(contentsOf(mirror));
    }
    expect(during).toBeGreaterThan(25);
    await journal.close();
    opened.length = 0;
    if (place === 'disk') {
      await checkLmdbFile(join(directory, 'data.mdb'));
      expect((await readdir(directory)).sort()).toEqual(['data.mdb', 'lock.mdb']);
    }
    expect(contentsOf(await reopen())).toEqual(contentsOf(mirror));
  }, 60_000);

  test('M4: a compaction is owed from the end of an erasure until a snapshot that has it, over an open', async () => {
    const store = createMemoryStore();
    store.freedRows = [];
    const reopen = async (): Promise<Engine> => (place === 'disk' ? onDisk() : openMemoryEngine({ store }));
    const first = journalOf(await reopen());
    const key = first.intern('gone');
    first.append([{ key, data: '"text"' }]);
    await first.flushed();
    await first.compaction.run();
    expect(first.compaction.isOwed).toBe(false);
    first.remove([key]);
    await first.flushed();
    expect(first.compaction.isOwed).toBe(false);
    expect(first.eraseSome()).toBe(true);
    await first.flushed();
    expect(first.compaction.isOwed).toBe(true);
    await first.close();
    opened.length = 0;
    const second = journalOf(await reopen());
    expect(second.compaction.isOwed).toBe(true);
    await second.compaction.run();
    expect(second.compaction.isOwed).toBe(false);
    // The note of the deleted session has its name.
    second.erased([key]);
    await second.flushed();
    expect(second.compaction.isOwed).toBe(true);
    await second.compaction.run();
    await second.close();
    opened.length = 0;
    const third = journalOf(await reopen());
    expect(third.compaction.isOwed).toBe(false);
    await third.close();
    opened.length = 0;
  });

  test('M3: at a reopening and at a close a compaction ends, and the store is as before', async () => {
    const engine = place === 'disk' ? await onDisk() : openMemoryEngine({ device: later });
    const mirror = mirrored(engine);
    const journal = journalOf(engine);
    journal.append([{ key: journal.intern('s'), data: '"text"' }]);
    await journal.flushed();
    const reopened = journal.compaction.run().catch((error: unknown) => error);
    await engine.reopen();
    expect(await reopened).toBeInstanceOf(CancelledError);
    expect(contentsOf(engine)).toEqual(contentsOf(mirror));
    const closed = journal.compaction.run().catch((error: unknown) => error);
    await journal.close();
    opened.length = 0;
    expect(await closed).toBeInstanceOf(CancelledError);
  });
});

describe('with a copy that the test controls', () => {
  /** A compaction, the steps of its copy, and a batch of so many bytes for its engine. */
  function controlled() {
    const steps: string[] = [];
    let commit = 0;
    const waits = new Map<string, () => void>();
    const step = async (name: string): Promise<void> => {
      steps.push(name);
      if (held.has(name)) await new Promise<void>((resolve) => waits.set(name, resolve));
    };
    const held = new Set<string>();
    const state = () => ({ ...openMemoryEngine().state(), commit });
    const compaction = new LiveCompaction({
      state,
      keepsRemoved: () => true,
      use: () => ({ bytes: 0, freeBytes: 0 }),
      copy: async () => ({
        commit: 0,
        apply: (changes) => step(changes.map(({ key }) => key).join(',')),
        sync: () => step('sync'),
        replace: async () => {
          await step('replace');
          return 1;
        },
        discard: () => step('discard'),
      }),
    });
    const write = (bytes: number): void => {
      commit += 1;
      compaction.writing();
      const value = Buffer.alloc(bytes);
      compaction.wrote({ state: state(), changes: [{ table: 'log', key: commit, value }], bytes });
    };
    return { compaction, steps, write, held, go: (name: string) => waits.get(name)?.() };
  }

  test('M3: more commits than are kept end a compaction, and its copy is discarded', async () => {
    const { compaction, steps, write, held, go } = controlled();
    held.add('compacted');
    const running = compaction.run();
    await vi.waitFor(() => expect(steps).toEqual(['compacted']));
    for (let bytes = 0; bytes <= COMPACT_KEPT_BYTES_MAX; bytes += 1_000_000) write(1_000_000);
    go('compacted');
    await expect(running).rejects.toBeInstanceOf(LimitError);
    expect(steps).toEqual(['compacted', 'discard']);
    expect(compaction.hold).toBeUndefined();
  });

  test('M3: a refused write ends a compaction', async () => {
    const { compaction, steps, held, go } = controlled();
    held.add('compacted');
    const running = compaction.run();
    await vi.waitFor(() => expect(steps).toEqual(['compacted']));
    compaction.writing();
    compaction.wrote(undefined);
    go('compacted');
    await expect(running).rejects.toBeInstanceOf(CancelledError);
    expect(steps.at(-1)).toBe('discard');
  });

  test('M1: a write in flight is waited for, its batch is in the copy, and later writes wait for the replacement', async () => {
    const { compaction, steps, write, held, go } = controlled();
    held.add('sync');
    const running = compaction.run();
    await vi.waitFor(() => expect(steps).toContain('sync'));
    held.delete('sync');
    held.add('replace');
    expect(compaction.hold).toBeUndefined();
    compaction.writing();
    go('sync');
    await vi.waitFor(() => expect(compaction.hold).toBeDefined());
    const order: string[] = [];
    const later = compaction.hold?.then(() => order.push('a later write'));
    write(10);
    await vi.waitFor(() => expect(steps).toContain('replace'));
    expect(steps).toEqual(['compacted', 'sync', '1', 'sync', 'replace']);
    expect(order).toEqual([]);
    go('replace');
    await running;
    await later;
    expect(order).toEqual(['a later write']);
    expect(compaction.hold).toBeUndefined();
  });
});

test('M1: after a compaction no byte that was removed before it is in the file, which is small', async () => {
  const journal = journalOf(await onDisk());
  const [kept, gone] = [journal.intern('kept'), journal.intern(`gone-${CANARY}`)];
  for (let turn = 0; turn < 40; turn += 1) {
    journal.append([{ key: gone, data: JSON.stringify({ CANARY, noise: noiseText(100_000, turn) }) }]);
    journal.append([{ key: kept, data: JSON.stringify(`kept ${turn}`) }]);
    await journal.flushed();
  }
  journal.drafts.put(gone, JSON.stringify(CANARY));
  await journal.flushed();
  await removeAndErase(journal, [gone]);
  const path = join(directory, 'data.mdb');
  const before = (await stat(path)).size;
  expect((await readFile(path)).includes(CANARY)).toBe(true);
  const { bytesBefore, bytes } = await journal.compaction.run();
  expect((await readFile(path)).includes(CANARY)).toBe(false);
  expect(bytesBefore).toBeLessThanOrEqual(before);
  expect(bytes).toBeLessThanOrEqual((await stat(path)).size);
  expect((await stat(path)).size).toBeLessThan(before / 2);
  expect([...journal.read(kept, 0)]).toHaveLength(40);
});

test('a copy for a backup that a compaction falls into is whole, and the next one is made again', async () => {
  const journal = journalOf(await onDisk());
  const key = journal.intern('s');
  for (let turn = 0; turn < 20; turn += 1) {
    journal.append([{ key, data: JSON.stringify(noiseText(500_000, turn)) }]);
    await journal.flushed();
  }
  const [first, second] = [join(directory, 'first'), join(directory, 'second')];
  await mkdir(first);
  await mkdir(second);
  const [made] = await Promise.all([journal.copyTo?.(first), journal.compaction.run(), journal.compaction.use()]);
  const again = await journal.copyTo?.(second, made?.mark);
  expect(again?.bytes).toBeGreaterThan(0);
  for (const path of [first, second]) {
    await checkLmdbFile(join(path, 'data.mdb'));
    const copied = await openLmdbJournal({ directory: path, durability: 'os' });
    expect([...copied.read(copied.keyOf('s') ?? 0, 0)]).toHaveLength(20);
    await copied.close();
  }
});

/** A system error. */
function failing(code: string): Error {
  return Object.assign(new Error(`${code}: planted by the test`), { code });
}

/** A journal on disk with one entry, and the number of its file. */
async function withEntry(): Promise<{ readonly journal: EngineJournal; readonly ino: number }> {
  const journal = journalOf(await onDisk('flush'));
  journal.append([{ key: journal.intern('s'), data: '"one"' }]);
  await journal.flushed();
  return { journal, ino: (await stat(join(directory, 'data.mdb'))).ino };
}

/** Appends an entry, and expects it and the first one, also after the next open. */
async function takesWrites(journal: EngineJournal): Promise<void> {
  const key = journal.intern('s');
  journal.append([{ key, data: '"two"' }]);
  await journal.flushed();
  await journal.close();
  opened.length = 0;
  const again = journalOf(await onDisk('flush'));
  expect([...again.read(again.keyOf('s') ?? 0, 0)].map(({ data }) => data)).toEqual(['"one"', '"two"']);
  expect(await readdir(directory)).not.toContain('compacting');
}

test('M3: without space for the copy nothing is written, and the store is as before', async () => {
  const { journal, ino } = await withEntry();
  const real = await fs.promises.statfs(directory);
  const wanted = vi.spyOn(fs.promises, 'statfs').mockResolvedValue({ ...real, bavail: 1_000 } as fs.StatsFs);
  syncBuiltinESMExports();
  await expect(journal.compaction.run()).rejects.toMatchObject({ code: 'store_full', data: { reason: 'ENOSPC' } });
  expect(wanted).toHaveBeenCalled();
  expect(await readdir(directory)).not.toContain('compacting');
  expect((await stat(join(directory, 'data.mdb'))).ino).toBe(ino);
  await takesWrites(journal);
});

test.each(['lock.mdb', 'data.mdb'])('M2: if the rename of %s fails, the store is as before', async (name) => {
  const { journal, ino } = await withEntry();
  const rename = fs.renameSync;
  vi.spyOn(fs, 'renameSync').mockImplementation((from, to) => {
    if (String(to) === join(directory, name)) throw failing('EIO');
    rename(from, to);
  });
  syncBuiltinESMExports();
  await expect(journal.compaction.run()).rejects.toMatchObject({ code: 'store_full', data: { reason: 'EIO' } });
  vi.restoreAllMocks();
  syncBuiltinESMExports();
  expect((await stat(join(directory, 'data.mdb'))).ino).toBe(ino);
  await takesWrites(journal);
});

test('M2: no commit in the new file is acknowledged before the name of the file is durable', async () => {
  const { journal, ino } = await withEntry();
  await journal.compaction.run();
  expect((await stat(join(directory, 'data.mdb'))).ino).not.toBe(ino);
  const real = fs.promises.open;
  let syncs = 0;
  vi.spyOn(fs.promises, 'open').mockImplementation(async (path, ...rest) => {
    if (String(path) === directory) {
      syncs += 1;
      throw failing('EIO');
    }
    return real(path, ...rest);
  });
  syncBuiltinESMExports();
  journal.append([{ key: journal.intern('s'), data: '"lost"' }]);
  await expect(journal.flushed()).rejects.toMatchObject({ code: 'store_full' });
  expect(syncs).toBe(1);
  vi.restoreAllMocks();
  syncBuiltinESMExports();
  await journal.recover();
  await takesWrites(journal);
});

test('Y2: a compaction of an owner that was fenced off replaces nothing', async () => {
  const first = await onDisk();
  const batch = await (async () => {
    const journal = journalOf(first);
    journal.append([{ key: journal.intern('s'), data: '"one"' }]);
    await journal.flushed();
    return journal;
  })();
  await onDisk();
  const { ino } = await stat(join(directory, 'data.mdb'));
  await expect(batch.compaction.run()).rejects.toMatchObject({ code: 'store_locked' });
  expect((await stat(join(directory, 'data.mdb'))).ino).toBe(ino);
  expect(await readdir(directory)).not.toContain('compacting');
});

test('Y3: what an interrupted compaction left is removed by the next open', async () => {
  await mkdir(join(directory, 'compacting'));
  await writeFile(join(directory, 'compacting', 'data.mdb'), CANARY);
  await onDisk();
  expect(await readdir(directory)).not.toContain('compacting');
});

// Real kills at every fourth step; the sweep of file changes has every step.
test.each([
  ['flush', 0],
  ['os', 2],
] as const)(
  'M2, Y1: a process killed before a step of a compaction keeps what was acknowledged, durability %s',
  async (durability, first) => {
    const acknowledged = new Set<string>();
    let killed = 0;
    for (let step = first; ; step += 4) {
      const child = startChild(new URL('support/compact-writer.ts', import.meta.url), [
        directory,
        durability,
        String(step),
      ]);
      const code = await child.ended();
      for (const line of child.output().split('\n')) if (line.startsWith('entry ')) acknowledged.add(line);
      const journal = await openLmdbJournal({ directory, durability });
      const entries = [...journal.read(journal.keyOf('kept') ?? 0, 0)].map(({ data }) => JSON.parse(data).entry);
      await journal.close();
      const missing = [...acknowledged].filter((line) => !entries.includes(line));
      expect(missing, `step ${step}: ${child.errors()}`).toEqual([]);
      await checkLmdbFile(join(directory, 'data.mdb'));
      if (child.output().includes('survived')) {
        expect(code).toBe(0);
        break;
      }
      killed += 1;
    }
    expect(killed).toBeGreaterThan(3);
    expect((await readFile(join(directory, 'data.mdb'))).includes(CANARY)).toBe(false);
  },
  120_000,
);
