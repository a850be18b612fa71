/**
 * One shell process that runs commands one after the other, over pipes.
 *
 * Owns: the process, its pipes, the end marks in its output, and ending the shell with all its processes. Does not own:
 * which session has the shell, when it is closed (`shell-pool.ts`), the texts for the model (`shell-calls.ts`).
 *
 * The shell is interactive but has no terminal: as at a terminal, an interrupt abandons the whole command line and
 * leaves the shell alive. The shell's own error output is discarded, so that no prompt appears. The error output of
 * commands joins their output.
 *
 * B1 One command runs at a time; `run` resolves exactly once, whatever the command, the shell or the signal do.
 * B2 A command cannot forge its end: the mark is random and is sent after the command.
 * B3 A command never reads the text that is written to the shell: the input of every command is empty.
 * B4 Every process that the shell started ends with this process, even if this process is killed. A watcher in the
 *    shell's group waits until this process's end of a pipe closes, and then kills these processes.
 * B5 An idle shell does not keep this process alive.
 * B6 If the system has `/proc`, a program that leaves the shell's POSIX session (`setsid`, a daemon) also ends with the
 *    shell. Such a program is found because each process inherits the shell's random id in `TROUPE_SHELL_ID`. A program
 *    that clears its environment is not found.
 */
import { strict as assert } from 'node:assert';
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readlink } from 'node:fs/promises';
import { Socket } from 'node:net';
import { basename } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { SHELL_DRAIN_MS, SHELL_KILL_MS, SHELL_PATH_BYTES_MAX } from '../../base/bounds.ts';
import { endGroups, groupsOf, killCarriers, signalGroup, watcherCode } from './process-groups.ts';
import { ShellOutput } from './shell-output.ts';

/** The options for starting a shell. */
export interface ShellOptions {
  /** Path or name of the program, which must be bash or a POSIX shell. */
  readonly program: string;
  readonly cwd: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Called once, when the shell can run nothing any more. `how`: how the shell ended. Must not throw. */
  readonly onEnd: (how: string) => void;
}

/**
 * How a command ended. `finished`: by itself. `stopped`: it was interrupted, and the shell continues. `unstoppable`:
 * the interrupt failed, and the shell was given up. `shellEnded`: it ended with the shell. As at a terminal, a shell
 * may continue although a program ignores the interrupt. Such a program ends with the shell.
 */
export type CommandEnd =
  | { readonly type: 'finished'; readonly exitCode: number }
  | { readonly type: 'stopped' | 'unstoppable' }
  | { readonly type: 'shellEnded'; readonly how: string };

/** The options for running a command. */
export interface CommandOptions {
  /** A signal at which the command is interrupted. */
  readonly signal: AbortSignal;
  /**
   * Returns the milliseconds within which the interrupted command must stop; called when the signal fires. Must not
   * throw.
   */
  readonly stopMs: () => number;
  /** Called for each piece of output. Must not throw. */
  readonly onOutput: (output: ShellOutput) => void;
}

/** The output of a command, and how it ended. */
export interface CommandResult {
  readonly output: ShellOutput;
  readonly end: CommandEnd;
}

interface Running {
  readonly mark: Buffer;
  /**
   * The number of the current end mark. Only the last mark counts, because an interrupted shell may or may not drop the
   * earlier marks.
   */
  attempt: number;
  readonly onOutput: (output: ShellOutput) => void;
  readonly finish: (end: CommandEnd) => void;
  readonly over: AbortController;
}

/** The environment variable that names the shell of a process (B6). */
const SHELL_ID = 'TROUPE_SHELL_ID';
const MARK_START = '\u001e';
const NOTHING: Buffer = Buffer.alloc(0);

/** See the head of the file. */
export class Shell {
  readonly #child: ChildProcess;
  readonly #pid: number;
  readonly #input: Writable;
  readonly #onEnd: (how: string) => void;
  /** The entry in the environment of all processes of this shell (B6). */
  readonly #carried: string;
  #output = new ShellOutput();
  /** Bytes of the output that are held back because they may be the start of a mark. */
  #held: Buffer = NOTHING;
  #running: Running | undefined;
  #cwd: string;
  #isAlive = true;
  /** True if no process is left. Then the shell's process id may belong to another process. */
  #isGone = false;
  #ending: Promise<void> | undefined;

  /** Starts a shell. Rejects with the system's error when the program or the directory does not exist. */
  static async start(options: ShellOptions): Promise<Shell> {
    const { program, cwd, environment } = options;
    const isBash = basename(program).startsWith('bash');
    const id = randomBytes(16).toString('hex');
    const carried = `${SHELL_ID}=${id}`;
    const child = spawn(program, isBash ? ['--noprofile', '--norc', '--noediting', '-i'] : ['-i'], {
      cwd,
      env: { ...environment, PS1: '', PS2: '', [SHELL_ID]: id },
      // The shell leads its own POSIX session: it has no terminal, and is signalled as one group.
      detached: true,
      stdio: ['pipe', 'pipe', 'ignore', 'pipe'],
    });
    await once(child, 'spawn');
    return new Shell(child, options, isBash, carried);
  }

  private constructor(child: ChildProcess, options: ShellOptions, isBash: boolean, carried: string) {
    const { pid, stdin, stdout } = child;
    assert(pid !== undefined && stdin !== null && stdout !== null, 'a started shell has an id and pipes');
    this.#child = child;
    this.#pid = pid;
    this.#input = stdin;
    this.#carried = carried;
    this.#cwd = options.cwd;
    this.#onEnd = options.onEnd;
    child.on('error', () => undefined);
    child.once('exit', (code, signal) => void this.#exited(signal ?? `exit code ${code}`));
    // Errors of these pipes are ignored: a shell that has ended takes no input, and its exit is reported elsewhere.
    for (const pipe of [stdin, child.stdio[3]]) pipe?.on('error', () => undefined);
    stdout.on('data', (chunk: Buffer) => this.#hear(chunk));
    this.#input.write(preamble(isBash, carried));
    this.#hold(false);
  }

  get pid(): number {
    return this.#pid;
  }

  /** True until the shell can run nothing any more. */
  get isAlive(): boolean {
    return this.#isAlive;
  }

  /** The shell's directory after the last command. */
  get cwd(): string {
    return this.#cwd;
  }

  /** The shell's current directory, even while a command runs, if the system shows it. */
  async liveCwd(): Promise<string> {
    if (process.platform !== 'linux' || !this.#isAlive) return this.#cwd;
    return readlink(`/proc/${this.#pid}/cwd`).catch(() => this.#cwd);
  }

  /**
   * Runs a command; resolves with its output, which includes output of background jobs since the previous command.
   * `command`: no NUL. Must not be called while a command runs or after the end.
   */
  async run(command: string, options: CommandOptions): Promise<CommandResult> {
    assert(this.#isAlive && this.#running === undefined, 'B1: a shell runs one command at a time');
    const { signal, stopMs, onOutput } = options;
    const mark = Buffer.from(MARK_START + randomBytes(16).toString('hex'));
    return await new Promise((resolve) => {
      const stop = (): void => void this.#interrupt(running, stopMs());
      const finish = (end: CommandEnd): void => {
        if (this.#running !== running) return;
        this.#running = undefined;
        running.over.abort();
        signal.removeEventListener('abort', stop);
        this.#hold(false);
        const output = this.#output;
        this.#output = new ShellOutput();
        resolve({ output, end: end.type === 'finished' && signal.aborted ? { type: 'stopped' } : end });
      };
      const running: Running = { mark, attempt: 0, onOutput, finish, over: new AbortController() };
      this.#running = running;
      this.#hold(true);
      signal.addEventListener('abort', stop, { once: true });
      // The command and the mark are two lines, so that an interrupt abandons only the command (B2, B3).
      this.#input.write(`command eval ${quoted(command)} </dev/null >&9 2>&9 9>&-\n${markLine(running)}`);
      if (signal.aborted) stop();
    });
  }

  /**
   * Ends the shell and all its processes: TERM, and KILL after `SHELL_KILL_MS`. Resolves when no process is left. Never
   * rejects.
   */
  end(): Promise<void> {
    this.#dead('was closed');
    this.#ending ??= this.#end();
    return this.#ending;
  }

  /** Kills shells and their processes at once, because this process exits. */
  static killAll(shells: Iterable<Shell>): void {
    const alive = [...shells].filter((shell) => !shell.#isGone);
    killCarriers(new Set(alive.map((shell) => shell.#carried)));
    for (const shell of alive) signalGroup(shell.#pid, 'SIGKILL');
  }

  /** Interrupts the command as Ctrl-C does, twice if needed. If that fails, gives up the shell. */
  async #interrupt(running: Running, stopMs: number): Promise<void> {
    for (let round = 0; round < 2; round += 1) {
      signalGroup(this.#pid, 'SIGINT');
      if (await isOver(running, stopMs / 4)) return;
      const groups = await groupsOf(this.#pid);
      if (running.over.signal.aborted || !this.#isAlive) return;
      for (const group of groups) if (group !== this.#pid) signalGroup(group, 'SIGINT');
      running.attempt += 1;
      this.#input.write(markLine(running));
      if (await isOver(running, stopMs / 4)) return;
    }
    running.finish({ type: 'unstoppable' });
    this.#dead('did not stop when it was interrupted');
    void this.end();
  }

  #hear(chunk: Buffer): void {
    const data = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    this.#held = NOTHING;
    const running = this.#running;
    if (running === undefined) {
      this.#output.push(data);
      return;
    }
    const { mark } = running;
    const at = data.indexOf(mark);
    const until = at === -1 ? data.length - heldBytes(data, mark) : at;
    this.#output.push(data.subarray(0, until));
    if (until > 0) running.onOutput(this.#output);
    const end = at === -1 ? -1 : data.indexOf(mark, at + mark.length);
    if (end === -1) {
      this.#held = data.subarray(until);
      // If the mark does not end within this bound, the shell no longer reports its state, and is ended.
      if (this.#held.length > SHELL_PATH_BYTES_MAX) void this.end();
      return;
    }
    const [attempt = '', exitCode = '', ...cwd] = data
      .subarray(at + mark.length, end)
      .toString()
      .split(':');
    if (Number(attempt) === running.attempt) {
      this.#cwd = cwd.join(':');
      running.finish({ type: 'finished', exitCode: Number(exitCode) });
    }
    const rest = data.subarray(end + mark.length);
    if (rest.length > 0) this.#hear(rest);
  }

  async #exited(how: string): Promise<void> {
    const running = this.#running;
    // The last output may still be in the pipe.
    const drained = new AbortController();
    if (running !== undefined) {
      const closed = once(this.#child, 'close', { signal: drained.signal }).catch(() => undefined);
      await Promise.race([closed, delay(SHELL_DRAIN_MS, undefined, { signal: drained.signal }).catch(() => undefined)]);
      drained.abort();
      running.finish({ type: 'shellEnded', how });
    }
    this.#dead(`ended (${how})`);
    void this.end();
  }

  #dead(how: string): void {
    if (!this.#isAlive) return;
    this.#isAlive = false;
    this.#running?.finish({ type: 'shellEnded', how });
    this.#onEnd(how);
  }

  async #end(): Promise<void> {
    const child = this.#child;
    this.#input.end();
    // An interactive shell that waits for commands ignores TERM. HUP, the signal that the terminal is gone, ends such a
    // shell.
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGHUP');
    await endGroups(this.#pid, this.#carried, SHELL_KILL_MS);
    for (const pipe of child.stdio) pipe?.destroy();
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    this.#isGone = true;
  }

  /** Sets whether the shell keeps this process alive (B5). */
  #hold(isHeld: boolean): void {
    const pipes: readonly (Readable | Writable | null | undefined)[] = this.#child.stdio;
    for (const each of [this.#child, ...pipes.filter((pipe) => pipe instanceof Socket)]) {
      if (isHeld) each.ref();
      else each.unref();
    }
  }
}

/** True when the command ended within the time. */
async function isOver(running: Running, ms: number): Promise<boolean> {
  const { signal } = running.over;
  await delay(ms, undefined, { signal }).catch(() => undefined);
  return signal.aborted;
}

/**
 * Code that the shell runs first. The code keeps the pipe to this process on descriptor 9. It also starts the watcher
 * (B4), in a way that the shell does not wait for the watcher. The watcher kills all processes with the shell's id, and
 * its own group (B6).
 */
function preamble(isBash: boolean, carried: string): string {
  const watch = `trap '' INT HUP; exec >/dev/null 9>&-; ${watcherCode(carried)}`;
  // Turns off the history: neither `!` in a command nor a history file has an effect.
  const quiet = isBash ? 'set +H +o history\n' : '';
  return `exec 9>&1 >/dev/null\n( ( ${watch} ) & )\nexec 3<&-\n${quiet}`;
}

function markLine({ mark, attempt }: Running): string {
  return `command printf '%s%s:%s:%s%s' '${mark}' ${attempt} "$?" "\${PWD-}" '${mark}' >&9\n`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** The number of bytes at the end of `data` that may be the start of the mark. */
function heldBytes(data: Buffer, mark: Buffer): number {
  const start = data.indexOf(MARK_START, Math.max(0, data.length - mark.length + 1));
  return start === -1 ? 0 : data.length - start;
}
