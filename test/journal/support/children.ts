/** Child processes that run a TypeScript file of the tests, under the loader of this process. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

/** A running child, its output gathered. */
export interface TestChild {
  readonly process: ChildProcess;
  /** What it printed so far. */
  output(): string;
  /** Resolves when the output holds `text`; rejects with the output when the child ends without. */
  said(text: string): Promise<void>;
  /** Kills it with SIGKILL and resolves when it is gone. */
  kill(): Promise<void>;
  /** Resolves with the exit code when it has ended by itself; `null` when a signal ended it. */
  ended(): Promise<number | null>;
}

/** Starts `file`, beside this module, with `args`. `shell`: a line for sh that runs `"$@"` in the end. */
export function startChild(file: string, args: readonly string[], shell?: string): TestChild {
  const script = fileURLToPath(new URL(file, import.meta.url));
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
  const closed = once(child, 'close');
  return {
    process: child,
    output: () => text,
    async said(wanted) {
      let isOver = false;
      void closed.then(() => {
        isOver = true;
        child.stdout.emit('data', '');
      });
      while (!text.includes(wanted)) {
        if (isOver) throw new Error(`the child ended without ${wanted}: ${text}${errors}`);
        await once(child.stdout, 'data');
      }
    },
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
