/**
 * Goal: while a runtime is open, the bytes of deleted sessions leave its files within the stated time, the files become
 * small again, and whatever else happens to the store meanwhile works as always.
 */
import type { Dirent } from 'node:fs';
import { cp, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { systemCodeOf } from '../../../src/base/errors.ts';
import { agent, open, type Runtime, restore } from '../../../src/index.ts';
import { type ManualClock, manualClock } from '../../../src/testing/manual-clock.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { imageBlock, png } from '../../support/images.ts';
import { long } from '../../support/pure-tools.ts';
import { eventually, MATRIX, runtimeKit, type TestOptions } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
/** A word that stands in everything that the deleted sessions store. Their ids do not have it: the audit log keeps those. */
const CANARY = 'canary-c0de';
const IMAGE = png(200_000, { seed: CANARY });
/** Bytes of the image that no compression changes. */
const PIXELS: Buffer = Buffer.from(IMAGE).subarray(50_000, 50_064);
const WITHIN_MS = 60_000;

function options(given: TestOptions = {}): TestOptions {
  return {
    agents: [agent({ name: 'writer', tools: [long] })],
    provider: scripted({
      rules: [
        { when: { text: 'short' }, reply: `noted ${CANARY}` },
        {
          when: { text: CANARY, result: false },
          reply: { text: CANARY, toolUse: { name: 'long', input: { word: CANARY } } },
        },
      ],
      otherwise: 'ok',
    }),
    ...given,
  };
}

/** The entries of a directory. A folder of a compaction may be removed while it is read: then it is read again. */
async function entriesOf(directory: string): Promise<readonly Dirent[]> {
  try {
    return await readdir(directory, { recursive: true, withFileTypes: true });
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return entriesOf(directory);
    throw error;
  }
}

/** The files of a directory that have the canary in their names or bytes. */
async function found(directory: string): Promise<readonly string[]> {
  const paths: string[] = [];
  for (const entry of await entriesOf(directory)) {
    const path = join(entry.parentPath, entry.name);
    // A file may be removed while the directory is read.
    const bytes = entry.isFile() ? await readFile(path).catch(() => Buffer.alloc(0)) : Buffer.alloc(0);
    if (entry.name.includes(CANARY) || bytes.includes(CANARY) || bytes.includes(PIXELS)) paths.push(path);
  }
  return paths;
}

async function bytesOf(directory: string): Promise<number> {
  let bytes = 0;
  for (const entry of await entriesOf(directory)) {
    const size = entry.isFile() ? await stat(join(entry.parentPath, entry.name)).catch(() => undefined) : undefined;
    bytes += size?.size ?? 0;
  }
  return bytes;
}

/** A session with rows, blobs, media, shortened results and indexed messages, all with the canary. */
async function filled(runtime: Runtime, id: string): Promise<void> {
  const session = runtime.session(id);
  await session.ask(`Say ${CANARY}`);
  await session.ask([{ type: 'text', text: CANARY }, imageBlock(IMAGE)]);
  for (let turn = 0; turn < 5; turn += 1) await session.ask(`short ${CANARY} ${turn}`);
}

/** Moves the clock until nothing is left to erase. */
async function erased(runtime: Runtime, clock: ManualClock): Promise<void> {
  await eventually(async () => {
    await clock.advance(50);
    return runtime.metrics().sessionsErasing === 0;
  });
}

/** A closed store with a session to keep, a large one, and one to delete. Tests open copies of it. */
let store = '';
beforeAll(async () => {
  store = await mkdtemp(join(tmpdir(), 'troupe-test-'));
  const threads = { sessions: 0, models: 0, tools: 1 };
  const runtime = await open(store, { logger: false, ...options({ clock: manualClock() }), threads });
  await runtime.session('kept').ask('Hi');
  for (let index = 0; index < 20; index += 1)
    await runtime.session('large').ask([imageBlock(png(1_000_000, { seed: `large ${index}` }))]);
  await filled(runtime, 'gone');
  await runtime.close();
});
afterAll(() => rm(store, { recursive: true, force: true }));

/** A runtime on the test's clock whose next compaction takes a while, and is due after `advance(WITHIN_MS)`. */
async function owing(directory: string, clock: ManualClock): Promise<Runtime> {
  await cp(store, directory, { recursive: true });
  const runtime = await kit.open({ directory, ...options({ clock }) });
  await runtime.sessions.delete('gone');
  await erased(runtime, clock);
  return runtime;
}

test.each(MATRIX)(
  'F6: after a deletion no file of the open store has a byte of it, and all else is as before: %o',
  async (threads) => {
    const directory = await kit.directory();
    const runtime = await kit.open({ directory, ...options({ threads, store: { eraseWithinMs: 200 } }) });
    const kept = runtime.session('kept');
    await kept.ask('Hi');
    await kept.ask([{ type: 'text', text: 'an image' }, imageBlock(png(20_000, { seed: 'kept' }))]);
    await filled(runtime, 'gone');
    expect((await runtime.search(CANARY)).found.length).toBeGreaterThan(0);
    const before = await kept.messages();
    expect((await found(directory)).length).toBeGreaterThan(0);
    await runtime.sessions.delete('gone');
    // The files are in place a moment before the thread of the shard says so.
    await eventually(async () => {
      const { compactions, sessionsErasing } = runtime.metrics();
      return compactions > 0 && sessionsErasing === 0 && (await found(directory)).length === 0;
    });
    expect(runtime.metrics().compactionsFailed).toBe(0);
    expect(await kept.messages()).toEqual(before);
    expect(await kept.ask('again')).toBe('ok');
    await runtime.close();
    const again = await kit.open({ directory, ...options({ threads }) });
    expect((await again.session('kept').messages()).slice(0, before.length)).toEqual(before);
    expect((await again.sessions.list()).map(({ id }) => id)).toEqual(['kept']);
  },
);

test('F6: a deletion that a former process did not finish leaves the files after the next open', async () => {
  const [directory, clock] = [await kit.directory(), manualClock()];
  const first = await owing(directory, clock);
  await first.close();
  expect((await found(directory)).length).toBeGreaterThan(0);
  const second = await kit.open({ directory, ...options() });
  await eventually(() => second.metrics().compactions === 1);
  expect(await found(directory)).toEqual([]);
});

test('sessions that are made and deleted do not let the directory grow', async () => {
  const directory = await kit.directory();
  const runtime = await kit.open({ directory, ...options({ store: { eraseWithinMs: 100 } }) });
  await runtime.session('kept').ask('Hi');
  const sizes: number[] = [];
  for (let round = 0; round < 6; round += 1) {
    const id = `round-${round}`;
    for (let index = 0; index < 3; index += 1)
      await runtime.session(id).ask([imageBlock(png(1_000_000, { seed: `${id} ${index}` }))]);
    await runtime.sessions.delete(id);
    await eventually(() => runtime.metrics().sessionsErasing === 0);
    sizes.push(await bytesOf(directory));
  }
  // A round stores three megabytes. The file may have those of two rounds, and a copy the contents.
  expect(Math.max(...sizes)).toBeLessThan(4 * 3_000_000);
  await runtime.session('kept').ask('Hi');
  await eventually(async () => (await bytesOf(directory)) < 3_000_000);
});

test('C2: a deletion while a compaction runs is compacted later, and the first one is gone', async () => {
  const [directory, clock] = [await kit.directory(), manualClock()];
  const runtime = await owing(directory, clock);
  await filled(runtime, 'second');
  await clock.advance(WITHIN_MS);
  await eventually(() => runtime.metrics().compactionsRunning === 1);
  await runtime.sessions.delete('second');
  await erased(runtime, clock);
  await eventually(async () => {
    await clock.advance(1_000);
    return runtime.metrics().compactions >= 2;
  });
  expect(await found(directory)).toEqual([]);
  expect(await runtime.session('large').messages()).toHaveLength(40);
});

test('messages that are sent while a compaction runs are answered and kept', async () => {
  const [directory, clock] = [await kit.directory(), manualClock()];
  const runtime = await owing(directory, clock);
  await clock.advance(WITHIN_MS);
  await eventually(() => runtime.metrics().compactionsRunning === 1);
  let turns = 0;
  while (runtime.metrics().compactions === 0) {
    await runtime.session('busy').ask(`turn ${turns}`);
    turns += 1;
  }
  expect(turns).toBeGreaterThan(1);
  expect(runtime.metrics()).toMatchObject({ compactions: 1, compactionsRunning: 0, compactionsFailed: 0 });
  expect(runtime.metrics().compactionBytes).toBeLessThan(runtime.metrics().compactionBytesBefore);
  await runtime.close();
  const again = await kit.open({ directory, ...options() });
  expect(await again.session('busy').messages()).toHaveLength(2 * turns);
});

test('a close ends a compaction that runs, and the next open begins it again', async () => {
  const [directory, clock] = [await kit.directory(), manualClock()];
  const runtime = await owing(directory, clock);
  await clock.advance(WITHIN_MS);
  await eventually(() => runtime.metrics().compactionsRunning === 1);
  await runtime.close();
  expect(runtime.metrics().compactions).toBe(0);
  expect(await readdir(join(directory, 'shard-0'))).not.toContain('compacting');
  const again = await kit.open({ directory, ...options() });
  expect(await again.session('large').messages()).toHaveLength(40);
  await eventually(() => again.metrics().compactions === 1);
  expect(await found(directory)).toEqual([]);
});

test('a process that takes the directory over meets no compaction, and makes the one that was cut short', async () => {
  const [directory, clock] = [await kit.directory(), manualClock()];
  const owner = await owing(directory, clock);
  await clock.advance(WITHIN_MS);
  await eventually(() => owner.metrics().compactionsRunning === 1);
  const taker = kit.open({ directory, ...options({ takeover: true }) });
  // The owner looks for a taker on its clock.
  let isTaken = false;
  void owner.closed.then(() => {
    isTaken = true;
  });
  await eventually(async () => {
    await clock.advance(100);
    return isTaken;
  });
  const next = await taker;
  expect(await next.session('large').messages()).toHaveLength(40);
  // On a fast disk the owner's may be complete before the directory is taken. Then nothing is left for the next process.
  const owners = owner.metrics().compactions;
  await eventually(() => owners + next.metrics().compactions === 1);
  expect(await found(directory)).toEqual([]);
});

test('a backup while a compaction runs is whole, and has no byte that was erased before', async () => {
  const base = await kit.directory();
  const [directory, backup, restored] = [join(base, 'store'), join(base, 'backup'), join(base, 'restored')];
  const clock = manualClock();
  const runtime = await owing(directory, clock);
  await clock.advance(WITHIN_MS);
  await eventually(() => runtime.metrics().compactionsRunning === 1);
  await runtime.backup(backup);
  await eventually(() => runtime.metrics().compactions === 1);
  const next = await runtime.backup(backup);
  expect(next.shards).toBe(1);
  await restore(backup, restored);
  expect(await found(restored)).toEqual([]);
  const opened = await kit.open({ directory: restored, ...options() });
  expect(await opened.session('large').messages()).toHaveLength(40);
});

test('a search that follows the log finds the same messages before and after a compaction', async () => {
  const [directory, clock] = [await kit.directory(), manualClock()];
  const runtime = await owing(directory, clock);
  const ids = async (): Promise<readonly string[]> =>
    (await runtime.search('hi')).found.map(({ session, seq }) => `${session} ${seq}`);
  const before = await ids();
  expect(before.length).toBeGreaterThan(0);
  await clock.advance(WITHIN_MS);
  await eventually(() => runtime.metrics().compactions === 1);
  expect(await ids()).toEqual(before);
  await runtime.session('after').ask('Hi');
  expect((await ids()).length).toBe(before.length + 1);
});
