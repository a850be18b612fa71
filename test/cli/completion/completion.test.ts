/**
 * Goal: the completion scripts of bash, zsh and fish offer every command and option of the table. bash runs its script;
 * the scripts of zsh and fish are read, since these shells may be missing.
 */
import { execFile } from 'node:child_process';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import type { Command } from '../../../src/cli/command.ts';
import { COMMANDS } from '../../../src/cli/commands.ts';
import { emptyDirectory } from '../support/program.ts';
import { command } from '../support/surroundings.ts';

const run = promisify(execFile);

async function scriptOf(shell: string): Promise<string> {
  const { code, stdout, stderr } = await command(['completion', shell], '/');
  expect([code, stderr]).toEqual([0, '']);
  return stdout;
}

function loaded(): Promise<readonly { readonly name: string; readonly summary: string; readonly command: Command }[]> {
  return Promise.all(COMMANDS.map(async ({ name, summary, load }) => ({ name, summary, command: await load() })));
}

test('bash completes commands, options, words, files and ids of sessions', async () => {
  const directory = await emptyDirectory();
  const troupe = join(directory, 'troupe');
  // The program that the script asks for ids, in place of the real one.
  await writeFile(troupe, `#!/bin/sh\nprintf '{"id":"order-1","x":1}\\n{"id":"order-2"}\\n{"id":"child:1"}\\n'\n`);
  await chmod(troupe, 0o755);
  await writeFile(join(directory, 'agents.mjs'), '');
  await writeFile(join(directory, 'script'), await scriptOf('bash'));
  const lines = [
    ['inter'],
    ['ls', '--st'],
    ['ls', '--status', 'f'],
    ['tail', 'order'],
    ['tail', '--limit', '3', '--data', 'x', ''],
    ['tail', 'order-1', ''],
    ['approve', 'order-1', 'c', '--agents', 'a'],
    ['completion', ''],
    ['doctor', 'ch'],
  ];
  const source = `source ./script
${lines.map((line) => `COMP_WORDS=(./troupe ${line.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${line.length}; _troupe; echo "\${COMPREPLY[*]}"`).join('\n')}
complete -p troupe`;
  const { stdout, stderr } = await run('bash', ['--norc', '-c', source], { cwd: directory });
  expect(stderr).toBe('');
  expect(stdout.trimEnd().split('\n')).toEqual([
    'interrupt',
    '--status --state',
    'failed',
    'order-1 order-2',
    'order-1 order-2',
    '',
    'agents.mjs',
    'bash zsh fish',
    'check',
    'complete -F _troupe troupe',
  ]);
});

test('bash offers every command, and every option of each', async () => {
  const directory = await emptyDirectory();
  await writeFile(join(directory, 'script'), await scriptOf('bash'));
  const commands = await loaded();
  const source = `source ./script
for line in '' ${commands.map(({ name }) => `'${name} --'`).join(' ')}; do
COMP_WORDS=(troupe $line); [ -z "$line" ] && COMP_WORDS+=(''); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _troupe; echo "\${COMPREPLY[*]}"
done`;
  const { stdout } = await run('bash', ['--norc', '-c', source], { cwd: directory });
  const [first = '', ...rest] = stdout.trimEnd().split('\n');
  expect(first.split(' ')).toEqual([...commands.map(({ name }) => name), 'help', '--help', '--version']);
  expect(rest.map((line) => line.split(' '))).toEqual(
    commands.map(({ command: { options } }) => [...Object.keys(options).map((name) => `--${name}`), '--help']),
  );
});

test('zsh has a case for every command, with its options and their texts quoted', async () => {
  const script = await scriptOf('zsh');
  expect(script.startsWith('#compdef troupe\n')).toBe(true);
  const cases = new Map(
    [...script.matchAll(/^ {4}([a-z-]+)\)\n {6}_arguments -S \\\n([\s\S]*?)\n {6};;$/gmu)].map(([, name, specs]) => [
      name,
      specs,
    ]),
  );
  for (const {
    name,
    command: { options },
  } of await loaded()) {
    const specs = (cases.get(name) ?? '').split('\n').map((line) => line.trim().replace(/ \\$/u, ''));
    for (const spec of specs) expect(spec, name).toMatch(/^'(?:[^']|'\\'')*'$/u);
    const offered = specs.flatMap((spec) => /^'(--[a-z-]+)\[/u.exec(spec)?.[1] ?? []);
    expect(offered, name).toEqual([...Object.keys(options).map((option) => `--${option}`), '--help']);
  }
  expect(cases.get('tail')).toContain(`'1:session:_troupe_sessions'`);
});

test('fish has a line for every command and option, each a command that fish reads', async () => {
  const script = await scriptOf('fish');
  const lines = script.split('\n').filter((line) => line.startsWith('complete '));
  const text = String.raw`'(?:[^'\\]|\\['\\])*'`;
  const form = new RegExp(
    `^complete -c troupe(?: -f| -n __fish_use_subcommand -a [a-z-]+ -d ${text}| -n ${text}(?: -l [a-z-]+)?(?: -r -F| -x)?(?: -a ${text})?(?: -d ${text})?)$`,
    'u',
  );
  for (const line of lines) expect(line).toMatch(form);
  for (const {
    name,
    command: { options },
  } of await loaded()) {
    expect(
      lines.some((line) => line.includes(`__fish_use_subcommand -a ${name} `)),
      name,
    ).toBe(true);
    for (const option of [...Object.keys(options), 'help']) {
      expect(
        lines.some((line) => line.includes(`from ${name}' -l ${option} `)),
        `${name} --${option}`,
      ).toBe(true);
    }
  }
});
