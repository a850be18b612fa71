/**
 * A pool of tool processes with the interface of a pool of threads, so that `runs.ts` has one set of rules for them.
 * Each task has a new process, which ends with the task.
 *
 * Owns: the processes, their groups, the tasks that wait for a process. Does not own: the meaning of a task, its
 * deadline.
 *
 * K1 `run` settles exactly once: with the result, the task's own error, `CancelledError` on abort, or a process's
 *    death.
 * K2 A process leads its own POSIX session. When its task has ended in any way, every process in that session is
 *    killed. If the system has `/proc`, every process with the tool process's id in its environment is killed as well.
 * K3 Each tool process has a watcher in its group. The watcher kills the processes of K2 when the pool's thread or the
 *    pool's process ends, also when it is killed.
 * K4 A task that was taken back before its process was ready is never sent. The process reports the marks of its call
 *    (`batch-cursor.ts`), and the pool writes them, because the two processes share no memory.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { SHELL_DRAIN_MS } from '../../base/bounds.ts';
import { systemClock } from '../../base/clock.ts';
import { CancelledError, LimitError, TroupeError } from '../../base/errors.ts';
import type { LazyAbort } from '../../base/lazy-abort.ts';
import { decodeError } from '../../threads/error-codec.ts';
import { childFlags } from '../../threads/host-flags.ts';
import type { TaskOptions, TaskPool, TaskPoolOptions, ThreadLine } from '../../threads/task-pool.ts';
import type { TaskReply } from '../../threads/task-thread.ts';
import { entryPath, missingEntry } from '../../threads/worker-url.ts';
import { BatchCursor } from '../batch-cursor.ts';
import { endGroups, killCarriers, signalGroup, watcherCode } from '../built-in/process-groups.ts';
import type { ThreadBatchTask, ThreadTask } from './protocol.ts';

/** A message to a process: its task, or an order for it. */
export interface ToProcess {
  readonly task?: Omit<ThreadBatchTask, 'cursor'> | Extract<ThreadTask, { kind: 'describe' }>;
  readonly order?: unknown;
}

/** A message of a process. */
export type FromProcess =
  | { readonly ready: true }
  | { readonly mark: 'loading' | 'running' | 'aborted' }
  | { readonly note: unknown }
  | { readonly reply: TaskReply };

/**
 * The environment variable with the id of the tool process. This id identifies processes that have left the POSIX
 * session of the tool process (K2).
 */
const PROCESS_ID = 'TROUPE_TOOL_ID';

interface Waiting {
  readonly task: ThreadTask;
  readonly abort: LazyAbort | undefined;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** Creates a pool; starts no process yet. `options.threads`: the most processes at a time. */
export function createProcessPool(options: TaskPoolOptions): TaskPool {
  return new ProcessPool(options);
}

class ProcessPool implements TaskPool {
  readonly #options: TaskPoolOptions;
  readonly #waiting = new Set<Waiting>();
  readonly #running = new Set<ToolProcess>();
  #isClosed = false;

  constructor(options: TaskPoolOptions) {
    this.#options = options;
  }

  run(task: unknown, { abort }: TaskOptions = {}): Promise<unknown> {
    if (this.#isClosed) return Promise.reject(new CancelledError('the process pool is closed'));
    if (abort?.isAborted === true) return Promise.reject(aborted(abort.reason));
    if (this.#waiting.size >= this.#options.queueMax) {
      const text = `more than ${this.#options.queueMax} tasks wait for a process`;
      return Promise.reject(new LimitError(text, { retryable: true, data: { limit: 'taskQueue' } }));
    }
    const missing = missingEntry(this.#options.entry);
    if (missing !== undefined) return Promise.reject(missing);
    return new Promise((resolve, reject) => {
      const entry: Waiting = { task: task as ThreadTask, abort, resolve, reject };
      this.#waiting.add(entry);
      abort?.listen((reason) => {
        if (this.#waiting.delete(entry)) reject(aborted(reason));
      });
      this.#fill();
    });
  }

  counts(): { readonly running: number; readonly waiting: number; readonly threads: number } {
    return { running: this.#running.size, waiting: this.#waiting.size, threads: this.#running.size };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { reject } of this.#waiting) reject(new CancelledError('the process pool was closed'));
    this.#waiting.clear();
    await Promise.all([...this.#running].map((each) => each.end(new CancelledError('the process pool was closed'))));
  }

  readonly #killAll = (): void => ToolProcess.killAll(this.#running);

  #fill(): void {
    for (const entry of this.#waiting) {
      if (this.#running.size >= this.#options.threads || this.#isClosed) return;
      this.#waiting.delete(entry);
      const tool = new ToolProcess(entry, this.#options);
      if (this.#running.size === 0) process.on('exit', this.#killAll);
      this.#running.add(tool);
      void tool.gone.then(() => {
        this.#running.delete(tool);
        if (this.#running.size === 0) process.off('exit', this.#killAll);
        this.#fill();
      });
    }
  }
}

/** One process with its task. */
class ToolProcess {
  /** Resolves when neither the process nor any process that it started is left. */
  readonly gone: Promise<void>;
  readonly #entry: Waiting;
  readonly #onNote: TaskPoolOptions['onNote'];
  readonly #child: ChildProcess;
  readonly #carried: string;
  readonly #line: ThreadLine = { post: (order) => this.#send({ order }) };
  readonly #cursor: BatchCursor | undefined;
  #isSettled = false;
  #ending: Promise<void> | undefined;
  #setGone: () => void = () => undefined;

  constructor(entry: Waiting, { entry: url, environment, resourceLimits, onNote }: TaskPoolOptions) {
    this.#entry = entry;
    this.#onNote = onNote;
    this.gone = new Promise((resolve) => {
      this.#setGone = resolve;
    });
    const { task, abort } = entry;
    if (task.kind === 'run') this.#cursor = new BatchCursor(task.cursor);
    const id = randomBytes(16).toString('hex');
    this.#carried = `${PROCESS_ID}=${id}`;
    const heap = resourceLimits?.heapMb === undefined ? [] : [`--max-old-space-size=${resourceLimits.heapMb}`];
    const command = [process.execPath, ...childFlags(), ...heap, entryPath(url)];
    this.#child = spawn('sh', ['-c', startCode(this.#carried), 'sh', ...command], {
      detached: true,
      env: { ...(environment ?? process.env), [PROCESS_ID]: id },
      stdio: ['ignore', 'inherit', 'inherit', 'pipe', 'ipc'],
      serialization: 'advanced',
    });
    this.#child.on('message', (message) => this.#hear(message as unknown as FromProcess));
    this.#child.on('error', (error) => void this.end(died(error.message, error)));
    this.#child.once('exit', (code, signal) => void this.#exited(signal ?? `exit code ${code}`));
    abort?.listen((reason) => void this.end(aborted(reason)));
  }

  /** Ends the process with its group, and rejects its task unless the task is settled (K1, K2). Never rejects. */
  end(error: Error): Promise<void> {
    if (!this.#isSettled) this.#entry.reject(error);
    this.#isSettled = true;
    this.#ending ??= this.#end();
    return this.#ending;
  }

  async #end(): Promise<void> {
    const { pid } = this.#child;
    if (pid !== undefined) await endGroups(pid, this.#carried, 0);
    this.#child.stdio[3]?.destroy();
    this.#setGone();
  }

  /** Kills processes with their groups at once, because this process exits. */
  static killAll(tools: Iterable<ToolProcess>): void {
    const alive = [...tools];
    killCarriers(new Set(alive.map((tool) => tool.#carried)));
    for (const { pid } of alive.map((tool) => tool.#child)) if (pid !== undefined) signalGroup(pid, 'SIGKILL');
  }

  /** Waits for messages that may still be in the channel, and then ends the task. */
  async #exited(how: string): Promise<void> {
    if (this.#child.connected && !this.#isSettled) {
      const drained = new AbortController();
      const { signal } = drained;
      const closed = once(this.#child, 'disconnect', { signal }).catch(() => undefined);
      await Promise.race([closed, delay(SHELL_DRAIN_MS, undefined, { signal }).catch(() => undefined)]);
      drained.abort();
    }
    await this.end(died(how));
  }

  #hear(message: FromProcess): void {
    if (this.#isSettled) return;
    if ('ready' in message) this.#begin();
    else if ('note' in message) this.#onNote?.(message.note, this.#line);
    else if ('mark' in message) this.#mark(message.mark);
    else this.#reply(message.reply);
  }

  /** Sends the task, unless it was taken back (K4). */
  #begin(): void {
    const { task } = this.#entry;
    if (task.kind === 'describe') return this.#send({ task });
    if (this.#cursor?.claim() === undefined) return this.#reply({ value: undefined });
    const { cursor: _memory, ...sent } = task;
    this.#send({ task: sent });
  }

  #mark(mark: 'loading' | 'running' | 'aborted'): void {
    const { task } = this.#entry;
    if (task.kind !== 'run') return;
    const ms = systemClock.monotonic() - task.handedAt;
    if (mark === 'loading') this.#cursor?.markLoading(0, ms);
    else if (mark === 'running') this.#cursor?.markRunning(0, ms);
    else this.#cursor?.markAborted(0);
  }

  #reply(reply: TaskReply): void {
    this.#isSettled = true;
    if (this.#cursor !== undefined && this.#cursor.claimed > 0) this.#cursor.markEnded(0, 1);
    this.#cursor?.markOver();
    if ('error' in reply) this.#entry.reject(decodeError(reply.error));
    else this.#entry.resolve(reply.value);
    void this.end(died('its task has ended'));
  }

  #send(message: ToProcess): void {
    // A process that has ended takes no messages. Its `exit` event ends the task.
    if (this.#child.connected) this.#child.send(message, () => undefined);
  }
}

/**
 * The shell code of a process: it starts the watcher (K3), and then becomes Node. The watcher holds neither the tool's
 * pipes nor its channel.
 */
function startCode(carried: string): string {
  return `( trap '' TERM; ${watcherCode(carried)} ) </dev/null >/dev/null 2>&1 4<&- & exec 3<&-; exec "$@"`;
}

function aborted(reason: unknown): CancelledError {
  return new CancelledError('the task was aborted', { cause: reason });
}

function died(how: string, cause?: Error): TroupeError {
  return new TroupeError('internal', `the process died: ${how}`, {
    cause,
    retryable: true,
    data: { threadDeath: how },
  });
}
