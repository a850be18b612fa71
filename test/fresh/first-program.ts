/**
 * The first program of the README with its tool, taken from the page as it stands, in each flavour that
 * `docs/get-started.md` names. A run prints whole and known output; a second run prints the same and calls no model.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ModelRequest } from '../../src/models/provider.ts';
import type { Reply } from '../../src/models/script/script.ts';
import { strictFake } from '../../src/testing/index.ts';
import { run, succeed } from './processes.ts';

/** The longest run: far more than any run of the program needs on a busy machine, so only a hang reaches it. */
const RUN_MS = 180_000;

/** One way to run the program. */
export interface Flavour {
  readonly name: string;
  readonly extension: 'js' | 'ts';
  /** Packages that it needs besides the runtime and zod. */
  readonly packages: readonly string[];
  readonly build?: readonly string[];
  readonly command: readonly string[];
  /** The lowest Node of each major that runs it; default: every one. */
  readonly minor?: Readonly<Record<number, number>>;
}

/** By the rows of the table in `docs/get-started.md`. */
export const FLAVOURS: readonly Flavour[] = [
  { name: 'js', extension: 'js', packages: [], command: ['node', 'hello.js'] },
  { name: 'import-tsx', extension: 'ts', packages: ['tsx'], command: ['node', '--import', 'tsx', 'hello.ts'] },
  { name: 'npx-tsx', extension: 'ts', packages: ['tsx'], command: ['npx', 'tsx', 'hello.ts'] },
  {
    name: 'tsc',
    extension: 'ts',
    packages: ['typescript', '@types/node'],
    build: ['npx', 'tsc'],
    command: ['node', 'dist/hello.js'],
  },
  {
    name: 'strip',
    extension: 'ts',
    packages: [],
    command: ['node', 'hello.ts'],
    minor: { 20: Number.POSITIVE_INFINITY, 22: 18 },
  },
];

/** True if this Node can run the flavour. `version`: as `process.versions.node`. */
export function runsOn({ minor }: Flavour, version: string): boolean {
  const [major = 0, own = 0] = version.split('.').map(Number);
  return own >= (minor?.[major] ?? 0);
}

/** Writes the program, its tool and, for `tsc`, the settings of the compiler. */
export async function writeProgram(directory: string, { extension, build }: Flavour): Promise<void> {
  const page = await readFile(fileURLToPath(new URL('../../README.md', import.meta.url)), 'utf8');
  const blocks = [...page.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, text = '']) => text);
  for (const [name, start] of [
    ['hello', 'anthropic(), // reads'],
    ['tools', 'export const add'],
  ] as const) {
    const text = blocks.find((block) => block.includes(start));
    if (text === undefined) throw new Error(`the README has no program with: ${start}`);
    await writeFile(join(directory, `${name}.${extension}`), text);
  }
  if (build === undefined) return;
  const compilerOptions = { module: 'nodenext', target: 'es2023', types: ['node'], outDir: 'dist' };
  await writeFile(join(directory, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
}

const PRINTED = [
  'user_message Compare LMDB and SQLite for logs',
  'agent_message They differ.',
  'user_message Only consider Node',
  'tool_call Calling add',
  'tool_response 3',
  'agent_message On Node, both work.',
  '',
].join('\n');

/** Calls the tool only for the message that steers, so the log is the same whenever that message arrives. */
function reply({ messages }: ModelRequest): Reply {
  const last = JSON.stringify(messages.at(-1)?.content);
  if (last.includes('Only consider Node')) return { toolUse: { name: 'add', input: { a: 1, b: 2 } } };
  return last.includes('tool_result') ? 'On Node, both work.' : 'They differ.';
}

/** Builds and runs the program twice. Resolves to undefined, or to the difference from the expected output. */
export async function differenceOf(directory: string, flavour: Flavour, node: string): Promise<string | undefined> {
  const fake = await strictFake({ script: reply });
  try {
    const options = { directory, node, deadlineMs: RUN_MS };
    if (flavour.build !== undefined) await succeed(flavour.build, options);
    const environment = { ANTHROPIC_BASE_URL: fake.url, ANTHROPIC_API_KEY: 'test' };
    const calls = [];
    for (const name of ['first', 'second']) {
      const { stdout, stderr, end } = await run(flavour.command, { ...options, environment });
      if (end !== 'exit 0' || stdout !== PRINTED || stderr !== '')
        return `${name} run: ${end}\nstdout:\n${stdout}stderr:\n${stderr}`;
      calls.push(fake.requests.length);
    }
    const [first = 0, second] = calls;
    if (first === 0 || second !== first) return `model calls: ${first} in the first run, ${second} after the second`;
    if (fake.violations.length > 0) return `the API refuses: ${JSON.stringify(fake.violations)}`;
    return undefined;
  } finally {
    await fake.close();
  }
}
