/** The words of the command line, from the tables of the commands. Each shell's script is written from them. Pure. */
import type { Command, OptionSpec, PositionalSpec } from '../command.ts';

/**
 * The values that an option or an argument may have: words of a list, ids of sessions, directories, files, any text.
 */
export type Values = 'session' | 'directory' | 'file' | 'text' | readonly string[];

/** One option. */
export interface OptionWords {
  /** For example `--data`. */
  readonly word: string;
  readonly help: string;
  /** Missing: the option takes no value. */
  readonly values?: Values;
}

/** One command. */
export interface CommandWords {
  readonly name: string;
  readonly summary: string;
  readonly options: readonly OptionWords[];
  /** The arguments in order. */
  readonly arguments: readonly Values[];
}

const FILES: ReadonlySet<string> = new Set(['FILE', 'MODULE']);

/** The words of one command. */
export function wordsOf(name: string, summary: string, { options, positionals }: Command): CommandWords {
  return {
    name,
    summary,
    options: [
      ...Object.entries(options).map(([option, spec]) => ({ word: `--${option}`, ...optionOf(spec) })),
      { word: '--help', help: 'Print the help of the command' },
    ],
    arguments: positionals.map(valuesOfArgument),
  };
}

function optionOf(spec: OptionSpec): Omit<OptionWords, 'word'> {
  return { help: spec.help, ...(spec.kind === 'flag' ? {} : { values: valuesOfOption(spec) }) };
}

function valuesOfOption(spec: Exclude<OptionSpec, { kind: 'flag' }>): Values {
  if (spec.kind === 'count') return 'text';
  if (spec.words !== undefined) return spec.words;
  if (spec.value === 'DIR') return 'directory';
  if (spec.value === 'SESSION') return 'session';
  return FILES.has(spec.value) ? 'file' : 'text';
}

function valuesOfArgument({ completes }: PositionalSpec): Values {
  return completes ?? 'text';
}
