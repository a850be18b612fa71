/**
 * Goal: a program that is given to Node as text, or with flags about the main program only, can start threads and child
 * processes.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { childFlags, threadFlags } from '../../src/threads/host-flags.ts';

const execute = promisify(execFile);
const index = new URL('../../dist/index.js', import.meta.url).href;
const testing = new URL('../../dist/testing.js', import.meta.url).href;

test.each([
  [['--import', 'tsx', '--max-old-space-size=64'], undefined],
  [['--input-type=module', '-e', 'code'], []],
  [
    ['--expose-gc', '-e', 'code', '--import', 'tsx', '--input-type', 'module'],
    ['--import', 'tsx'],
  ],
  [
    ['--eval=code', '--conditions=dev', '--no-warnings', '--title=x'],
    ['--conditions=dev', '--no-warnings'],
  ],
  [
    ['-p', '-1', '--import', 'tsx'],
    ['--import', 'tsx'],
  ],
  [
    ['--watch', '-r', 'x.cjs', '-C', 'dev'],
    ['-r', 'x.cjs', '-C', 'dev'],
  ],
])('the flags of a thread, of %j', (flags, expected) => {
  expect(threadFlags(flags)).toEqual(expected);
});

test.each([
  [
    ['--import', 'tsx', '--max-old-space-size=64'],
    ['--import', 'tsx', '--max-old-space-size=64'],
  ],
  [
    ['--expose-gc', '--input-type', 'module', '-e', 'code', '--import', 'tsx'],
    ['--expose-gc', '--import', 'tsx'],
  ],
  [['-p', 'code'], []],
  [['--test', '--no-warnings'], ['--no-warnings']],
])('the flags of a child process, of %j', (flags, expected) => {
  expect(childFlags(flags)).toEqual(expected);
});

test.each(['thread', 'process'])(
  'a program given as text answers, with a session thread and its tool in a %s',
  async (place) => {
    const directory = await realpath(await mkdtemp(join(tmpdir(), 'troupe-flags-')));
    onTestFinished(() => rm(directory, { recursive: true }));
    const file = join(directory, 'tools.mjs');
    await writeFile(
      file,
      `import { tool } from ${JSON.stringify(index)};
    export const add = tool({ name: 'add', description: 'Add.', effect: 'pure', ${place === 'process' ? "isolation: 'process', " : ''}run: ({ a, b }) => a + b,
      input: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] } });`,
    );
    const program = `
    import { agent, open } from ${JSON.stringify(index)};
    import { scripted } from ${JSON.stringify(testing)};
    const runtime = await open(':memory:', {
      provider: scripted([{ toolUse: { name: 'add', input: { a: 1, b: 2 } } }, 'three']),
      agents: [agent({ name: 'counter', tools: [new URL(${JSON.stringify(pathToFileURL(file).href)})] })],
      threads: { sessions: 1 },
    });
    console.log(await runtime.session('sum').ask('How much is 1 + 2?'));
    console.log((await runtime.session('sum').messages()).map(({ content }) => content).join());
    await runtime.close();`;
    const { stdout, stderr } = await execute(
      process.execPath,
      [...process.execArgv, '--max-old-space-size=500', '--input-type=module', '-e', program],
      { cwd: fileURLToPath(new URL('../..', import.meta.url)) },
    );
    expect([stdout, stderr]).toEqual(['three\nHow much is 1 + 2?,Calling add,3,three\n', '']);
  },
);
