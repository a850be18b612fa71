/**
 * One shell process that runs commands one after the other, over pipes.
 *
 * Owns: the process, its pipes, the end marks in its output, its death and the death of what it started. Does not own: whose
 * shell it is, when it is let go (`shell-pool.ts`), what a model is told (`bash.ts`).
 *
 * It is an interactive shell without a terminal: as at a terminal, an interrupt abandons the whole command line and leaves
 * the shell alive. Its own error output goes nowhere, so that no prompt is heard; that of the commands joins their output.
 *
 *  B1 one command at a time; `run` resolves exactly once, whatever the command, the shell or the signal do.
 *  B2 a command cannot forge its end: the mark is random and is sent after it.
 *  B3 a command never reads what is written to the shell: its input is empty.
 *  B4 whatever the shell started ends with this process, even when that is killed: a watcher in the shell's group waits for a
 *     pipe to close.
 *  B5 an idle shell keeps nothing alive: neither this process nor a timer.
 *  B6 where the system has `/proc`, a program that leaves the shell's POSIX session (`setsid`, a daemon) ends with the shell
 *     too: each process inherits the shell's random id in `TROUPE_SHELL_ID`. One that clears its environment is not found.
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
import { SHELL_DRAIN_MS, SHELL_GONE_POLL_MS, SHELL_KILL_MS, SHELL_PATH_BYTES_MAX } from '../../base/bounds.ts';
import { groupsOf, killCarriers, signalGroup } from './process-groups.ts';
import { ShellOutput } from './shell-output.ts';

/** How to start a shell. */
export interface ShellOptions {
  /** A path or a name: bash, or a POSIX shell. */
  readonly program: string;
  readonly cwd: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Called once, when the shell can run nothing any more; says how it ended. Must not throw. */
  readonly onEnd: (how: string) => void;
}

/**
 * How a command ended: by itself; interrupted, the shell goes on; interrupted in vain, the shell was given up; with the
 * shell. As at a terminal, a shell may go on without a program that ignores the interrupt; that ends with the shell.
 */
export type CommandEnd =
  | { readonly type: 'finished'; readonly exitCode: number }
  | { readonly type: 'stopped' | 'unstoppable' }
  | { readonly type: 'shellEnded'; readonly how: string };

/** How to run a command. */
export interface CommandOptions {
  /** Aborted: the command is interrupted. */
  readonly signal: AbortSignal;
  /** Milliseconds it then has; asked when the signal fires. Must not throw. */
  readonly stopMs: () => number;
  /** Called for each piece of output. Must not throw. */
  readonly onOutput: (output: ShellOutput) => void;
}

/** What a command wrote, and how it ended. */
export interface CommandResult {
  readonly output: ShellOutput;
  readonly end: CommandEnd;
}

interface Running {
  readonly mark: Buffer;
  /** Marks sent: only the last one counts, as a shell may or may not forget the others with an interrupted line. */
  attempt: number;
  readonly onOutput: (output: ShellOutput) => void;
  readonly finish: (end: CommandEnd) => void;
  readonly over: AbortController;
}

/** The environment variable that names the shell a process belongs to (B6). */
const SHELL_ID = 'TROUPE_SHELL_ID';
const MARK_START = '\u001e';
const NOTHING: Buffer = Buffer.alloc(0);

/** See the head of the file. */
export class Shell {
  readonly #child: ChildProcess;
  readonly #pid: number;
  readonly #input: Writable;
  readonly #onEnd: (how: string) => void;
  /** What its processes carry in their environment (B6). */
  readonly #carried: string;
  #output = new ShellOutput();
  /** Bytes that may be the start of a mark. */
  #held: Buffer = NOTHING;
  #running: Running | undefined;
  #cwd: string;
  #isAlive = true;
  /** Nothing of it is left: its id may be another's. */
  #isGone = false;
  #ending: Promise<void> | undefined;

  /** Starts a shell. Rejects with the system's error when there is no such program or directory. */
  static async start(options: ShellOptions): Promise<Shell> {
    const { program, cwd, environment } = options;
    const isBash = basename(program).startsWith('bash');
    const id = randomBytes(16).toString('hex');
    const carried = `${SHELL_ID}=${id}`;
    const child = spawn(program, isBash ? ['--noprofile', '--norc', '--noediting', '-i'] : ['-i'], {
      cwd,
      env: { ...environment, PS1: '', PS2: '', [SHELL_ID]: id },
      // The leader of a session of its own: without a terminal, and signalled as one group.
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
    // A shell that is gone takes no input: its exit tells, not the pipe.
    for (const pipe of [stdin, child.stdio[3]]) pipe?.on('error', () => undefined);
    stdout.on('data', (chunk: Buffer) => this.#hear(chunk));
    this.#input.write(preamble(isBash, carried));
    this.#hold(false);
  }

  get pid(): number {
    return this.#pid;
  }

  /** False once it can run nothing any more. */
  get isAlive(): boolean {
    return this.#isAlive;
  }

  /** Its directory after the last command. */
  get cwd(): string {
    return this.#cwd;
  }

  /** Its directory now, also while a command runs, where the system tells. */
  async liveCwd(): Promise<string> {
    if (process.platform !== 'linux' || !this.#isAlive) return this.#cwd;
    return readlink(`/proc/${this.#pid}/cwd`).catch(() => this.#cwd);
  }

  /**
   * Runs a command; resolves with its output, to which that of background jobs since the last one belongs. `command`: no
   * NUL. Not to be called while one runs or after the end.
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
      // The command and the mark are two lines: an interrupt abandons the first alone (B2, B3).
      this.#input.write(`command eval ${quoted(command)} </dev/null >&9 2>&9 9>&-\n${markLine(running)}`);
      if (signal.aborted) stop();
    });
  }

  /** Ends the shell and all it started: TERM, and KILL after `SHELL_KILL_MS`. Resolves when nothing is left. Never rejects. */
  end(): Promise<void> {
    this.#dead('was closed');
    this.#ending ??= this.#end();
    return this.#ending;
  }

  /** Kills shells and what they started at once, for the exit of this process. */
  static killAll(shells: Iterable<Shell>): void {
    const alive = [...shells].filter((shell) => !shell.#isGone);
    killCarriers(new Set(alive.map((shell) => shell.#carried)));
    for (const shell of alive) signalGroup(shell.#pid, 'SIGKILL');
  }

  /** Ctrl-C, twice if need be; then the shell is given up. */
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
      // A mark without an end is none: the shell no longer says where it is.
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
    // A shell that waits for commands ignores TERM, as at a terminal; the terminal's end is HUP.
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGHUP');
    let groups = await groupsOf(this.#pid, this.#carried);
    for (const group of groups) signalGroup(group, 'SIGTERM');
    for (let waitedMs = 0; groups.length > 0 && waitedMs < SHELL_KILL_MS; waitedMs += SHELL_GONE_POLL_MS) {
      await delay(SHELL_GONE_POLL_MS);
      groups = await groupsOf(this.#pid, this.#carried);
    }
    for (const group of groups) signalGroup(group, 'SIGKILL');
    for (const pipe of child.stdio) pipe?.destroy();
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    this.#isGone = true;
  }

  /** Whether this process lives on for the shell's sake (B5). */
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
 * Keeps the way to this process on descriptor 9, and starts the watcher (B4), which is no child the shell would wait for. The
 * watcher first kills what carries the shell's id, itself excepted, and then its own group (B6). It looks twice, since a
 * process may start another while it is being looked for.
 */
function preamble(isBash: boolean, carried: string): string {
  const watch = "trap '' INT HUP; exec >/dev/null 9>&-; read -r line <&3; read -r own rest </proc/self/stat";
  const find = `for at in /proc/[0-9]*/environ; do pid=\${at#/proc/}; pid=\${pid%/environ}`;
  const hunt = `${find}; [ "$pid" != "$own" ] && grep -qs '${carried}' "$at" && kill -KILL "$pid"; done`;
  // No history: neither `!` in a command nor a file of commands.
  const quiet = isBash ? 'set +H +o history\n' : '';
  return `exec 9>&1 >/dev/null\n( ( ${watch}; ${hunt}; ${hunt}; kill -KILL 0 ) & )\nexec 3<&-\n${quiet}`;
}

function markLine({ mark, attempt }: Running): string {
  return `command printf '%s%s:%s:%s%s' '${mark}' ${attempt} "$?" "\${PWD-}" '${mark}' >&9\n`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Bytes at the end of `data` that may be the start of the mark. */
function heldBytes(data: Buffer, mark: Buffer): number {
  const start = data.indexOf(MARK_START, Math.max(0, data.length - mark.length + 1));
  return start === -1 ? 0 : data.length - start;
}
