/**
 * Goal: the README's programs run unchanged. Method: its code blocks become files inside this package. They are
 * type-checked as a user's would be, and run as plain JavaScript against the built package and a strict fake of the
 * Messages API.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import type { ModelRequest } from '../src/models/provider.ts';
import type { Reply } from '../src/models/script/script.ts';
import { strictFake } from '../src/testing/index.ts';
import { programNode } from './support/package-programs.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('..', import.meta.url));
let directory: string;
/** The error of a program that ended with another exit code than 0. */
const failure = z.object({ code: z.number(), stdout: z.string() });

/** The README's programs, by the names they have in the text: its TypeScript blocks in order. */
const names = ['hello', 'typed', 'tools', 'family', 'testing'] as const;

async function readmeBlocks(): Promise<readonly (readonly [string, string])[]> {
  const text = await readFile(join(root, 'README.md'), 'utf8');
  const blocks = [...text.matchAll(/```ts\n([\s\S]*?)```/g)].map((match) => match[1] ?? '');
  if (blocks.length !== names.length) {
    throw new Error(`the README has ${blocks.length} TypeScript blocks, expected ${names.length}`);
  }
  return names.map((name, index) => [name, blocks[index] ?? ''] as const);
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
  for (const [name, text] of await readmeBlocks()) {
    await writeFile(join(directory, `${name}.ts`), text);
    // The same text, run unchanged: the first programs are also plain JavaScript on every supported Node.
    await writeFile(join(directory, `${name}.js`), text);
  }
  await writeFile(
    join(directory, 'tsconfig.json'),
    JSON.stringify({
      extends: join(root, 'tsconfig.json'),
      compilerOptions: { noEmit: true, rootDir: '.', isolatedDeclarations: false, declaration: false },
      files: names.map((name) => `${name}.ts`),
      include: [],
    }),
  );
  await compile(directory);
});

afterAll(() => rm(directory, { recursive: true, force: true }));

/** Calls the tool of the README once, for the message that steers. */
function reply({ messages }: ModelRequest): Reply {
  const last = JSON.stringify(messages.at(-1)?.content);
  if (last.includes('Only consider Node')) return { toolUse: { name: 'add', input: { a: 1, b: 2 } } };
  return last.includes('tool_result') ? 'On Node, both work.' : 'They differ.';
}

it('the hello program fails with exit code 1 if there is no key', async () => {
  const { ANTHROPIC_API_KEY: _key, ANTHROPIC_AUTH_TOKEN: _token, ...env } = process.env;
  const keyless = await mkdtemp(join(root, '.troupe', 'keyless-'));
  try {
    for (const name of ['hello.js', 'tools.js']) await copyFile(join(directory, name), join(keyless, name));
    const failed = await run(programNode, ['hello.js'], { cwd: keyless, env }).then(
      () => ({ code: 0, stdout: '' }),
      (error: unknown) => failure.parse(error),
    );
    expect(failed.code).toBe(1);
    expect(failed.stdout).toContain('Authentication failed: no credentials');
  } finally {
    await rm(keyless, { recursive: true, force: true });
  }
});

it('the hello program prints its log, runs its tool, and calls no model when it runs again; children answer', async () => {
  const fake = await strictFake({ script: reply });
  try {
    const env = { ...process.env, ANTHROPIC_BASE_URL: fake.url, ANTHROPIC_API_KEY: 'test' };
    const hello = await run(programNode, ['hello.js'], { cwd: directory, env });
    const requests = fake.requests.length;
    const again = await run(programNode, ['hello.js'], { cwd: directory, env });
    expect(fake.requests.length).toBe(requests);
    const family = await run(programNode, ['family.js'], { cwd: directory, env });
    const lines = [
      'user_message Compare LMDB and SQLite for logs',
      'agent_message They differ.',
      'user_message Only consider Node',
      'tool_call Calling add',
      'tool_response 3',
      'agent_message On Node, both work.',
    ];
    expect([hello.stdout.trim().split('\n'), hello.stderr]).toEqual([lines, '']);
    expect(again).toEqual(hello);
    expect(family.stdout).toMatch(/agent-1 They differ\./);
    expect(family.stdout).toMatch(/agent-2 They differ\./);
    expect(fake.violations).toEqual([]);
  } finally {
    await fake.close();
  }
});

it('the typed answer is a value of its schema, and an answer that does not fit is corrected', async () => {
  const fake = await strictFake({ script: ['{"name":"Ulm","people":"many"}', '{"name":"Ulm","people":126000}'] });
  try {
    const env = { ...process.env, ANTHROPIC_BASE_URL: fake.url, ANTHROPIC_API_KEY: 'test' };
    const typed = await run(programNode, ['typed.js'], { cwd: directory, env });
    expect(typed.stdout).toBe('Ulm 126\n');
    expect(fake.violations).toEqual([]);
  } finally {
    await fake.close();
  }
});

it('the testing example prints the output in its comments', async () => {
  const { stdout } = await run(programNode, ['testing.js'], { cwd: directory });
  expect(stdout.trim().split('\n')).toEqual(['three', 'hello 0']);
});

it('names both commands', async () => {
  const text = await readFile(join(root, 'README.md'), 'utf8');
  expect(text).toContain('npm start');
  expect(text).toContain('npm test');
});

it('is short: at most 130 lines, of at most 120 characters outside tables and code', async () => {
  const text = await readFile(join(root, 'README.md'), 'utf8');
  expect(text.trimEnd().split('\n').length).toBeLessThanOrEqual(130);
  const prose = text.replaceAll(/^```[\s\S]*?^```$/gm, '').split('\n');
  expect(prose.filter((line) => line.length > 120 && !line.startsWith('|'))).toEqual([]);
});

it('links to existing files', async () => {
  const text = await readFile(join(root, 'README.md'), 'utf8');
  const targets = [...text.matchAll(/\]\(([^)#]+)/g)].map(([, target = '']) => target);
  expect(targets.filter((target) => !/^https?:/.test(target) && !existsSync(join(root, target)))).toEqual([]);
});
