// Goal: write_file and edit_file follow the contract (§11.2), over a real directory: what they write and report, what
// they refuse, the root's wall, concurrent calls, and calls that run twice because of a crash.
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import { ConfigError } from '../../../src/base/errors.ts';
import {
  type EditFileOptions,
  editFile,
  editFileTool,
  type WriteFileOptions,
  writeFile,
  writeFileTool,
} from '../../../src/tools/built-in/index.ts';
import { lockOf } from '../../../src/tools/built-in/replace-file.ts';
import type { AnyTool, ToolOutcome } from '../../../src/tools/tool.ts';
import { describeTool } from '../../../src/tools/tool-schema.ts';
import { executeTool } from '../../support/execute-tool.ts';
import { PoolUnderTest } from '../support.ts';

const base = realpathSync(mkdtempSync(join(tmpdir(), 'troupe-files-')));
const root = join(base, 'root');
mkdirSync(join(root, 'folder'), { recursive: true });
afterAll(() => rmSync(base, { recursive: true, force: true }));

function put(name: string, content: string | Buffer): string {
  mkdirSync(dirname(join(root, name)), { recursive: true });
  writeFileSync(join(root, name), content);
  return name;
}
const textOf = (name: string): string => readFileSync(join(root, name), 'utf8');
const run = (tool: AnyTool, input: object, mode: 'run' | 'probe' = 'run'): Promise<ToolOutcome> =>
  executeTool(tool, { input, context: { session: 's', callId: 'c', key: 'k', attempt: 1 }, timeoutMs: 60_000, mode });
const write = (path: string, content: string, options: WriteFileOptions = {}): Promise<ToolOutcome> =>
  run(writeFile({ root, ...options }), { path, content });
const edit = (path: string, old_text: string, new_text: string, options: EditFileOptions = {}): Promise<ToolOutcome> =>
  run(editFile({ root, ...options }), { path, old_text, new_text });
function errorOf(outcome: ToolOutcome): string {
  expect(outcome.success).toBe(false);
  return (JSON.parse(outcome.content) as { error: string }).error;
}
/** A change leaves no temporary file behind. */
const litter = (directory = root): readonly string[] =>
  readdirSync(directory, { recursive: true })
    .map(String)
    .filter((name) => name.includes('.troupe-'));
/** A link at a path, removed at the end of its test. */
function link(target: string, name: string): string {
  symlinkSync(target, join(root, name));
  onTestFinished(() => rmSync(join(root, name), { force: true }));
  return name;
}
const isRoot = process.getuid?.() === 0;

describe('F147: write_file', () => {
  test('F147: creates parent directories, writes the exact content, reports bytes and the absolute path', async () => {
    const content = '\uFEFFone\r\ntwo\n\tdrei ä 🚋 \u0000 end';
    const outcome = await write('new/deep/er/a.txt', content);
    const bytes = Buffer.byteLength(content);
    expect(outcome).toMatchObject({
      content: `Wrote ${bytes} bytes to ${join(root, 'new/deep/er/a.txt')}`,
      success: true,
    });
    expect(textOf('new/deep/er/a.txt')).toBe(content);
    expect((await write('new/deep/er/a.txt', '')).content).toContain('Wrote 0 bytes');
    expect(textOf('new/deep/er/a.txt')).toBe('');
    expect(litter()).toEqual([]);
  });

  test('F147: without a root relative paths start at the working directory', async () => {
    const place = join(root, 'absolute.txt');
    expect((await run(writeFile(), { path: place, content: 'x' })).content).toBe(`Wrote 1 bytes to ${place}`);
    const missing = await run(editFile(), { path: 'no-such-file.txt', old_text: 'a', new_text: 'b' });
    expect(errorOf(missing)).toContain('File not found');
  });

  test.skipIf(process.platform === 'win32')(
    'F147: an existing file keeps its mode; a new one has the usual mode',
    async () => {
      const path = put('script.sh', 'old');
      chmodSync(join(root, path), 0o751);
      await write(path, 'new');
      expect(statSync(join(root, path)).mode & 0o7777).toBe(0o751);
      await write('usual.txt', 'x');
      writeFileSync(join(root, 'other.txt'), 'x');
      expect(statSync(join(root, 'usual.txt')).mode).toBe(statSync(join(root, 'other.txt')).mode);
    },
  );

  test.skipIf(!isRoot)('F147: an existing file keeps its owner (only root can change owners)', async () => {
    const path = put('owned.txt', 'old');
    execFileSync('chown', ['12345:23456', join(root, path)]);
    await write(path, 'new');
    expect(statSync(join(root, path))).toMatchObject({ uid: 12_345, gid: 23_456 });
  });

  test.each([
    ['  ', 'blank'],
    ['folder', 'Is a directory'],
    ['folder/', 'Is a directory'],
    ['nothing-yet/', 'Is a directory'],
    ['.', 'Is a directory'],
    ['file.txt/below.txt', 'Not a directory on the way'],
    ['nul\u0000byte', 'Invalid path'],
    ['x'.repeat(5_000), 'Path too long'],
  ])('F147: %j is an error', async (path, text) => {
    put('file.txt', 'x');
    expect(errorOf(await write(path, 'content'))).toContain(text);
    expect(litter()).toEqual([]);
  });

  test('F147: a pipe and a device are refused', async () => {
    execFileSync('mkfifo', [join(root, 'pipe')]);
    onTestFinished(() => rmSync(join(root, 'pipe')));
    expect(errorOf(await write('pipe', 'x'))).toContain('Not a regular file');
    expect(errorOf(await run(writeFile(), { path: '/dev/null', content: 'x' }))).toContain('Not permitted');
  });

  test('F147: content beyond the bound is refused, and the file is unchanged', async () => {
    const path = put('bounded.txt', 'old');
    expect(errorOf(await write(path, 'ää', { maxFileSize: 3 }))).toMatch(/Content too large.*4 bytes, at most 3/);
    expect((await write(path, 'äa', { maxFileSize: 3 })).success).toBe(true);
  });

  test.skipIf(isRoot)(
    'F147: files and directories without permission are refused (root may write them all)',
    async () => {
      const path = put('locked.txt', 'x');
      chmodSync(join(root, path), 0o444);
      expect(errorOf(await write(path, 'y'))).toContain('Not writable');
      expect(errorOf(await edit(path, 'x', 'y'))).toContain('Not writable');
      put('shut/a.txt', 'x');
      chmodSync(join(root, 'shut'), 0o555);
      onTestFinished(() => chmodSync(join(root, 'shut'), 0o755));
      expect(errorOf(await write('shut/b.txt', 'y'))).toContain('Permission denied');
    },
  );

  test('F147: a full device and a read-only one are named in the error; the old content stays complete', async ({
    skip,
  }) => {
    const place = join(base, 'device');
    mkdirSync(place);
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=65536', 'tmpfs', place], { stdio: 'ignore' });
    } catch {
      skip('this process may not mount a file system');
    }
    onTestFinished(() => void execFileSync('umount', [place]));
    const path = join(place, 'a.txt');
    const tool = writeFile();
    expect((await run(tool, { path, content: 'old' })).success).toBe(true);
    expect(errorOf(await run(tool, { path, content: 'x'.repeat(100_000) }))).toContain('No space left on device');
    expect(readFileSync(path, 'utf8')).toBe('old');
    expect(litter(place)).toEqual([]);
    execFileSync('mount', ['-o', 'remount,ro', place]);
    expect(errorOf(await run(tool, { path, content: 'new' }))).toContain('Read-only file system');
    const changed = await run(editFile(), { path, old_text: 'old', new_text: 'new' });
    expect(errorOf(changed)).toContain('Read-only file system');
    expect(readFileSync(path, 'utf8')).toBe('old');
  });
});

describe('F148: edit_file', () => {
  test('F148: replaces the one match, and returns a unified diff with three lines of context', async () => {
    const path = put('lines.txt', '1\n2\n3\n4\n5\n6\n7\n8\n9\n');
    expect((await edit(path, '5\n', 'five\nfünf\n')).content).toBe(
      '--- lines.txt\n+++ lines.txt\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+fünf\n 6\n 7\n 8\n',
    );
    expect(textOf(path)).toBe('1\n2\n3\n4\nfive\nfünf\n6\n7\n8\n9\n');
    expect((await edit(path, 'fünf\n6\n', '')).success).toBe(true);
    expect(textOf(path)).toBe('1\n2\n3\n4\nfive\n7\n8\n9\n');
    expect(litter()).toEqual([]);
  });

  test('F148: text that looks like a replacement pattern is inserted literally', async () => {
    const path = put('dollar.txt', 'a [x] b');
    await edit(path, '[x]', "$& $1 $' $$");
    expect(textOf(path)).toBe("a $& $1 $' $$ b");
  });

  test('F148: CRLF and the byte order mark are preserved, whatever line ends the model sends', async () => {
    const path = put('windows.txt', '\uFEFFone\r\ntwo\r\nthree\r\n');
    const { content } = await edit(path, 'one\ntwo', 'eins\nzwei\nzwo');
    expect(content).not.toMatch(/\r|\uFEFF/);
    expect(textOf(path)).toBe('\uFEFFeins\r\nzwei\r\nzwo\r\nthree\r\n');
    await edit(path, '\uFEFFeins\r\nzwei', '\uFEFFone\r\ntwo');
    expect(textOf(path)).toBe('\uFEFFone\r\ntwo\r\nzwo\r\nthree\r\n');
    await edit(path, 'three', 'three\nfour');
    expect(textOf(path)).toBe('\uFEFFone\r\ntwo\r\nzwo\r\nthree\r\nfour\r\n');
  });

  test('F148: in a file with mixed line ends everything outside the match stays unchanged', async () => {
    const path = put('mixed.txt', 'a\r\nb\nc\r\nd\ne\rf\n');
    await edit(path, 'c\nd', 'C\nD');
    expect(textOf(path)).toBe('a\r\nb\nC\r\nD\ne\rf\n');
    await edit(path, 'b\nC', 'B\nC');
    expect(textOf(path)).toBe('a\r\nB\nC\r\nD\ne\rf\n');
  });

  test('F148: without an exact match lines are matched ignoring white space, and the answer says so', async () => {
    const path = put('code.ts', 'if (a) {\n\tcall( x,  y );\n}\nend\n');
    const outcome = await edit(path, 'if (a) {\n    call(x, y);\n}\n', 'other();\n');
    expect(outcome.content).toMatch(/^\[fuzzy match: .*\]\n\n--- code.ts\n\+\+\+ code.ts\n@@ -1,4 \+1,2 @@\n/);
    expect(textOf(path)).toBe('other();\nend\n');
    await edit(path, '  end', 'done');
    expect(textOf(path)).toBe('other();\ndone\n');
    // Compares whole lines: a part of a line does not match.
    expect(errorOf(await edit(path, 'oth er', 'x'))).toContain('Could not find old_text');
  });

  test('F148: several matches are refused with their number and lines, fuzzy and overlapping ones included', async () => {
    const path = put('twice.txt', 'x = 1\ny\nx = 1\n');
    expect(errorOf(await edit(path, 'x = 1', 'z'))).toMatch(/2 matches.*lines: 1, 3\)/);
    expect(errorOf(await edit(path, ' x=1 ', 'z'))).toMatch(/2 fuzzy matches.*lines: 1, 3\)/);
    expect(errorOf(await edit(put('aaa.txt', 'aaa'), 'aa', 'z'))).toMatch(/2 matches.*lines: 1, 1\)/);
    const many = errorOf(await edit(put('many.txt', 'q\n'.repeat(5_000)), 'q', 'z'));
    expect(many).toMatch(/more than 1000 matches.*lines: 1, 2, 3, .*, 20, …\)/);
    expect(textOf(path)).toBe('x = 1\ny\nx = 1\n');
  });

  test.each([
    [' ', 'a', 'b', 'path cannot be blank'],
    ['plain.txt', ' \n', 'b', 'old_text cannot be blank'],
    ['plain.txt', 'text', 'text', 'identical'],
    ['plain.txt', ' text ', 'text', 'identical'],
    ['plain.txt', 'absent', 'b', 'Could not find old_text in plain.txt. Use read_file'],
    ['missing.txt', 'a', 'b', 'File not found'],
    ['folder', 'a', 'b', 'Is a directory'],
    ['bytes.bin', 'a', 'b', 'Not a UTF-8 text'],
  ])('F148: %j with %j for %j is an error', async (path, old_text, new_text, text) => {
    put('plain.txt', 'text\n');
    put('bytes.bin', Buffer.from([0x61, 0xff, 0x62]));
    expect(errorOf(await edit(path, old_text, new_text))).toContain(text);
    expect(textOf('plain.txt')).toBe('text\n');
    expect(readFileSync(join(root, 'bytes.bin'))).toEqual(Buffer.from([0x61, 0xff, 0x62]));
    expect(litter()).toEqual([]);
  });

  test('F148: a file that exceeds the size bound before or after the edit is refused', async () => {
    const path = put('size.txt', '12345');
    expect(errorOf(await edit(path, '1', '2', { maxFileSize: 4 }))).toContain('Max readable size is 4 bytes');
    expect(errorOf(await edit(path, '1', '22', { maxFileSize: 5 }))).toContain('6 bytes, at most 5');
    expect(textOf(path)).toBe('12345');
  });

  test.skipIf(process.platform === 'win32')('F148: the edited file keeps its mode', async () => {
    const path = put('mode.sh', 'old');
    chmodSync(join(root, path), 0o755);
    await edit(path, 'old', 'new');
    expect(statSync(join(root, path)).mode & 0o7777).toBe(0o755);
  });
});

describe('F147, F148, F72: links and containment', () => {
  writeFileSync(join(base, 'secret.txt'), 'secret');
  mkdirSync(join(base, 'root-beside'));

  test('F147, F148: a link is followed: the link stays, and its target is replaced', async () => {
    put('target.txt', 'one');
    link('target.txt', 'first');
    link('first', 'second');
    await write('second', 'two');
    await edit('second', 'two', 'three');
    expect(textOf('target.txt')).toBe('three');
    expect(readlinkSync(join(root, 'second'))).toBe('first');
    expect(lstatSync(join(root, 'target.txt')).isSymbolicLink()).toBe(false);
  });

  test('F147: a link to a missing file creates that file, with its directories', async () => {
    link('later/on/file.txt', 'ahead');
    link('later', 'door');
    expect((await write('ahead', 'here')).content).toContain(join(root, 'ahead'));
    expect(textOf('later/on/file.txt')).toBe('here');
    await write('door/more/x.txt', 'x');
    expect(textOf('later/more/x.txt')).toBe('x');
    expect(lstatSync(join(root, 'ahead')).isSymbolicLink()).toBe(true);
  });

  test('F147: a cycle of links is an error', async () => {
    link('ring-b', 'ring-a');
    link('ring-a', 'ring-b');
    expect(errorOf(await write('ring-a', 'x'))).toContain('Too many links');
    link('round/x', 'round');
    expect(errorOf(await write('round', 'x'))).toContain('Too many links');
  });

  const outside = [
    '../secret.txt',
    '../new.txt',
    'folder/../../new.txt',
    '../root-beside/new.txt',
    join(base, 'secret.txt'),
    'to-secret',
    'to-nothing',
    'up/secret.txt',
    'up/new.txt',
    'up/new/er.txt',
    'to-new-directory/x.txt',
    'round-about',
  ];
  test.each(outside)(
    'F147, F148, F72: %s is outside, for new files too, and nothing is created there',
    async (path) => {
      link('../secret.txt', 'to-secret');
      link('../new.txt', 'to-nothing');
      link('..', 'up');
      link('../made', 'to-new-directory');
      link('missing/../../new.txt', 'round-about');
      const before = readdirSync(base, { recursive: true }).toSorted();
      expect(errorOf(await write(path, 'x'))).toContain('Outside the permitted directory');
      expect(errorOf(await edit(path, 'secret', 'x'))).toContain('Outside the permitted directory');
      expect(readFileSync(join(base, 'secret.txt'), 'utf8')).toBe('secret');
      expect(readdirSync(base, { recursive: true }).toSorted()).toEqual(before);
    },
  );
});

describe('F147, F148: concurrent calls', () => {
  const lines = (count: number): string => Array.from({ length: count }, (_unused, at) => `line-${at};\n`).join('');
  const done = (count: number): string => lines(count).replaceAll('line', 'done');

  test('F148: of many edits of one file none is lost, whatever name the edit uses', async () => {
    put('many-edits.txt', lines(40));
    link('many-edits.txt', 'same-file');
    const outcomes = await Promise.all(
      Array.from({ length: 40 }, (_unused, at) =>
        edit(at % 2 === 0 ? 'many-edits.txt' : 'same-file', `line-${at};`, `done-${at};`),
      ),
    );
    expect(outcomes.filter(({ success }) => !success)).toEqual([]);
    expect(textOf('many-edits.txt')).toBe(done(40));
    expect(litter()).toEqual([]);
  });

  test('F148: no edit is lost in tool threads either, although they do not know each other', async () => {
    const path = join(root, put('threads.txt', lines(12)));
    const under = new PoolUnderTest({ threads: 2 });
    const [editor] = await under.pool.describe(editFileTool.href);
    const [writer] = await under.pool.describe(writeFileTool.href);
    expect([editor?.description.name, writer?.description.name]).toEqual(['edit_file', 'write_file']);
    const place = { kind: 'thread', url: editFileTool.href, exportName: editor?.exportName ?? '' } as const;
    const outcomes = await Promise.all(
      Array.from({ length: 12 }, (_unused, at) =>
        under.runs('edit_file', { place, input: { path, old_text: `line-${at};`, new_text: `done-${at};` } }),
      ),
    );
    expect(outcomes.filter(({ success }) => !success)).toEqual([]);
    expect(textOf('threads.txt')).toBe(done(12));
    expect(litter()).toEqual([]);
    await under.pool.close();
  });

  test('F147: a reader finds the old content or the new, always complete', async () => {
    const contents = ['a', 'b', 'c'].map((letter) => letter.repeat(300_000));
    const path = put('read.txt', contents[0] ?? '');
    let isOver = false;
    const writing = (async () => {
      for (let at = 0; at < 8; at += 1) await write(path, contents[at % 3] ?? '');
      isOver = true;
    })();
    const seen = new Set<string>();
    while (!isOver) {
      const text = textOf(path);
      seen.add(`${text[0]} ${text.length} ${text === (text[0] ?? '').repeat(300_000)}`);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await writing;
    for (const each of seen) expect(each).toMatch(/^[abc] 300000 true$/);
  });

  /** Resolves when an edit in this directory has read its file and waits for the lock. */
  const waitsForLock = (name: string): Promise<void> =>
    expect.poll(() => readdirSync(join(root, name)).some((file) => file.endsWith('.part'))).toBe(true);

  test('F148: an edit that waited keeps changes others made meanwhile, and applies to the changed file', async () => {
    const path = put('changed/a.txt', 'one\ntwo\n');
    const lock = lockOf(join(root, path));
    writeFileSync(lock, '');
    const editing = edit(path, 'two', 'zwei');
    await waitsForLock('changed');
    put(path, 'ONE\ntwo\n');
    rmSync(lock);
    expect((await editing).content).toContain(' ONE\n-two\n+zwei\n');
    expect(textOf(path)).toBe('ONE\nzwei\n');
    writeFileSync(lock, '');
    const second = edit(path, 'zwei', 'deux');
    await waitsForLock('changed');
    put(path, 'all else\n');
    rmSync(lock);
    expect(errorOf(await second)).toContain('Could not find old_text');
    expect(textOf(path)).toBe('all else\n');
    expect(litter()).toEqual([]);
  });

  test('F148: edits of one file wait for their turn before they read it; edits of other files do not wait', async () => {
    const path = put('turns/a.txt', 'one two');
    const lock = lockOf(join(root, path));
    writeFileSync(lock, '');
    const edits = [edit(path, 'one', 'eins'), edit(path, 'two', 'zwei')];
    await waitsForLock('turns');
    put('passing/b.txt', '0');
    for (let at = 0; at < 5; at += 1) await edit('passing/b.txt', String(at), String(at + 1));
    expect(litter(join(root, 'turns')).filter((name) => name.endsWith('.part'))).toHaveLength(1);
    rmSync(lock);
    await Promise.all(edits);
    expect(textOf(path)).toBe('eins zwei');
  });

  test('F147: a call that was cancelled while it waited changes nothing', async () => {
    const path = put('given-up/a.txt', 'old');
    const lock = lockOf(join(root, path));
    writeFileSync(lock, '');
    const controller = new AbortController();
    const context = {
      signal: controller.signal,
      session: 's',
      callId: 'c',
      key: 'k',
      attempt: 1,
      progress: () => undefined,
    };
    const writing = Promise.resolve(writeFile({ root }).run({ path, content: 'never' }, context));
    await waitsForLock('given-up');
    controller.abort(new Error('stop'));
    expect(await writing).toHaveProperty('error');
    rmSync(lock);
    expect(textOf(path)).toBe('old');
    expect(litter()).toEqual([]);
  });

  test('F148: a lock left behind by a dead owner is removed', async () => {
    const path = put('dead/a.txt', 'one');
    writeFileSync(lockOf(join(root, path)), '');
    expect((await edit(path, 'one', 'two')).success).toBe(true);
    expect(textOf(path)).toBe('two');
    expect(litter()).toEqual([]);
  });
});

describe('F147, F148: a crash before the result', () => {
  const probe = (tool: AnyTool, input: object): Promise<ToolOutcome> => run(tool, input, 'probe');

  test('F147, F148: both tools are probed, not run again blindly', () => {
    expect(describeTool(writeFile())).toMatchObject({ name: 'write_file', effect: 'probe' });
    expect(describeTool(editFile())).toMatchObject({ name: 'edit_file', effect: 'probe' });
  });

  test('F147: a file that holds the content counts as written and is not touched; otherwise it is written', async () => {
    const call = { path: 'again.txt', content: 'content\n' };
    const first = await probe(writeFile({ root }), call);
    expect(textOf('again.txt')).toBe('content\n');
    utimesSync(join(root, 'again.txt'), 1_000, 1_000);
    const { ino } = statSync(join(root, 'again.txt'));
    expect(await probe(writeFile({ root }), call)).toMatchObject({ content: first.content, success: true });
    expect(statSync(join(root, 'again.txt'))).toMatchObject({ ino, mtimeMs: 1_000_000 });
    put('again.txt', 'Content\n');
    await probe(writeFile({ root }), call);
    expect(textOf('again.txt')).toBe('content\n');
    expect(errorOf(await probe(writeFile({ root }), { path: 'folder', content: '' }))).toContain('Is a directory');
  });

  const call = { path: 'probed.txt', old_text: 'two\n', new_text: 'zwei\n' };
  test('F148: an edit that was not made is made', async () => {
    put('probed.txt', 'one\ntwo\nthree\n');
    expect((await probe(editFile({ root }), call)).content).toContain('-two\n+zwei\n');
    expect(textOf('probed.txt')).toBe('one\nzwei\nthree\n');
  });

  test.each([
    ['one\r\ntwo\r\nthree\r\n', 'one\r\nzwei\r\nthree\r\n'],
    ['\uFEFFtwo\n', '\uFEFFzwei\n'],
  ])('F148: an edit that was made is answered with its diff and not repeated: %j', async (before, after) => {
    put('probed.txt', before);
    const { content } = await run(editFile({ root }), call);
    expect(textOf('probed.txt')).toBe(after);
    const outcome = await probe(editFile({ root }), call);
    expect(outcome).toMatchObject({ success: true });
    expect(outcome.content).toMatch(/^\[The call was cut off/);
    expect(outcome.content.endsWith(content)).toBe(true);
    expect(textOf('probed.txt')).toBe(after);
  });

  test('F148: a deleted text counts as deleted; a text that was never there is reported as missing', async () => {
    put('probed.txt', 'one\nthree\n');
    expect((await probe(editFile({ root }), { ...call, new_text: '' })).content).toMatch(/^\[The call was cut off/);
    expect(errorOf(await probe(editFile({ root }), call))).toContain('Could not find old_text');
    expect(errorOf(await probe(editFile({ root }), { ...call, new_text: 'two\n' }))).toContain('identical');
  });

  test('F148: if the outcome cannot be determined it is reported as unknown, and nothing is inserted twice', async () => {
    put('probed.txt', 'one\ntwo\n');
    const behind = { path: 'probed.txt', old_text: 'two\n', new_text: 'two\nthree\n' };
    await run(editFile({ root }), behind);
    expect(textOf('probed.txt')).toBe('one\ntwo\nthree\n');
    expect(errorOf(await probe(editFile({ root }), behind))).toContain('outcome is unknown');
    expect(textOf('probed.txt')).toBe('one\ntwo\nthree\n');
  });
});

test('F147, F148: a bad option is refused, and the error names it', () => {
  expect(() => writeFile({ maxFileSize: 0 })).toThrow(ConfigError);
  expect(() => writeFile({ rooot: '/' } as WriteFileOptions)).toThrow(/rooot/);
  expect(() => editFile({ maxFileSize: 1.5 })).toThrow(ConfigError);
  expect(() => editFile({ rooot: '/' } as EditFileOptions)).toThrow(/rooot/);
});
