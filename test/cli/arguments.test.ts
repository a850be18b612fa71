/** Goal: every argument is read, or refused with exit code 2 and a message that names it. */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readArguments } from '../../src/cli/arguments.ts';
import type { Command } from '../../src/cli/command.ts';
import { COMMANDS } from '../../src/cli/commands.ts';
import { VERSION } from '../../src/runtime/protocol/version.ts';
import { emptyDirectory, runProgram } from './support/program.ts';
import { command } from './support/surroundings.ts';

/** The report that `NODE_V8_COVERAGE` asks for, as far as it is read here. */
interface Coverage {
  readonly result: readonly { readonly url: string }[];
}

const probe: Command = {
  positionals: [
    { name: 'session', required: true, help: 'a session' },
    { name: 'text', required: false, help: 'a text', rest: true },
  ],
  options: {
    dir: { kind: 'text', value: 'DIR', help: 'a directory' },
    limit: { kind: 'count', value: 'N', min: 1, max: 10, help: 'a number' },
    json: { kind: 'flag', help: 'a flag' },
  },
  details: [],
  run: async () => 0,
};

describe('arguments', () => {
  test('are read by the table of the command', () => {
    const given = readArguments(probe, ['one', '--dir=/a b', 'two', '--limit', '7', '--json', '--', '--three']);
    if (given === 'help') throw new Error('help was not asked for');
    expect(given.positional('session')).toBe('one');
    expect(given.positional('text')).toBe('two --three');
    expect([given.text('dir'), given.count('limit'), given.flag('json')]).toEqual(['/a b', 7, true]);
    const bare = readArguments(probe, ['one']);
    if (bare === 'help') throw new Error('help was not asked for');
    expect([bare.text('dir'), bare.count('limit'), bare.flag('json')]).toEqual([undefined, undefined, false]);
    expect(bare.positional('text')).toBeUndefined();
  });

  test('--help and -h take precedence over missing arguments', () => {
    expect(readArguments(probe, ['--help'])).toBe('help');
    expect(readArguments(probe, ['-h', 'one'])).toBe('help');
  });
});

describe('a bad argument is named, with exit code 2', () => {
  test.each([
    [['run', '--dri', 'x'], 'unknown option --dri; did you mean --dir?'],
    [['run', '-x'], 'unknown option -x'],
    [['run', '--dir'], '--dir needs a value'],
    [['run', '--dir='], '--dir must not be blank'],
    [['run', '--dir', 'missing'], '--dir missing cannot be read: no such file or directory'],
    [['run', '--dir', 'file.txt'], '--dir file.txt is not a directory'],
    [['run', '--dir', 'empty'], 'has no source files'],
    [['run', '--limit', 'abc'], '--limit must be a whole number from 1 to 2000, got "abc"'],
    [['run', '--limit', '0'], '--limit must be a whole number from 1 to 2000, got "0"'],
    [['run', '--limit', '-3'], '--limit needs a value'],
    [['run', '--json=yes'], '--json takes no value'],
    [['run', 'extra'], 'unexpected argument "extra"'],
    [['run', '--data', 'file.txt/below'], '--data'],
    [['tail'], '<session> is missing'],
    [['tail', 'a', '--after', 'x'], '--after must be a whole number'],
    [['send', 'only-a-session'], '<text> is missing'],
    [['send', 'not a name', 'hi'], '<session>: session id must match'],
    [['inspect', '--url', 'ftp://x'], '--url must be an http or https address'],
    [['ls', '--url', 'http://x', '--data', 'empty'], '--url and --data exclude each other'],
    [['ls', '--status', 'busy'], '--status must be one of blocked, waiting'],
    [['ls', '--since', 'yesterday'], '--since must be an age such as 90s'],
    [['serve', 'a', '--data', 'b'], 'a directory as an argument and --data exclude each other'],
    [['completion', 'csh'], '<shell> must be one of bash, zsh, fish'],
    [['isnpect'], 'unknown command "isnpect"; did you mean inspect?'],
    [['--verbose'], 'unknown option --verbose; a command comes first'],
  ])('%j', async (line, message) => {
    const directory = await emptyDirectory();
    await mkdir(join(directory, 'empty'));
    await writeFile(join(directory, 'file.txt'), 'text');
    const { code, stderr, stdout } = await command(line, directory);
    expect(stderr).toContain(message);
    expect(stderr).toContain('--help');
    if (COMMANDS.some(({ name }) => name === line[0])) expect(stderr).toContain(`Usage: troupe ${line[0]}`);
    expect(code).toBe(2);
    expect(stdout.includes('"error"')).toBe(false);
    const asJson = await command([...line, '--json'], directory);
    if (!line.join(' ').includes('--json')) {
      const last = asJson.stdout.trim().split('\n').at(-1) ?? '';
      expect(asJson.code).toBe(2);
      expect(JSON.parse(last)).toMatchObject({ error: { code: 'usage' } });
    }
  });
});

describe('help', () => {
  test.each(COMMANDS.map(({ name }) => name))('troupe %s --help lists every option, at 80 columns', async (name) => {
    const { code, stdout, stderr } = await command([name, '--help'], '/');
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toContain(`Usage: troupe ${name}`);
    expect(stdout).toContain('--json');
    expect(stdout).toContain('--help');
    expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80);
  });

  test('the program\u2019s help lists the commands; --version prints its version', async () => {
    for (const line of [[], ['--help'], ['help'], ['-h']]) {
      const { code, stdout } = await command(line, '/');
      expect(code).toBe(0);
      expect(Math.max(...stdout.split('\n').map((text) => text.length))).toBeLessThanOrEqual(80);
      for (const { name } of COMMANDS) expect(stdout).toMatch(new RegExp(`^ {2}${name} `, 'm'));
    }
    expect(await command(['--version'], '/')).toEqual({ code: 0, stdout: `${VERSION}\n`, stderr: '' });
  });

  test.each([['--help'], ['--version'], ['isnpect']])('troupe %s loads no library and no command', async (word) => {
    const directory = await emptyDirectory();
    // Node lists every script that the process loaded.
    await runProgram([word], directory, { NODE_V8_COVERAGE: directory });
    const [report = ''] = await readdir(directory);
    const { result } = JSON.parse(await readFile(join(directory, report), 'utf8')) as Coverage;
    const loaded = result.map(({ url }) => url).filter((url) => url.startsWith('file:'));
    const names = loaded.map((url) => basename(url)).sort();
    expect(names).toEqual([
      'chunk-command.js',
      'chunk-start.js',
      'chunk-surroundings.js',
      'chunk-text-layout.js',
      'cli.js',
    ]);
  });
});
