import { mkdir, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createLmdbStore } from '../../../src/journal/lmdb/environment.ts';
import { openManifest } from '../../../src/journal/store/birth.ts';
import {
  beginManifest,
  MANIFEST_FORMAT,
  MOVING_FORMAT,
  readManifest,
  replaceManifest,
  shardDirectory,
  writeManifest,
} from '../../../src/journal/store/manifest.ts';
import { temporaryDirectory } from '../support/stores.ts';

let directory: string;

beforeEach(async () => {
  directory = await temporaryDirectory();
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

test('a new directory has no manifest; a written manifest is read back, and leaves no other file', async () => {
  expect(await readManifest(directory)).toBeUndefined();
  const deep = join(directory, 'a', 'b');
  expect(await readManifest(deep)).toBeUndefined();
  expect(await openManifest(deep, 3)).toEqual({ format: 1, shards: 3 });
  expect(await readManifest(deep)).toEqual({ format: 1, shards: 3 });
  expect(await openManifest(deep, 1)).toEqual({ format: 1, shards: 3 });
  expect((await readdir(deep)).sort()).toEqual(['manifest.json', 'shard-0', 'shard-1', 'shard-2']);
  expect(shardDirectory(deep, 2)).toBe(join(deep, 'shard-2'));
});

test.each([
  '',
  '{',
  '[]',
  'null',
  '{"format":1}',
  '{"format":1,"shards":0}',
  '{"format":1,"shards":1.5}',
  '{"shards":1}',
  '\0',
])('F08: %j is not a manifest, and is left unchanged', async (text) => {
  const path = join(directory, 'manifest.json');
  await writeFile(path, text);
  await expect(readManifest(directory)).rejects.toMatchObject({ code: 'store_corrupt', data: { path } });
  expect(await readFile(path, 'utf8')).toBe(text);
});

test('F08: shards without a manifest do not count as a new directory', async () => {
  await mkdir(shardDirectory(directory, 0));
  await expect(readManifest(directory)).rejects.toMatchObject({ code: 'store_corrupt' });
});

describe('F08: a store with a missing part', () => {
  test.each([
    ['a shard directory', 'shard-1'],
    ['a data file', 'shard-0/data.mdb'],
    ['data and lock file', 'shard-1/.'],
    ['the manifest', 'manifest.json'],
  ])('%s: refused with the path and a hint, and nothing is created in its place', async (_what, gone) => {
    await openManifest(directory, 2);
    await rm(join(directory, gone), { recursive: true });
    if (gone.endsWith('.')) await mkdir(join(directory, gone), { recursive: true });
    const before = (await readdir(directory, { recursive: true })).sort();
    await expect(openManifest(directory, 2)).rejects.toMatchObject({
      name: 'StoreCorruptError',
      data: { path: expect.stringContaining(directory), hint: expect.stringContaining('troupe doctor') },
    });
    expect((await readdir(directory, { recursive: true })).sort()).toEqual(before);
  });

  test('a manifest that names fewer shards than exist', async () => {
    await openManifest(directory, 3);
    await writeFile(join(directory, 'manifest.json'), '{"format":1,"shards":1}');
    await expect(openManifest(directory, 3)).rejects.toMatchObject({ code: 'store_corrupt' });
  });
});

test('F12: a store whose creation was killed is completed with the shards it was begun with', async () => {
  for (let made = 0; made <= 3; made += 1) {
    const place = join(directory, `killed-at-${made}`);
    await mkdir(place);
    await beginManifest(place, 3);
    for (let shard = 0; shard < made; shard += 1) {
      await createLmdbStore({ directory: shardDirectory(place, shard), durability: 'flush' });
    }
    expect(await readManifest(place)).toBeUndefined();
    expect(await openManifest(place, 1)).toEqual({ format: 1, shards: 3 });
    expect((await readdir(place)).sort()).toEqual(['manifest.json', 'shard-0', 'shard-1', 'shard-2']);
  }
  const place = join(directory, 'killed-at-3');
  await beginManifest(place, 5);
  expect(await openManifest(place, 1)).toEqual({ format: 1, shards: 3 });
  expect(await readdir(place)).not.toContain('creating.json');
});

test('F79: an oversized manifest is refused without being read', async () => {
  await writeFile(join(directory, 'manifest.json'), '');
  await truncate(join(directory, 'manifest.json'), 2 ** 40);
  await expect(readManifest(directory)).rejects.toMatchObject({ code: 'store_corrupt' });
});

test('F11: a newer manifest is refused, whatever else it contains', async () => {
  await writeFile(join(directory, 'manifest.json'), '{"format":3,"sharding":"other"}');
  await expect(readManifest(directory)).rejects.toMatchObject({
    code: 'store_version',
    data: { found: 3, supported: 2 },
  });
});

test('a shard count beyond the bound is refused before anything is written', async () => {
  await expect(writeManifest(directory, 65)).rejects.toThrow();
  expect(await readdir(directory)).toEqual([]);
});

test('facts of a manifest are replaced in one step, and the others stay, over an interrupted change of the shards too', async () => {
  const encryption = { keyId: 'one' };
  expect(await openManifest(directory, 1, encryption)).toEqual({ format: MANIFEST_FORMAT, shards: 1, encryption });
  await replaceManifest(directory, { format: MOVING_FORMAT });
  expect(await readManifest(directory)).toEqual({ format: MOVING_FORMAT, shards: 1, encryption });
  await mkdir(join(directory, 'layout'));
  expect(await openManifest(directory, 1)).toEqual({ format: MANIFEST_FORMAT, shards: 1, encryption });
  const renamed = { format: MANIFEST_FORMAT, shards: 1, encryption: { keyId: 'two' } };
  expect(await replaceManifest(directory, { encryption: { keyId: 'two' } })).toEqual(renamed);
  expect(await readManifest(directory)).toEqual(renamed);
});
