/**
 * Answers the calls of the `bash` tool on the shell thread. Runs the commands and writes their results, with the
 * notices of timeouts, interrupts and lost shells (contract §11.2). Does not own: the shells (`shell-pool.ts`).
 */
import {
  SHELL_ANSWER_MS,
  SHELL_LATE_STOP_MS,
  SHELL_OUTPUT_BYTES_MAX,
  SHELL_PROGRESS_BYTES,
  SHELL_STOP_MS,
} from '../../base/bounds.ts';
import { systemClock } from '../../base/clock.ts';
import { defined } from '../../base/defined.ts';
import { asError, TimeoutError } from '../../base/errors.ts';
import { withoutSecrets } from '../../base/secret-environment.ts';
import { INTERRUPT_NOTICE } from '../../session/rules/tool-texts.ts';
import { headOfBytes } from '../result-text.ts';
import { type EarlierShell, type ShellLease, ShellPool } from './shell-pool.ts';

/** The model's input: one command, or several that run one after the other. */
export interface BashInput {
  readonly command?: string | undefined;
  readonly commands?: readonly string[] | undefined;
}

/** The options of a tool's shells, checked. */
export interface ShellSettings {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly secretEnv: readonly string[];
  /** The programs, tried in this order until one exists. */
  readonly programs: readonly string[];
  readonly idleMs?: number;
}

/** The parts of a call's context that its commands need. */
export interface ShellContext {
  readonly signal: AbortSignal;
  readonly session: string;
  /** Milliseconds that the call may take. */
  readonly timeoutMs: number;
  readonly progress: (data: unknown) => void;
  /** The session's shell that was lost with its thread, if the session has had no shell since. */
  readonly earlier?: EarlierShell | undefined;
}

/** The shells of one tool. A shell gets the environment that this process has when the shell starts. */
export function shellPool({ cwd, env, secretEnv, programs, idleMs }: ShellSettings): ShellPool {
  return new ShellPool({
    cwd,
    environment: () => shellEnvironment(env, secretEnv),
    programs,
    ...defined({ idleMs }),
  });
}

/** One call in flight. */
interface Call {
  readonly lease: ShellLease;
  readonly context: ShellContext;
  /** Fires when the call is interrupted or its time is up. The reason of the signal says which of the two happened. */
  readonly stop: AbortSignal;
  /** Milliseconds within which a command must stop after the call's time is up. */
  readonly lateStopMs: number;
  readonly timeoutMs: number;
}

/** The result of one command. */
interface Answer {
  readonly text: string;
  readonly isFailure: boolean;
}

/** The result of a call. Never rejects: its failures are results (`{ error }`). */
export async function answerCall(pool: ShellPool, call: BashInput, context: ShellContext): Promise<unknown> {
  const { command, commands } = call;
  const problem = problemOf(call);
  if (problem !== undefined) return { error: problem };
  const { timeoutMs } = context;
  // The command is stopped before the call's time is up, because the caller accepts no answer after that time.
  const reserveMs = Math.min(SHELL_LATE_STOP_MS + SHELL_ANSWER_MS, timeoutMs / 4);
  const lateStopMs = (reserveMs * SHELL_LATE_STOP_MS) / (SHELL_LATE_STOP_MS + SHELL_ANSWER_MS);
  const stopper = new AbortController();
  const onAbort = (): void => stopper.abort(context.signal.reason);
  const timer = systemClock.setTimer(() => stopper.abort(new TimeoutError('time is up')), timeoutMs - reserveMs);
  context.signal.addEventListener('abort', onAbort, { once: true });
  if (context.signal.aborted) onAbort();
  const stop = stopper.signal;
  try {
    const lease = await pool.take(context.session, stop, context.earlier);
    if (lease === undefined) return resultOf(notRun(stop, timeoutMs));
    try {
      const one: Call = { lease, context, stop, lateStopMs, timeoutMs };
      if (commands !== undefined) return await runBatch(one, commands);
      return resultOf(await runOne(one, command ?? '', SHELL_OUTPUT_BYTES_MAX));
    } finally {
      lease.release();
    }
  } finally {
    systemClock.clearTimer(timer);
    context.signal.removeEventListener('abort', onAbort);
  }
}

function problemOf({ command, commands }: BashInput): string | undefined {
  if (command !== undefined && commands !== undefined) return 'give either command or commands, not both';
  if (command === undefined && commands === undefined) return 'command is required (or commands)';
  if (command !== undefined) return commandProblem(command);
  if (!Array.isArray(commands) || commands.length === 0) return 'commands must not be empty: a list of command lines';
  return undefined;
}

function commandProblem(command: string): string | undefined {
  if (command.trim() === '') return 'command cannot be blank';
  if (command.includes('\0')) return 'a command cannot hold a NUL character';
  return undefined;
}

function resultOf({ text, isFailure }: Answer): unknown {
  return isFailure ? { error: text } : text;
}

/**
 * Each command's answer under its header. Before each command, the room that is left for output is divided by the
 * number of commands that are left.
 */
async function runBatch(call: Call, commands: readonly string[]): Promise<string> {
  const parts: string[] = [];
  let room = SHELL_OUTPUT_BYTES_MAX;
  for (const [index, command] of commands.entries()) {
    const header = `[${index + 1}/${commands.length}] $ ${command.trim() === '' ? '(blank)' : command}`;
    room -= Buffer.byteLength(header) + 3;
    const text = await runOfBatch(call, command, Math.max(0, Math.floor(room / (commands.length - index))));
    room -= Buffer.byteLength(text);
    parts.push(`${header}\n${text}`);
  }
  return headOfBytes(parts.join('\n\n'), SHELL_OUTPUT_BYTES_MAX);
}

async function runOfBatch(call: Call, command: string, bytesMax: number): Promise<string> {
  if (command.trim() === '') return '(skipped: blank command)';
  if (call.stop.aborted) return `(skipped: ${isTimeout(call.stop) ? 'the call timed out' : 'interrupted'})`;
  const problem = commandProblem(command);
  return problem === undefined ? (await runOne(call, command, bytesMax)).text : `Error: ${problem}`;
}

/**
 * Runs a command. The answer has at most `bytesMax` UTF-8 bytes, unless the notices alone are longer. Never rejects.
 */
async function runOne(call: Call, command: string, bytesMax: number): Promise<Answer> {
  const { lease, context, stop, lateStopMs } = call;
  let result: Awaited<ReturnType<ShellLease['run']>>;
  try {
    result = await lease.run(command, {
      signal: stop,
      stopMs: () => (isTimeout(stop) ? lateStopMs : SHELL_STOP_MS),
      onOutput: (output) => context.progress({ output: output.recent(SHELL_PROGRESS_BYTES) }),
    });
  } catch (error) {
    return { text: asError(error).message, isFailure: true };
  }
  const { output, end, restarted } = result;
  const fresh = restarted === undefined ? '' : `${restartNotice(restarted)}\n\n`;
  const room = (notices: string): string => output.text(Math.max(0, bytesMax - Buffer.byteLength(notices)));
  if (end.type === 'finished') {
    const note = end.exitCode === 0 ? '' : `[exit code ${end.exitCode}]`;
    const text = room(`${fresh}${note}\n\n`);
    const shown = [text, note].filter((part) => part !== '').join('\n\n');
    return { text: fresh + (shown || 'OK'), isFailure: false };
  }
  if (end.type === 'shellEnded' && !stop.aborted) {
    const note = `[The shell ended (${end.how}). The next command gets a new one.]`;
    const text = room(`${fresh}${note}\n\n`);
    return { text: fresh + (text === '' ? note : `${text}\n\n${note}`), isFailure: false };
  }
  const lost =
    end.type === 'stopped' ? '' : '\n[The command did not stop: its shell was killed. The next one gets a new one.]';
  const notice = `${stopNotice(call)}${lost}\n\nPartial output:\n`;
  const text = room(fresh + notice);
  const body = text === '' ? `${stopNotice(call)}${lost}` : notice + text;
  return { text: fresh === '' ? body : `${body}\n\n${fresh.trimEnd()}`, isFailure: isTimeout(stop) };
}

function notRun(stop: AbortSignal, timeoutMs: number): Answer {
  if (!isTimeout(stop)) return { text: INTERRUPT_NOTICE, isFailure: false };
  const text = `${timeoutNotice(timeoutMs)} It was not run: the shell was busy with earlier commands all the time.`;
  return { text, isFailure: true };
}

function stopNotice({ stop, timeoutMs }: Call): string {
  return isTimeout(stop) ? timeoutNotice(timeoutMs) : INTERRUPT_NOTICE;
}

function timeoutNotice(timeoutMs: number): string {
  return `The command timed out after ${timeoutMs / 1_000} seconds.`;
}

function restartNotice(how: string): string {
  return `[A new shell: the earlier one ${how}. Its directory is kept if it still exists; variables and functions are lost.]`;
}

function isTimeout(stop: AbortSignal): boolean {
  return stop.reason instanceof TimeoutError;
}

/** Settings that keep programs from waiting for a person, or from paging their output. */
const UNATTENDED: Readonly<Record<string, string>> = {
  TERM: 'dumb',
  PAGER: 'cat',
  GIT_PAGER: 'cat',
  MANPAGER: 'cat',
  SYSTEMD_PAGER: '',
  // Git must not prompt: not on the terminal, and not through a helper program, a window or ssh.
  GIT_TERMINAL_PROMPT: '0',
  GIT_ASKPASS: '',
  GCM_INTERACTIVE: 'never',
  GIT_SSH_COMMAND: 'ssh -o BatchMode=yes',
  SSH_ASKPASS_REQUIRE: 'never',
  DEBIAN_FRONTEND: 'noninteractive',
  PIP_NO_INPUT: '1',
};

/** Variables that are not passed on, because they would make a starting shell run something, or end. */
const WITHHELD: readonly string[] = ['ENV', 'BASH_ENV', 'PROMPT_COMMAND', 'TMOUT', 'MAIL', 'MAILPATH'];

/**
 * The environment of a shell: that of the process, with `extra` on top. Secrets are left out, except those named in
 * `secretEnv`. The model has no use for them, and a listing of the environment would put them into the log.
 */
function shellEnvironment(
  extra: Readonly<Record<string, string>>,
  secretEnv: readonly string[],
): Readonly<Record<string, string | undefined>> {
  const inherited = withoutSecrets(process.env, secretEnv);
  for (const name of WITHHELD) delete inherited[name];
  return { ...inherited, ...UNATTENDED, ...extra };
}
