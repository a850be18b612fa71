/**
 * Controls a process that works on a staged review, for the command that shows the review.
 *
 * Owns: the process, its last output on stderr. Does not own: the display, the decision to start another process.
 *  P1 `ended` settles once, after the process is gone and its output has been read;
 *  P2 a process that sends nothing for `STAGE_SILENCE_MS`, or something that is not a message, is killed and counts as
 *     failed;
 *  P3 a process that does not stop within `STAGE_STOP_MS` of an order to stop is killed.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { STAGE_SILENCE_MS, STAGE_STDERR_CHARACTERS_MAX, STAGE_STOP_MS } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { TroupeError } from '../../base/errors.ts';
import { decodeError } from '../../threads/error-codec.ts';
import { childFlags } from '../../threads/host-flags.ts';
import { checkEntry, entryPath, workerUrl } from '../../threads/worker-url.ts';
import { UsageError } from '../command.ts';
import type { WorkFigures } from '../run/figures.ts';
import type { Publish } from '../run/work.ts';
import type { Surroundings } from '../surroundings.ts';
import { printable } from '../text-layout.ts';
import { type Begin, messageSchema, type StageMessage, type StageOrder } from './protocol.ts';

/** The end of a process that did not fail. `killed`: the process killed itself as planned. */
export type ProcessEnd =
  | { readonly type: 'done'; readonly index: string; readonly failed: number; readonly figures: WorkFigures }
  | { readonly type: 'killed' }
  | { readonly type: 'stopped' };

/** See the head of the file. */
export class ReviewProcess {
  /**
   * Resolves to the end of the process. Rejects with the error of the review, or with an error that names the exit code
   * or signal.
   */
  readonly ended: Promise<ProcessEnd>;
  readonly #child: ChildProcess;
  readonly #publish: Publish;
  #stderr = '';
  #last: StageMessage | undefined;
  /** The reason why the command killed the process; undefined if the command did not. */
  #fault: string | undefined;
  #silence: NodeJS.Timeout | undefined;

  /** Starts the process. `publish` takes the reports of the review. */
  constructor(begin: Begin, publish: Publish, { environment }: Surroundings) {
    const entry = workerUrl('./stage.worker', import.meta.url);
    checkEntry(entry);
    this.#publish = publish;
    this.#child = fork(entryPath(entry), [], {
      env: { ...environment },
      execArgv: [...childFlags()],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    this.ended = new Promise((resolve, reject) => {
      this.#child.once('error', reject);
      this.#child.once('close', (code, signal) => {
        clearTimeout(this.#silence);
        try {
          resolve(this.#endOf(code, signal));
        } catch (error) {
          reject(error);
        }
      });
    });
    // A signal may end the command's wait before the process ends. Then no code of the command handles a rejection.
    this.ended.catch(() => undefined);
    this.#child.on('message', (value: unknown) => this.#take(value));
    this.#child.stderr?.setEncoding('utf8').on('data', (piece: string) => {
      this.#stderr = (this.#stderr + piece).slice(-STAGE_STDERR_CHARACTERS_MAX);
    });
    this.#listen();
    this.#send(begin);
  }

  /** The process id that the system gave; 0 if the process did not start. */
  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** The last output on stderr, such as warnings of the runtime. */
  get stderr(): string {
    return printable(this.#stderr);
  }

  /** Orders the process to stop, and resolves when it is gone (P3). Never rejects. */
  async stop(): Promise<void> {
    this.#send({ type: 'stop' });
    const timer = setTimeout(() => this.#kill('it did not stop when it was asked to'), STAGE_STOP_MS);
    await this.ended.catch(() => undefined);
    clearTimeout(timer);
  }

  #take(value: unknown): void {
    const parsed = messageSchema.safeParse(value);
    if (!parsed.success) return this.#kill(`it sent something that is not a message: ${parsed.error.message}`);
    this.#listen();
    if (parsed.data.type === 'news') this.#publish(parsed.data.news);
    else this.#last = parsed.data;
  }

  /** Restarts the timer after which a silent process counts as hung (P2). */
  #listen(): void {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => {
      // If this process was suspended (Ctrl-Z), messages may be waiting. They are read before the second timer fires.
      const kill = (): void => this.#kill(`it said nothing for ${STAGE_SILENCE_MS} ms`);
      this.#silence = setTimeout(kill, STAGE_STOP_MS);
    }, STAGE_SILENCE_MS);
  }

  #kill(fault: string): void {
    this.#fault ??= fault;
    this.#child.kill('SIGKILL');
  }

  #send(order: StageOrder): void {
    // A process that has ended takes no orders. The caller learns of the end from `ended`.
    if (this.#child.connected) this.#child.send(order, () => undefined);
  }

  #endOf(code: number | null, signal: NodeJS.Signals | null): ProcessEnd {
    const last = this.#last;
    if (this.#fault === undefined && last !== undefined) {
      if (last.type === 'killing' && signal === 'SIGKILL') return { type: 'killed' };
      if (last.type === 'failed') throw errorOf(last);
      if (code === 0 && (last.type === 'done' || last.type === 'stopped')) return last;
    }
    const how = signal === null ? `exit code ${code}` : signal;
    const why = this.#fault === undefined ? '' : `: ${this.#fault}`;
    const said = this.stderr.trim() === '' ? '' : `\nIts last output:\n${this.stderr.trim()}`;
    throw new TroupeError('internal', `process ${this.pid} of the review ended with ${how}${why}${said}`, {
      data: { pid: this.pid, code, signal },
    });
  }
}

function errorOf({ error, isUsage }: Extract<StageMessage, { type: 'failed' }>): Error {
  const { name, message, house, code } = error;
  return isUsage ? new UsageError(message) : decodeError({ name, message, house, ...defined({ code }) });
}
