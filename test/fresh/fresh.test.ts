/**
 * Goal: the first program of the README runs unchanged from the package's tarball, as JavaScript and as TypeScript.
 * Method: the short form of `npm run fresh`, on this Node and without the network. The unpacked tarball finds its
 * dependencies in the `node_modules` of this repository.
 */
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { differenceOf, FLAVOURS, runsOn, writeProgram } from './first-program.ts';
import { succeed } from './processes.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const node = process.execPath;
const STEP_MS = 60_000;
let directory: string;

beforeAll(async () => {
  await mkdir(join(root, '.troupe'), { recursive: true });
  directory = await mkdtemp(join(root, '.troupe', 'fresh-'));
  const installed = join(directory, 'node_modules', 'troupe');
  await mkdir(installed, { recursive: true });
  const pack = ['npm', 'pack', '--ignore-scripts', '--pack-destination', directory];
  await succeed(pack, { directory: root, node, deadlineMs: STEP_MS });
  const tarball = (await readdir(directory)).find((name) => name.endsWith('.tgz')) ?? '';
  const unpack = ['tar', '-xzf', join(directory, tarball), '--strip-components=1', '-C', installed];
  await succeed(unpack, { directory, node, deadlineMs: STEP_MS });
});
afterAll(() => rm(directory, { recursive: true, force: true }));

test.each(FLAVOURS.filter(({ name }) => ['js', 'import-tsx'].includes(name)))(
  'the first program runs from the tarball: $name',
  async (flavour) => {
    const project = join(directory, flavour.name);
    await mkdir(project);
    await writeFile(join(project, 'package.json'), '{"name":"fresh","type":"module"}');
    await writeProgram(project, flavour);
    expect(await differenceOf(project, flavour, node)).toBeUndefined();
  },
);

test('Node removes types by itself from 22.18 on', () => {
  const strip = FLAVOURS.filter(({ name }) => name === 'strip');
  const versions = ['20.19.0', '20.20.2', '22.17.1', '22.18.0', '24.0.0', '26.10.0'];
  expect(strip.map((flavour) => versions.filter((version) => runsOn(flavour, version)))).toEqual([
    ['22.18.0', '24.0.0', '26.10.0'],
  ]);
});
