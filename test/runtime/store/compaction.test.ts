/** `compact`, and the compaction at `open`: files become small, contents stay, and a crash leaves a whole store. */
import { cp, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ERASE_WITHIN_MS_MAX } from '../../../src/base/bounds.ts';
import { ConfigError, compact, open, type Runtime, StoreLockedError } from '../../../src/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { imageBlock, png } from '../../support/images.ts';
import { eventually, failure, runtimeKit } from '../../support/runtime-kit.ts';
import { countInFiles } from '../../support/stored-texts.ts';

const kit = runtimeKit();
const CANARY = 'canary-5c18';
const echo = scripted({ rules: [], otherwise: 'to {{text}}' });
const THREADS = { sessions: 2, models: 0, tools: 1 };

async function erased(runtime: Runtime): Promise<void> {
  await eventually(() => runtime.metrics().sessionsErasing === 0);
}

/** A time in which no compaction of an open store begins, however slow the machine is. */
const NOT_WHILE_OPEN = { eraseWithinMs: ERASE_WITHIN_MS_MAX };

/** A store of two shards with small sessions, after large ones of about `bytes` in all were deleted. */
async function emptied(bytes: number): Promise<string> {
  const directory = await kit.directory();
  const runtime = await kit.open({ directory, provider: echo, threads: THREADS, store: NOT_WHILE_OPEN });
  const images = Math.ceil(bytes / 1_000_000);
  for (let index = 0; index < images; index += 1) {
    const seed = `${CANARY} ${index}`;
    const gone = runtime.session(`gone-${index}-${CANARY}`);
    await gone.ask([{ type: 'text', text: seed }, imageBlock(png(1_000_000, { seed }))]);
    // Each of these requests has the image again, so a few sessions have more than one row with the canary.
    if (index < 2) for (let turn = 0; turn < 2; turn += 1) await gone.ask(`${seed} ${turn}`);
  }
  for (let index = 0; index < 6; index += 1) await runtime.session(`kept-${index}`).ask(`kept ${index}`);
  for (let index = 0; index < images; index += 1) await runtime.sessions.delete(`gone-${index}-${CANARY}`);
  await erased(runtime);
  await runtime.close();
  return directory;
}

async function sizes(directory: string): Promise<readonly number[]> {
  return Promise.all([0, 1].map(async (shard) => (await stat(join(directory, `shard-${shard}`, 'data.mdb'))).size));
}

/** True if the files have the canary, except in the audit log. */
async function hasCanary(directory: string): Promise<boolean> {
  return ((await countInFiles(directory, new RegExp(CANARY, 'g'))).get(CANARY) ?? 0) > 0;
}

/** The ids and messages of all sessions of a store. Reads a copy, because an open begins at once with what is owed. */
async function contents(store: string): Promise<readonly unknown[]> {
  const directory = await kit.directory();
  await cp(store, directory, { recursive: true });
  const runtime = await kit.open({ directory, provider: echo, threads: { ...THREADS, sessions: 0 } });
  const found: unknown[] = [];
  for (const { id } of await runtime.sessions.list()) found.push(id, await runtime.session(id).messages());
  await runtime.close();
  return found;
}

test('F6: after compact no byte of a deleted session is in the files, which are small, and all else is as before', async () => {
  const directory = await emptied(3_000_000);
  const before = await contents(directory);
  const sizesBefore = await sizes(directory);
  expect(await hasCanary(directory)).toBe(true);
  const report = await compact(directory);
  expect(report).toMatchObject({ directory, shards: 2, bytesBefore: sizesBefore.reduce((sum, each) => sum + each, 0) });
  expect((await sizes(directory)).reduce((sum, each) => sum + each, 0)).toBe(report.bytes);
  expect(await hasCanary(directory)).toBe(false);
  expect(report.bytes).toBeLessThan(report.bytesBefore / 4);
  expect(await contents(directory)).toEqual(before);
  const runtime = await kit.open({ directory, provider: echo, threads: THREADS });
  expect(await runtime.session('kept-1').ask('again')).toBe('to again');
  await runtime.close();
});

test('an open compacts a file that is mostly free pages, and leaves another one as it is', async () => {
  const large = await emptied(24_000_000);
  const largeBefore = await sizes(large);
  await (await open(large, { provider: echo, threads: THREADS })).close();
  for (const [shard, size] of (await sizes(large)).entries()) expect(size).toBeLessThan((largeBefore[shard] ?? 0) / 4);
  expect(await hasCanary(large)).toBe(false);
  // Nothing was deleted here: bytes that a deletion left would be compacted away beside the work, which may begin at once.
  const full = await kit.directory();
  const runtime = await kit.open({ directory: full, provider: echo, threads: THREADS });
  for (let index = 0; index < 6; index += 1) await runtime.session(`kept-${index}`).ask(`kept ${index}`);
  await runtime.close();
  const fullBefore = await sizes(full);
  await (await open(full, { provider: echo, threads: THREADS })).close();
  for (const [shard, size] of (await sizes(full)).entries())
    expect(size).toBeGreaterThanOrEqual(fullBefore[shard] ?? 0);
});

test('compact is refused while a runtime has the store open, and for a directory without a store', async () => {
  const directory = await kit.directory();
  const runtime = await kit.open({ directory, provider: echo });
  expect(await failure(compact(directory))).toBeInstanceOf(StoreLockedError);
  await runtime.close();
  expect(await failure(compact(join(directory, 'missing')))).toBeInstanceOf(ConfigError);
  expect(await failure(compact(' '))).toMatchObject({ code: 'config', data: { key: 'directory' } });
  expect(await readdir(directory)).not.toContain('missing');
});

test('a damaged shard is refused, and left as it is', async () => {
  const directory = await emptied(1_000_000);
  const path = join(directory, 'shard-1', 'data.mdb');
  const damaged = (await readFile(path)).fill(0xff, 4_096, 4_300);
  await writeFile(path, damaged);
  expect(await failure(compact(directory))).toMatchObject({ code: 'store_corrupt' });
  expect((await readFile(path)).equals(damaged)).toBe(true);
});
