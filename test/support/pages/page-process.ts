/** Runs programs in one process, one after another, so that they load the package once. See `page-runner.mjs`. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { programNode } from '../package-programs.ts';

const runner = fileURLToPath(new URL('./page-runner.mjs', import.meta.url));

/** The process for the programs of a directory. It starts with the first program. */
export class PageProcess {
  readonly #directory: string;
  #child: ChildProcess | undefined;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Runs a program, by name without `.js`, and returns its output. If it fails, the next one has a new process. */
  async run(name: string): Promise<string> {
    this.#child ??= this.#start();
    const child = this.#child;
    const over = new AbortController();
    const reply = Promise.race([
      once(child, 'message', over) as Promise<[{ readonly output: string; readonly error?: string }]>,
      once(child, 'exit', over).then(([code, signal]) => {
        throw new Error(`the process of ${name} ended: ${code ?? signal}`);
      }),
    ]);
    try {
      child.send(name);
      const [{ output, error }] = await reply;
      if (error !== undefined) throw new Error(`${name} failed: ${error}\nIts output:\n${output}`);
      return output;
    } catch (error) {
      child.kill('SIGKILL');
      this.#child = undefined;
      throw error;
    } finally {
      over.abort();
    }
  }

  /** Lets the process end, which it does if no program left anything open. Returns its exit code and signal. */
  async end(): Promise<readonly unknown[]> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined) return [0, null];
    const ended = once(child, 'exit');
    child.disconnect();
    return ended;
  }

  kill(): void {
    this.#child?.kill('SIGKILL');
  }

  #start(): ChildProcess {
    const { ANTHROPIC_API_KEY: _key, ANTHROPIC_AUTH_TOKEN: _token, ...env } = process.env;
    return fork(runner, [], { cwd: this.#directory, env, execArgv: [], execPath: programNode });
  }
}
