/**
 * Goal: the README's programs run as they stand. Method: its code blocks become files inside this package, are compiled and
 * type-checked as a user's would be, and run against the built package and a strict fake of the Messages API.
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { strictFake } from '../src/testing/index.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('..', import.meta.url));
const loader = join(root, 'test/loader/register.mjs');
let directory: string;

/** The README's TypeScript blocks: hello, tools, family, testing, history, enrichers. */
async function readmeBlocks(): Promise<readonly [string, string, string, string, string, string]> {
  const text = await readFile(join(root, 'README.md'), 'utf8');
  const blocks = [...text.matchAll(/```ts\n([\s\S]*?)```/g)].map((match) => match[1] ?? '');
  const [hello, tools, family, testing, history, enrichers] = blocks;
  if (
    hello === undefined ||
    tools === undefined ||
    family === undefined ||
    testing === undefined ||
    history === undefined ||
    enrichers === undefined
  ) {
    throw new Error(`the README has ${blocks.length} TypeScript blocks, expected at least 6`);
  }
  return [hello, tools, family, testing, history, enrichers];
}

async function compile(project: string): Promise<void> {
  try {
    await run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', project]);
  } catch (error) {
    throw new Error(`the README does not compile:\n${(error as { stdout?: string }).stdout ?? ''}`, { cause: error });
  }
}

beforeAll(async () => {
  // Inside the package, so that `import 'troupe'` finds it by its own exports, as built.
  await mkdir(join(root, '.troupe'), { recursive: true });
  directory = await mkdtemp(join(root, '.troupe', 'readme-'));
  const [hello, tools, family, testing, history, enrichers] = await readmeBlocks();
  await writeFile(join(directory, 'tools.ts'), tools);
  await writeFile(
    join(directory, 'hello.ts'),
    `const topics: readonly string[] = ['logs', 'keys'];\n${hello}\n${family}`,
  );
  await writeFile(join(directory, 'testing.ts'), testing);
  await writeFile(join(directory, 'history.ts'), history);
  await writeFile(join(directory, 'enrichers.ts'), enrichers);
  await writeFile(
    join(directory, 'tsconfig.json'),
    JSON.stringify({
      extends: join(root, 'tsconfig.json'),
      compilerOptions: { noEmit: false, outDir: '.', rootDir: '.', isolatedDeclarations: false, declaration: false },
      files: ['tools.ts', 'hello.ts', 'testing.ts', 'history.ts', 'enrichers.ts'],
      include: [],
    }),
  );
  await compile(directory);
});

afterAll(() => rm(directory, { recursive: true, force: true }));

it('the hello answers, streams, and joins its family', async () => {
  const fake = await strictFake({ script: () => 'They differ.' });
  try {
    const env = { ...process.env, ANTHROPIC_BASE_URL: fake.url, ANTHROPIC_API_KEY: 'test' };
    const { stdout } = await run(process.execPath, ['--import', loader, 'hello.js'], { cwd: directory, env });
    expect(stdout).toContain('They differ.');
    expect(stdout).toMatch(/agent-1 They differ\./);
    expect(stdout).toMatch(/agent-2 They differ\./);
    expect(fake.violations).toEqual([]);
  } finally {
    await fake.close();
  }
});

it('the testing example prints what its comments say', async () => {
  const { stdout } = await run(process.execPath, ['--import', loader, 'testing.js'], { cwd: directory });
  expect(stdout.trim().split('\n')).toEqual(['three', 'hello 0']);
});

it('the history example prints what its comments say', async () => {
  const { stdout } = await run(process.execPath, ['history.js'], { cwd: directory });
  expect(stdout.trim().split('\n')).toEqual(['Name a city, Coimbra, One more, Lisbon', '2']);
});

it('the example of the enrichers prints what its comments say', async () => {
  const { stdout } = await run(process.execPath, ['enrichers.js'], { cwd: directory });
  expect(stdout.trim().split('\n')).toEqual(['Take tram 28.', '🚋 Lisbon trip']);
});

it('names both commands', async () => {
  const text = await readFile(join(root, 'README.md'), 'utf8');
  expect(text).toContain('npm start');
  expect(text).toContain('npm test');
});
