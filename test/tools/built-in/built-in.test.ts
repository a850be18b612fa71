// Goal: read_file and think follow the contract (§11.2), in place over a real directory, and by URL in a thread.
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { ConfigError } from '../../../src/base/errors.ts';
import {
  type ReadFileOptions,
  readFile,
  readFileTool,
  think,
  thinking,
  thinkTool,
} from '../../../src/tools/built-in/index.ts';
import type { AnyTool, ToolOutcome } from '../../../src/tools/tool.ts';
import { describeTool } from '../../../src/tools/tool-schema.ts';
import { executeTool } from '../../support/execute-tool.ts';
import { PoolUnderTest } from '../support.ts';

const base = mkdtempSync(join(tmpdir(), 'troupe-read-'));
const root = join(base, 'root');
mkdirSync(join(root, 'folder'), { recursive: true });
afterAll(() => rmSync(base, { recursive: true, force: true }));
function put(name: string, content: string | Buffer): string {
  writeFileSync(join(root, name), content);
  return name;
}
const run = (tool: AnyTool, input: object): Promise<ToolOutcome> =>
  executeTool(tool, {
    input,
    context: { session: 's', callId: 'c', key: 'k', attempt: 1 },
    timeoutMs: 5_000,
    mode: 'run',
  });
const read = (input: object, options: ReadFileOptions = {}): Promise<ToolOutcome> =>
  run(readFile({ root, ...options }), input);
const ten = put(
  'ten.txt',
  Array.from({ length: 10 }, (_unused, at) => `line ${at + 1}`)
    .join('\n')
    .concat('\n'),
);

describe('read_file', () => {
  test('F147: returns the whole text, with CRLF as LF', async () => {
    expect((await read({ path: put('crlf.txt', 'a\r\nb\r\n') })).content).toBe('a\nb');
    expect((await read({ path: ten })).content.split('\n')).toHaveLength(10);
  });

  test('F147: returns a window, clamped, with a hint how to continue', async () => {
    const { content } = await read({ path: ten, offset: 3, limit: 2 });
    expect(content).toBe('line 3\nline 4\n\n[Showing lines 3-4 of 10. Use offset=5 to continue.]');
    expect((await read({ path: ten, offset: -5, limit: 0 })).content).toContain('[Showing lines 1-1 of 10.');
    expect((await read({ path: ten, limit: 99 }, { maxReadLines: 4 })).content).toContain('lines 1-4 of 10');
    expect((await read({ path: ten, offset: 10 })).content).toBe('line 10');
    const beyond = await read({ path: ten, offset: 11 });
    expect(beyond.content).toMatch(/^\[.*10 lines.*beyond end of file.*\]$/);
    expect(beyond.success).toBe(true);
  });

  test('F147: stops between lines at the byte bound; a longer line is an error', async () => {
    expect((await read({ path: ten }, { maxReadBytes: 20 })).content).toBe(
      'line 1\nline 2\nline 3\n\n[Showing lines 1-3 of 10. Use offset=4 to continue.]',
    );
    const long = await read({ path: put('long.txt', `short\n${'x'.repeat(100)}\n`), offset: 2 }, { maxReadBytes: 50 });
    expect(long).toMatchObject({ success: false });
    expect(long.content).toMatch(/exceeds 50 bytes.*sed/);
  });

  test('Δ19: an empty file reads as (no output)', async () => {
    expect(await read({ path: put('empty.txt', '') })).toMatchObject({ content: '(no output)', success: true });
  });

  test.each([
    ['  ', 'blank'],
    ['missing.txt', 'File not found'],
    ['ten.txt/below', 'File not found'],
    ['folder', 'Is a directory'],
    ['nul\u0000byte', 'Invalid path'],
    ['x'.repeat(5_000), 'Path too long'],
  ])('F147: %j is an error', async (path, text) => {
    const outcome = await read({ path });
    expect(outcome.success).toBe(false);
    expect((JSON.parse(outcome.content) as { error: string }).error).toContain(text);
  });

  test('F147: a file beyond the size bound is refused before it is read', async () => {
    const path = put('big.bin', '');
    truncateSync(join(root, path), 11 * 1024 * 1024);
    expect((await read({ path })).content).toMatch(/Max readable size.*head or tail/);
  });

  test.skipIf(process.getuid?.() === 0)('a file without permission is refused', async () => {
    const path = put('locked.txt', 'x');
    chmodSync(join(root, path), 0o000);
    expect((await read({ path })).content).toContain('Permission denied');
  });

  test('a pipe without a writer does not hang', async () => {
    execFileSync('mkfifo', [join(root, 'pipe')]);
    expect((await read({ path: 'pipe' })).content).toContain('Not a regular file');
  });

  test('F57: bytes that are not UTF-8 are replaced', async () => {
    expect((await read({ path: put('bytes.bin', Buffer.from([0x61, 0xff, 0x62])) })).content).toBe('a\uFFFDb');
  });

  test('F147: without a root relative paths start at the working directory', async () => {
    const path = relative(process.cwd(), join(root, ten));
    expect((await run(readFile(), { path, limit: 1 })).content).toContain('line 1');
  });

  test('F147: is pure and never truncated (§5.4)', () => {
    expect(describeTool(readFile())).toMatchObject({ name: 'read_file', effect: 'pure', truncate: false });
  });

  test('F147: a bad option is refused, and the error names it', () => {
    expect(() => readFile({ maxReadLines: 0 })).toThrow(ConfigError);
    expect(() => readFile({ rooot: '/' } as ReadFileOptions)).toThrow(/rooot/);
  });
});

describe('F72: containment', () => {
  writeFileSync(join(base, 'secret.txt'), 'secret');
  mkdirSync(join(base, 'root-beside'));
  writeFileSync(join(base, 'root-beside', 'secret.txt'), 'secret');
  symlinkSync('../secret.txt', join(root, 'link.txt'));
  symlinkSync('..', join(root, 'up'));
  symlinkSync('ten.txt', join(root, 'inside.txt'));
  test.each([
    '../secret.txt',
    'folder/../../secret.txt',
    '../root-beside/secret.txt',
    join(base, 'secret.txt'),
    'link.txt',
    'up/secret.txt',
    'up/missing.txt',
    '/etc/passwd',
    '../missing.txt',
  ])('%s is outside', async (path) => {
    const outcome = await read({ path });
    expect(outcome.success).toBe(false);
    expect(outcome.content).not.toMatch(/^secret|root:/);
    expect(outcome.content).toMatch(/Outside the permitted directory|File not found/);
  });
  test('a link that stays inside the root is followed', async () => {
    expect((await read({ path: 'inside.txt' })).content).toContain('line 10');
  });
});

describe('think', () => {
  test('think answers OK, and refuses blank thoughts and thoughts beyond the budget', async () => {
    expect((await run(think, { thoughts: 'hm' })).content).toBe('OK');
    expect((await run(think, { thoughts: ' ', visibility: 'aloud' })).success).toBe(false);
    expect((await run(think, { thoughts: 'x', visibility: 'loud' })).success).toBe(false);
    expect((await run(thinking({ thinkingBudget: 3 }), { thoughts: 'long' })).success).toBe(false);
    expect(describeTool(think).inputSchema).toMatchObject({ properties: { thoughts: { maxLength: 10_000 } } });
  });
});

test('the tools are found by URL and run in tool threads', async () => {
  const under = new PoolUnderTest({ threads: 1 });
  const [reader] = await under.pool.describe(readFileTool.href);
  const [thinker] = await under.pool.describe(thinkTool.href);
  expect([reader?.description.name, thinker?.description.name]).toEqual(['read_file', 'think']);
  const place = { kind: 'thread', url: readFileTool.href, exportName: reader?.exportName ?? '' } as const;
  const outcome = await under.runs('read_file', { place, input: { path: join(root, ten), limit: 1 } });
  expect(outcome.content).toContain('line 1');
  await under.pool.close();
});
