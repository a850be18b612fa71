/** Reads the arguments of a command line by the command's own table of options. */
import { parseArgs } from 'node:util';
import { systemCodeOf } from '../base/errors.ts';
import { namesHint } from '../base/near-names.ts';
import { type Arguments, type Command, UsageError } from './command.ts';

/** The option that every command has. */
const HELP = 'help';
const WHOLE_NUMBER = /^\d{1,9}$/;

/** The arguments, or `help` if it is requested. Throws `UsageError` that names the wrong argument. */
export function readArguments(command: Command, line: readonly string[]): Arguments | typeof HELP {
  const { values, positionals } = parse(command, line);
  if (values[HELP] === true) return HELP;
  const texts = new Map<string, string>();
  const counts = new Map<string, number>();
  const flags = new Set<string>();
  for (const [name, spec] of Object.entries(command.options)) {
    const value = values[name];
    if (value === undefined) continue;
    if (spec.kind === 'flag') flags.add(name);
    else if (spec.kind === 'count') counts.set(name, wholeNumber(name, String(value), spec));
    else texts.set(name, notBlank(name, String(value)));
  }
  const named = readPositionals(command, positionals);
  return {
    text: (name) => texts.get(name),
    count: (name) => counts.get(name),
    flag: (name) => flags.has(name),
    positional: (name) => named.get(name),
  };
}

interface Parsed {
  readonly values: Readonly<Record<string, unknown>>;
  readonly positionals: readonly string[];
}

function parse(command: Command, line: readonly string[]): Parsed {
  const options = Object.fromEntries(
    Object.entries(command.options).map(([name, { kind }]) => [
      name,
      { type: kind === 'flag' ? ('boolean' as const) : ('string' as const) },
    ]),
  );
  try {
    return parseArgs({
      args: [...line],
      options: { ...options, [HELP]: { type: 'boolean', short: 'h' } },
      allowPositionals: true,
      strict: true,
    });
  } catch (error) {
    throw new UsageError(explain(command, error), { cause: error });
  }
}

/** Explains a parse error in the program's own words, because Node's messages add advice on quoting. */
function explain(command: Command, error: unknown): string {
  const code = systemCodeOf(error);
  const message = error instanceof Error ? error.message : String(error);
  const option = /--?[\w-]+/.exec(message)?.[0] ?? '';
  if (code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION') {
    const known = [...Object.keys(command.options), HELP];
    return `unknown option ${option}${namesHint(option.replace(/^-+/, ''), known, 'options', (name) => `--${name}`)}`;
  }
  const spec = command.options[option.replace(/^-+/, '')];
  if (code !== 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE' || option === '') return message;
  if (spec === undefined || spec.kind === 'flag') return `${option} takes no value`;
  return `${option} needs a value: ${option} ${spec.value}`;
}

function wholeNumber(name: string, value: string, spec: { readonly min: number; readonly max: number }): number {
  const found = WHOLE_NUMBER.test(value) ? Number(value) : Number.NaN;
  if (found >= spec.min && found <= spec.max) return found;
  throw new UsageError(
    `--${name} must be a whole number from ${spec.min} to ${spec.max}, got ${JSON.stringify(value)}`,
  );
}

function notBlank(name: string, value: string): string {
  if (value.trim() === '') throw new UsageError(`--${name} must not be blank`);
  return value;
}

function readPositionals(command: Command, given: readonly string[]): ReadonlyMap<string, string> {
  const named = new Map<string, string>();
  for (const [index, spec] of command.positionals.entries()) {
    const value = spec.rest === true ? given.slice(index).join(' ') : given[index];
    if (value !== undefined && value.trim() !== '') named.set(spec.name, value);
    else if (spec.required) throw new UsageError(`<${spec.name}> is missing (${spec.help})`);
  }
  const takesRest = command.positionals.at(-1)?.rest === true;
  const extra = takesRest ? undefined : given[command.positionals.length];
  if (extra !== undefined) throw new UsageError(`unexpected argument ${JSON.stringify(extra)}`);
  return named;
}
