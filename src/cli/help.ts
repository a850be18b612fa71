/** Writes help texts from the tables of the commands. Pure. */
import type { Command, CommandEntry, OptionSpec } from './command.ts';
import { wrap } from './text-layout.ts';

const COLUMNS = 79;
const GUTTER = 2;

/** Help of the program: a list of its commands. */
export function programHelp(commands: readonly CommandEntry[], version: string): string {
  return [
    `troupe ${version}: an actor runtime for LLM agent sessions`,
    '',
    'Usage: troupe <command> [options]',
    '',
    'Commands:',
    ...table(commands.map(({ name, summary }) => [name, summary])),
    '',
    'Sessions are found by --url or --data, by TROUPE_URL or TROUPE_DATA, or in',
    './data. If a process serves the directory, its server is asked.',
    '',
    '`troupe <command> --help` describes one; every command has --json.',
    '',
  ].join('\n');
}

/** How a command is called, in one line. */
export function usageLine(called: string, { positionals }: Command): string {
  const words = positionals.map(({ name, required, rest }) => {
    const word = `${name}${rest === true ? '...' : ''}`;
    return required ? `<${word}>` : `[${word}]`;
  });
  return `Usage: ${['troupe', called, ...words, '[options]'].join(' ')}`;
}

/** Help of one command. */
export function commandHelp({ name: called, summary }: CommandEntry, command: Command): string {
  const lines = [`troupe ${called}: ${summary}`, '', usageLine(called, command), ''];
  if (command.positionals.length > 0) {
    lines.push('Arguments:', ...table(command.positionals.map(({ name, help }) => [name, help])), '');
  }
  const options = Object.entries(command.options).map(([name, spec]) => [optionWord(name, spec), spec.help] as const);
  lines.push('Options:', ...table([...options, ['-h, --help', 'Print this text']]), '');
  for (const paragraph of command.details) lines.push(...wrap(paragraph, COLUMNS), '');
  return lines.join('\n');
}

function optionWord(name: string, spec: OptionSpec): string {
  return spec.kind === 'flag' ? `--${name}` : `--${name} ${spec.value}`;
}

function table(rows: readonly (readonly [string, string])[]): readonly string[] {
  const width = Math.max(...rows.map(([word]) => word.length)) + GUTTER;
  return rows.flatMap(([word, text]) =>
    wrap(text, COLUMNS - width - GUTTER).map(
      (line, index) => `${' '.repeat(GUTTER)}${(index === 0 ? word : '').padEnd(width)}${line}`,
    ),
  );
}
