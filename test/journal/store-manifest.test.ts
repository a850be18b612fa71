import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readManifest, shardDirectory, writeManifest } from '../../src/journal/store-manifest.ts';
import { temporaryDirectory } from './support/stores.ts';

let directory: string;

beforeEach(async () => {
  directory = await temporaryDirectory();
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

test('a new directory has none; a written one is read, and leaves no other file', async () => {
  expect(await readManifest(directory)).toBeUndefined();
  const deep = join(directory, 'a', 'b');
  expect(await readManifest(deep)).toBeUndefined();
  expect(await writeManifest(deep, 3)).toEqual({ format: 1, shards: 3 });
  expect(await readManifest(deep)).toEqual({ format: 1, shards: 3 });
  expect(await readdir(deep)).toEqual(['manifest.json']);
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
])('F08: %j is not a manifest, and is left as it is', async (text) => {
  const path = join(directory, 'manifest.json');
  await writeFile(path, text);
  await expect(readManifest(directory)).rejects.toMatchObject({ code: 'store_corrupt', data: { path } });
  expect(await readFile(path, 'utf8')).toBe(text);
});

test('F08: shards without a manifest are not a new directory', async () => {
  await mkdir(shardDirectory(directory, 0));
  await expect(readManifest(directory)).rejects.toMatchObject({ code: 'store_corrupt' });
});

test('F11: a newer manifest is refused, whatever else it says', async () => {
  await writeFile(join(directory, 'manifest.json'), '{"format":2,"sharding":"other"}');
  await expect(readManifest(directory)).rejects.toMatchObject({
    code: 'store_version',
    data: { found: 2, supported: 1 },
  });
});

test('a count of shards beyond the bound is refused before anything is written', async () => {
  await expect(writeManifest(directory, 65)).rejects.toThrow();
  expect(await readdir(directory)).toEqual([]);
});
