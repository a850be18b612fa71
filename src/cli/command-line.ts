/** The program as a function: it takes a line of arguments and returns an exit code. */
import { TroupeError } from '../base/errors.ts';
import { namesHint } from '../base/near-names.ts';
import { VERSION } from '../runtime/protocol/version.ts';
import { readArguments } from './arguments.ts';
import { type CommandEntry, EXIT, NotFoundError, ServerError, UsageError } from './command.ts';
import { COMMANDS } from './commands.ts';
import { commandHelp, programHelp, usageLine } from './help.ts';
import { paintFor, type Surroundings } from './surroundings.ts';
import { printable, printableJson } from './text-layout.ts';

/** Maximum causes shown below an error. */
const CAUSES_MAX = 3;

/** Runs one command line. Resolves to its exit code (`EXIT`). A failure is printed to stderr first. Never rejects. */
export async function runCommandLine(line: readonly string[], surroundings: Surroundings): Promise<number> {
  const [name, ...rest] = line;
  let usage = '';
  try {
    if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
      surroundings.stdout.write(programHelp(COMMANDS, VERSION));
      return EXIT.ok;
    }
    if (name === '--version' || name === '-v') {
      surroundings.stdout.write(`${VERSION}\n`);
      return EXIT.ok;
    }
    const entry = entryNamed(name);
    const command = await entry.load();
    usage = usageLine(entry.name, command);
    const given = readArguments(command, rest);
    if (given !== 'help') return await command.run(given, surroundings);
    surroundings.stdout.write(commandHelp(entry, command));
    return EXIT.ok;
  } catch (error) {
    return report(error, line, usage, surroundings);
  }
}

function entryNamed(name: string): CommandEntry {
  const entry = COMMANDS.find((each) => each.name === name);
  if (entry !== undefined) return entry;
  if (name.startsWith('-')) throw new UsageError(`unknown option ${name}; a command comes first`);
  const known = COMMANDS.map((each) => each.name);
  throw new UsageError(`unknown command ${JSON.stringify(name)}${namesHint(name, known, 'commands', String)}`);
}

/**
 * Reports a failure: for people on stderr, and with `--json` also as JSON on stdout. `usage`: the usage line of the
 * command.
 */
function report(
  error: unknown,
  line: readonly string[],
  usage: string,
  { stdout, stderr, environment }: Surroundings,
): number {
  const isUsage = error instanceof UsageError;
  const message = printable(error instanceof Error ? error.message : String(error));
  const known = COMMANDS.some((each) => each.name === line[0]) ? ` ${line[0]}` : '';
  const paint = paintFor(stderr, environment);
  stderr.write(`${paint.red(`troupe${known}:`)} ${message}\n${causes(error)}`);
  if (isUsage) stderr.write(`${usage === '' ? '' : `${usage}\n`}See troupe${known} --help.\n`);
  if (line.includes('--json')) {
    stdout.write(`${printableJson({ error: { code: codeOf(error), message } })}\n`);
  }
  return isUsage ? EXIT.usage : EXIT.failed;
}

function codeOf(error: unknown): string {
  if (error instanceof UsageError) return 'usage';
  if (error instanceof NotFoundError) return 'not_found';
  return error instanceof TroupeError || error instanceof ServerError ? error.code : 'internal';
}

/**
 * The details of an error: for an error of this package its causes, which add to its message; for any other error its
 * stack.
 */
function causes(error: unknown): string {
  if (error instanceof UsageError || error instanceof NotFoundError || !(error instanceof Error)) return '';
  if (!(error instanceof TroupeError) && !(error instanceof ServerError)) return `${printable(error.stack ?? '')}\n`;
  let text = '';
  let cause = error.cause;
  for (let depth = 0; depth < CAUSES_MAX && cause instanceof Error; depth += 1) {
    if (!error.message.includes(cause.message)) text += `  because: ${printable(cause.message)}\n`;
    cause = cause.cause;
  }
  return text;
}
