/**
 * `npm run fresh`: the package as a user installs it, on every Node that `engines` admits. For each Node and flavour: an
 * empty project, the tarball from npm, and the first program of the README, run twice. For each Node also the other
 * programs of the README, the examples and the pages of `docs/`. Options: `--node 22` and `--flavour tsc` select, each
 * any number of times (`pages` is the flavour of the programs on pages); `--cache DIR` keeps the Nodes and npm's
 * downloads for the next run. Prints a table at the end. Exits 1 after any failure.
 */
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { differenceOf, FLAVOURS, type Flavour, runsOn, writeProgram } from './first-program.ts';
import { type InstalledNode, installNode, NETWORK_MS, NODES } from './nodes.ts';
import { run, succeed } from './processes.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const PAGES = 'pages';
/** The longest run of the tests of all pages of one Node. */
const PAGES_MS = 600_000;

const { values } = parseArgs({
  options: {
    node: { type: 'string', multiple: true, default: [...NODES] },
    flavour: { type: 'string', multiple: true, default: [...FLAVOURS.map(({ name }) => name), PAGES] },
    cache: { type: 'string' },
  },
});
const unknown = values.flavour.filter((name) => name !== PAGES && !FLAVOURS.some((flavour) => flavour.name === name));
if (unknown.length > 0) {
  console.error(`--flavour ${unknown.join(', ')}: expected ${[...FLAVOURS.map(({ name }) => name), PAGES].join(', ')}`);
  process.exit(2);
}

const { devDependencies } = z
  .object({ devDependencies: z.record(z.string(), z.string()) })
  .parse(JSON.parse(await readFile(join(root, 'package.json'), 'utf8')));
const work = await mkdtemp(join(tmpdir(), 'troupe-fresh-'));
const cache = values.cache === undefined ? work : resolve(values.cache);
const environment = { npm_config_cache: join(cache, 'npm') };

/** Packs the built package; resolves to the tarball. */
async function pack(): Promise<string> {
  const command = ['npm', 'pack', '--ignore-scripts', '--pack-destination', work];
  await succeed(command, { directory: root, node: process.execPath, deadlineMs: NETWORK_MS });
  const name = (await readdir(work)).find((file) => file.endsWith('.tgz'));
  if (name === undefined) throw new Error('npm pack wrote no tarball');
  return join(work, name);
}

/** Makes the empty project of a user and runs the program in it. Resolves to undefined, or to the failure. */
async function firstProgram(tarball: string, node: InstalledNode, flavour: Flavour): Promise<string | undefined> {
  const directory = join(work, `${node.version}-${flavour.name}`);
  await mkdir(directory);
  const options = { directory, node: node.path, deadlineMs: NETWORK_MS, environment };
  const packages = flavour.packages.map((name) => `${name}@${devDependencies[name]}`);
  await succeed(['npm', 'init', '-y'], options);
  await succeed(['npm', 'pkg', 'set', 'type=module'], options);
  await succeed(['npm', 'install', '--prefer-offline', tarball, 'zod', ...packages], options);
  await writeProgram(directory, flavour);
  return differenceOf(directory, flavour, node.path);
}

/** Runs the programs of README, examples and docs on a Node: their tests, on this Node, start them there. */
async function pages(node: InstalledNode): Promise<string | undefined> {
  const command = ['npx', 'vitest', 'run', 'test/readme.test.ts', 'test/examples.test.ts', 'test/docs.test.ts'];
  const { stdout, stderr, end } = await run(command, {
    directory: root,
    node: process.execPath,
    deadlineMs: PAGES_MS,
    environment: { TROUPE_PROGRAM_NODE: node.path },
  });
  return end === 'exit 0' ? undefined : `${end}\n${stdout}${stderr}`;
}

async function resultOf(tarball: string, node: InstalledNode, name: string): Promise<string | undefined> {
  const flavour = FLAVOURS.find((each) => each.name === name);
  try {
    return await (flavour === undefined ? pages(node) : firstProgram(tarball, node, flavour));
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

const table: Record<string, Record<string, string>> = {};
let failures = 0;
try {
  const tarball = await pack();
  for (const wanted of values.node) {
    const node = await installNode(wanted, cache);
    const row: Record<string, string> = {};
    table[node.version] = row;
    for (const name of values.flavour) {
      const flavour = FLAVOURS.find((each) => each.name === name);
      if (flavour !== undefined && !runsOn(flavour, node.version)) {
        row[name] = '-';
        continue;
      }
      const startedMs = performance.now();
      const failure = await resultOf(tarball, node, name);
      row[name] = failure === undefined ? 'ok' : 'failed';
      const seconds = ((performance.now() - startedMs) / 1_000).toFixed(0);
      console.log(
        `Node ${node.version}, ${name}: ${failure === undefined ? 'ok' : `failed: ${failure}`} (${seconds} s)`,
      );
      if (failure !== undefined) failures += 1;
    }
  }
} finally {
  await rm(work, { recursive: true, force: true });
}
console.table(table);
process.exitCode = failures > 0 ? 1 : 0;
