/** Child processes that run a TypeScript file of the tests, under the loader of this process. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

/** A running child with its output so far. */
export interface TestChild {
  readonly process: ChildProcess;
  /** Its standard output so far. */
  output(): string;
  /** Its standard error so far. */
  errors(): string;
  /** Resolves when the output holds `text`; rejects as `until`. */
  said(text: string): Promise<void>;
  /**
   * Resolves when `isMet` holds for the output. If the child ends before, the promise rejects with the exit code and
   * all output.
   */
  until(isMet: (output: string) => boolean, wanted: string): Promise<void>;
  /** Kills it with SIGKILL and resolves when it is gone. */
  kill(): Promise<void>;
  /** Resolves with the exit code when the child has ended by itself; `null` if a signal ended it. */
  ended(): Promise<number | null>;
}

/** Starts `file` with `args`. `shell`: a line for sh that runs `"$@"` at its end. */
export function startChild(file: URL, args: readonly string[], shell?: string): TestChild {
  const script = fileURLToPath(file);
  const command = [process.execPath, ...process.execArgv, script, ...args];
  const [program = '', ...rest] = shell === undefined ? command : ['/bin/sh', '-c', shell, 'sh', ...command];
  const child = spawn(program, rest, { stdio: ['pipe', 'pipe', 'pipe'] });
  let text = '';
  let errors = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    errors += chunk;
  });
  // The end of the child also wakes waiting readers, because no more output can arrive.
  let isOver = false;
  const closed = once(child, 'close').then(() => {
    isOver = true;
    child.stdout.emit('data', '');
  });
  const until = async (isMet: (output: string) => boolean, wanted: string): Promise<void> => {
    while (!isMet(text)) {
      if (isOver) {
        const end = child.signalCode ?? `code ${child.exitCode}`;
        throw new Error(`the child ended with ${end} without ${wanted}: ${text}${errors}`);
      }
      await once(child.stdout, 'data');
    }
  };
  return {
    process: child,
    output: () => text,
    errors: () => errors,
    said: (wanted) => until((output) => output.includes(wanted), wanted),
    until,
    async kill() {
      child.kill('SIGKILL');
      await closed;
    },
    async ended() {
      await closed;
      return child.exitCode;
    },
  };
}
