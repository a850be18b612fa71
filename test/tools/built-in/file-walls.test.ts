// Goal: the file tools never open a forbidden path, however it is named. This holds even while another thread exchanges
// directories for links (F72). Method: a real directory, a swapper thread in a bounded loop, a real store.
import { mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { afterAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { agent, tool } from '../../../src/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { checkOpened } from '../../../src/tools/built-in/file-access.ts';
import { editFile, readFile, readFileTool, writeFile } from '../../../src/tools/built-in/index.ts';
import type { AnyTool, ToolOutcome } from '../../../src/tools/tool.ts';
import { executeTool } from '../../support/execute-tool.ts';
import { runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const base = realpathSync(mkdtempSync(join(tmpdir(), 'troupe-walls-')));
afterAll(() => rmSync(base, { recursive: true, force: true }));

const run = (given: AnyTool, input: object): Promise<ToolOutcome> =>
  executeTool(given, {
    input,
    context: { session: 's', callId: 'c', key: 'k', attempt: 1 },
    timeoutMs: 60_000,
    mode: 'run',
  });

/**
 * Runs `work` while a thread exchanges a directory inside a root for a link to one outside. Returns the number of
 * exchanges.
 */
async function whileSwapped(
  work: (root: string, outside: string) => Promise<void>,
): Promise<{ readonly swaps: number; readonly outside: readonly string[] }> {
  const place = mkdtempSync(join(base, 'swap-'));
  const [root, outside] = [join(place, 'root'), join(place, 'outside')];
  mkdirSync(join(root, 'd'), { recursive: true });
  mkdirSync(outside);
  writeFileSync(join(root, 'd', 'a.txt'), 'inside');
  writeFileSync(join(outside, 'a.txt'), 'secret');
  const shared = new SharedArrayBuffer(8);
  const words = new Int32Array(shared);
  const swapper = new Worker(new URL('../fixtures/directory-swapper.mjs', import.meta.url), {
    workerData: { directory: join(root, 'd'), target: outside, shared },
  });
  const ended = new Promise((resolve) => swapper.once('exit', resolve));
  await new Promise((resolve) => swapper.once('online', resolve));
  try {
    await work(root, outside);
  } finally {
    Atomics.store(words, 0, 1);
    await ended;
  }
  return { swaps: Atomics.load(words, 1), outside: readdirSync(outside) };
}

describe('F72: a directory replaced by a link', () => {
  test('F72: none of thousands of reads returns a file outside', async () => {
    const told = new Map<string, number>();
    const { swaps } = await whileSwapped(async (root) => {
      const reader = readFile({ root });
      for (let count = 0; count < 2_000; count += 1) {
        const { content } = await run(reader, { path: 'd/a.txt' });
        told.set(content, (told.get(content) ?? 0) + 1);
      }
    });
    expect(swaps).toBeGreaterThan(300);
    expect(told.get('secret')).toBeUndefined();
    expect(told.get('inside')).toBeGreaterThan(0);
  });

  test('F72: no write changes anything outside', async () => {
    const { swaps, outside } = await whileSwapped(async (root, target) => {
      const writer = writeFile({ root });
      for (let count = 0; count < 500; count += 1) {
        await run(writer, { path: 'd/new.txt', content: 'mine' });
        expect(readdirSync(target).filter((name) => name === 'new.txt')).toEqual([]);
      }
    });
    expect(swaps).toBeGreaterThan(100);
    expect(outside.filter((name) => !name.endsWith('.part'))).toEqual(['a.txt']);
  });
});

describe.runIf(process.platform === 'linux')('F72: kernel files', () => {
  symlinkSync('/proc/self/environ', join(base, 'environment'));
  symlinkSync('/proc', join(base, 'processes'));
  writeFileSync(join(base, 'plain.txt'), 'a');
  const paths = [
    ...[
      '/proc/self/environ',
      '/proc/self/fd/0',
      // The path is never a real file of the machine, because a missing check would let the tool write to that file.
      `/proc/self/root${base}/plain.txt`,
      '/sys/kernel/uevent_seqnum',
      '/dev/null',
    ],
    ...['/dev/../proc/self/environ', join(base, 'environment'), join(base, 'processes', 'self', 'environ')],
  ];

  test('F72: an opened file is checked again, so a link put there meanwhile reaches no system file', async () => {
    const held = await open('/proc/self/status');
    try {
      const asked = join(base, 'plain.txt');
      for (const root of [undefined, '/']) {
        await expect(checkOpened(held, asked, 'plain.txt', root)).rejects.toThrow('belongs to the system');
      }
    } finally {
      await held.close();
    }
    const own = await open(join(base, 'plain.txt'));
    try {
      await checkOpened(own, join(base, 'plain.txt'), 'plain.txt', undefined);
    } finally {
      await own.close();
    }
  });

  test.each(paths)('F72: %s is not read, written or edited without a root', async (path) => {
    for (const root of [undefined, '/']) {
      const options = root === undefined ? {} : { root };
      const outcomes = [
        await run(readFile(options), { path }),
        await run(writeFile(options), { path, content: 'x' }),
        await run(editFile(options), { path, old_text: 'a', new_text: 'b' }),
      ];
      for (const { success, content } of outcomes)
        expect([success, content]).toEqual([false, expect.stringMatching(/Not permitted/)]);
    }
  });
});

test.each(['value', 'URL'])(
  'F72: read_file as a %s refuses the store of its runtime, except for stored results',
  async (kind) => {
    const directory = await kit.directory();
    const alias = join(mkdtempSync(join(base, 'alias-')), 'store');
    symlinkSync(directory, alias);
    const long = tool({
      name: 'long',
      description: 'x',
      input: z.object({}),
      truncate: true,
      run: () => 'line\n'.repeat(10_000),
    });
    const files = ['manifest.json', 'shard-0/data.mdb', '../x/../manifest.json'];
    const paths = files.flatMap((file) => [
      `${directory}/${file.replace('../x/..', 'shard-0/..')}`,
      `${alias}/${file.replace('../x/..', 'shard-0/..')}`,
    ]);
    let saved = '';
    const provider = scripted(({ messages }) => {
      const content = JSON.stringify(messages.at(-1)?.content);
      saved ||= /saved to: ([^\s"\\]+)/.exec(content)?.[1] ?? '';
      const step = messages.filter(({ role }) => role === 'assistant').length;
      if (step === 0) return { toolUse: { name: 'long', input: {} } };
      const path = [...paths, saved][step - 1];
      return path === undefined ? 'Done.' : { toolUse: { name: 'read_file', input: { path, limit: 1 } } };
    });
    const reader = kind === 'URL' ? readFileTool : readFile();
    const runtime = await kit.open({ directory, provider, agents: [agent({ name: 'a', tools: [long, reader] })] });
    await runtime.session('s').ask('Read all');
    const answers = (await runtime.session('s').messages()).filter(({ type }) => type === 'tool_response').slice(1);
    expect(answers).toHaveLength(paths.length + 1);
    for (const { content } of answers.slice(0, -1)) expect(content).toMatch(/Not permitted/);
    expect(answers.at(-1)?.content).toMatch(/^line\n/);
  },
);
