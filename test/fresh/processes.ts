/** Commands as a user types them, each under a deadline: a command that hangs fails, with what it has printed. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { delimiter, dirname } from 'node:path';

/** How a command ended. */
export interface Outcome {
  readonly stdout: string;
  readonly stderr: string;
  /** `exit 0`, `exit 1`, a signal, or the deadline. */
  readonly end: string;
}

/** The options of one command. */
export interface CommandOptions {
  readonly directory: string;
  /** The path of the Node that `node` stands for. */
  readonly node: string;
  readonly deadlineMs: number;
  readonly environment?: Readonly<Record<string, string>>;
}

/** Runs a command to its end. When its deadline passes, ends it with all processes that it started. */
export async function run(command: readonly string[], options: CommandOptions): Promise<Outcome> {
  const { directory, node, deadlineMs, environment } = options;
  const [program = '', ...line] = command;
  const child = spawn(program, line, {
    cwd: directory,
    env: { ...inherited(), PATH: `${dirname(node)}${delimiter}${process.env['PATH'] ?? ''}`, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const printed = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      printed[name] += text;
    });
  }
  let isLate = false;
  const deadline = setTimeout(() => {
    isLate = true;
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  }, deadlineMs);
  try {
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
    return { ...printed, end: isLate ? `no end after ${deadlineMs / 1_000} s` : (signal ?? `exit ${code}`) };
  } finally {
    clearTimeout(deadline);
  }
}

/** Like `run`, for a step that has to succeed. Rejects with the whole output if it does not. */
export async function succeed(command: readonly string[], options: CommandOptions): Promise<string> {
  const { stdout, stderr, end } = await run(command, options);
  if (end !== 'exit 0') throw new Error(`${command.join(' ')}: ${end}\n${stdout}${stderr}`);
  return stdout;
}

/** The environment of a user: without the options that npm and the test runner set for their own children. */
function inherited(): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(
    ([name]) => !/^(npm_|NODE_OPTIONS$|NODE_ENV$|TROUPE_|VITEST|LOG_LEVEL$|ANTHROPIC_|FORCE_COLOR$)/u.test(name),
  );
  return { ...Object.fromEntries(own), npm_config_loglevel: 'error' };
}
