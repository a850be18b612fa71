/**
 * Goal: a user who installs the package and runs `troupe serve` gets the page from where the build puts it. The page
 * watches a run of a thousand sub-agents of an agents module from its start to its end.
 * Method: the built package is copied into a separate directory, and the build's own script builds the page there. The
 * program runs in a separate process over a fresh data directory, reached by HTTP alone, with a headless Chromium.
 * Without a Chromium only the files of the page are requested.
 */
import { spawnSync } from 'node:child_process';
import { cp, mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Program, startProgram } from '../cli/support/program.ts';
import { posted } from '../server/support.ts';
import { findChromium, launch } from './support/browser.ts';

const CHILDREN = 1_000;
/** Requests for children in flight at once. */
const AT_ONCE = 50;
const SEEN_MS = 60_000;
const TEST_MS = 120_000;

const root = fileURLToPath(new URL('../..', import.meta.url));
const chromium = findChromium();
let installed: string;

beforeAll(async () => {
  installed = await realpath(await mkdtemp(join(tmpdir(), 'troupe-installed-')));
  await cp(join(root, 'package.json'), join(installed, 'package.json'));
  const page = join(root, 'dist', 'observer');
  await cp(join(root, 'dist'), join(installed, 'dist'), { recursive: true, filter: (path) => path !== page });
  await symlink(await realpath(join(root, 'node_modules')), join(installed, 'node_modules'), 'dir');
  const script = join(root, 'scripts', 'build-observer.mjs');
  const built = spawnSync(process.execPath, [script, join(installed, 'dist', 'observer')], { encoding: 'utf8' });
  expect(`${built.stdout}${built.stderr}`).toBe('');
  await writeFile(
    join(installed, 'agents.mjs'),
    `import { agent } from 'troupe';
     import { scripted } from 'troupe/testing';
     export default {
       agents: [agent({ name: 'reviewer' })],
       provider: scripted({ rules: [], otherwise: 'Read: {{text}}' }),
     };`,
  );
}, TEST_MS);

afterAll(() => rm(installed, { recursive: true, force: true }));

/** The program as it is installed, serving `data`, and the address it listens on. */
async function serving(): Promise<{ readonly program: Program; readonly url: string }> {
  const main = join(installed, 'dist', 'cli.js');
  const line = ['serve', 'data', '--port', '0', '--json', '--agents', 'agents.mjs'];
  const program = startProgram(line, installed, {}, main);
  await program.wrote('\n');
  const { url } = JSON.parse(program.stdout()) as { readonly url: string };
  return { program, url };
}

async function post(url: string, body: unknown): Promise<unknown> {
  const response = await fetch(url, posted(body));
  expect([url, response.ok]).toEqual([url, true]);
  return await response.json();
}

async function spawnChildren(url: string): Promise<void> {
  let next = 0;
  const one = async (): Promise<void> => {
    while (next < CHILDREN) {
      const index = next;
      next += 1;
      await post(`${url}/sessions/review/children`, {
        task: `file ${index}`,
        name: `reader-${index}`,
        replies: 'handle',
      });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
}

test(
  'the server serves the page that was built',
  async () => {
    const { program, url } = await serving();
    const page = join(installed, 'dist', 'observer');
    const files = await readdir(page, { recursive: true, withFileTypes: true });
    const paths = files.filter((file) => file.isFile()).map((file) => join(file.parentPath, file.name));
    expect(paths.length).toBeGreaterThanOrEqual(4);
    for (const path of paths) {
      const response = await fetch(`${url}/observer${path.slice(page.length).replaceAll('\\', '/')}`);
      expect([path, response.status]).toEqual([path, 200]);
      expect(Buffer.from(await response.arrayBuffer()).equals(await readFile(path))).toBe(true);
    }
    program.process.kill('SIGTERM');
    expect(await program.ended).toMatchObject({ code: 0 });
  },
  TEST_MS,
);

test.skipIf(chromium === undefined)(
  'a thousand sub-agents are watched from the first to the last, over HTTP alone',
  async () => {
    const { program, url } = await serving();
    const browser = await launch(chromium ?? '');
    try {
      const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
      page.setDefaultTimeout(SEEN_MS);
      const troubles: string[] = [];
      page.on('pageerror', (error) => troubles.push(String(error)));
      page.on('console', (message) => {
        if (message.type() === 'error') troubles.push(message.text());
      });
      await page.goto(`${url}/observer/`);
      const row = (name: string) => page.getByRole('treeitem', { name: new RegExp(`^${name}, `) });
      await post(`${url}/sessions/review/messages`, { content: 'Review what is here.' });
      await row('review').click();
      await spawnChildren(url);
      await post(`${url}/sessions/review/messages`, { content: 'How many?' });
      await page.getByRole('log').getByText('Read: How many?').waitFor();
      await page
        .locator('.tree-foot')
        .getByText(`${(CHILDREN + 1).toLocaleString('en')} sessions · 0 at the model · 0 at tools`)
        .waitFor();
      await page.getByRole('tab', { name: 'Time line' }).click();
      await page.getByRole('button', { name: 'All', exact: true }).last().click();
      await page.getByRole('button', { name: `reader-${CHILDREN - 1}` }).click();
      await page.getByRole('heading', { name: `reader-${CHILDREN - 1}` }).waitFor();
      await page.getByRole('tab', { name: 'Conversation' }).click();
      await page.getByRole('log').getByText('Read: ').waitFor();
      await page.getByRole('tab', { name: 'Request' }).click();
      await page.getByText('Legal').waitFor();
      expect(troubles).toEqual([]);
    } finally {
      await browser.close();
    }
    program.process.kill('SIGTERM');
    expect(await program.ended).toMatchObject({ code: 0, stderr: '' });
  },
  TEST_MS,
);
