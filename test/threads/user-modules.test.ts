/**
 * Goal: a module that an embedder names by URL is found under the extension before or after a build, and one that cannot
 * be loaded fails with the remedy.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { importModule } from '../../src/threads/user-modules.ts';

async function directoryWith(files: Readonly<Record<string, string>>): Promise<(name: string) => string> {
  const directory = await mkdtemp(join(tmpdir(), 'troupe-modules-'));
  onTestFinished(() => rm(directory, { recursive: true }));
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
  return (name) => pathToFileURL(join(directory, name)).href;
}

test.each([
  ['a.js', 'a.ts'],
  ['a.ts', 'a.js'],
  ['a.mjs', 'a.mts'],
  ['a.mts', 'a.mjs'],
])('%s stands for %s, also with a query', async (named, present) => {
  const url = await directoryWith({ 'package.json': '{"type":"module"}', [present]: 'export const here = 1;\n' });
  // Whether the loader of the tests takes `.mts` depends on Node; a failure then names the file that was found.
  const found = await importModule(`${url(named)}?root=x`, 'tool module').catch((error: Error) => error.message);
  if (typeof found === 'string') expect(found).toMatch(/Unknown file extension "\.mts".*start it with --import tsx/);
  else expect({ ...found }).toEqual({ here: 1 });
});

test('a file that exists is taken as it is named', async () => {
  const url = await directoryWith({
    'package.json': '{"type":"module"}',
    'a.js': "export const name = 'js';\n",
    'a.ts': "export const name = 'ts';\n",
  });
  expect((await importModule(url('a.js'), 'x'))['name']).toBe('js');
  expect((await importModule(url('a.ts'), 'x'))['name']).toBe('ts');
});

test('without either file, the error names both', async () => {
  const url = await directoryWith({});
  await expect(importModule(url('tools.js'), 'tool module x')).rejects.toThrow(
    /^tool module x cannot be loaded: there is neither .*\/tools\.js nor .*\/tools\.ts$/,
  );
});

test.each([
  ["import './other.js';\n", /other\.ts, but Node does not look for it.*--import tsx/],
  ["import 'no-such-package';\n", /install it with: npm install no-such-package$/],
  ['throw new Error("broken");\n', /cannot be loaded: broken$/],
])('the remedy for %j', async (text, reason) => {
  const url = await directoryWith({ 'package.json': '{"type":"module"}', 'a.js': text, 'other.ts': 'export {};\n' });
  await expect(importModule(url('a.js'), 'tool module')).rejects.toThrow(reason);
});

test('no URL, and a module in a package of CommonJS', async () => {
  await expect(importModule('tools.js', 'provider')).rejects.toThrow('provider cannot be loaded: expected a URL');
  const url = await directoryWith({ 'package.json': '{"type":"commonjs"}', 'a.js': 'export const a = 1;\n' });
  await expect(importModule(url('a.js'), 'x')).rejects.toThrow('set "type": "module" in its package.json');
});
