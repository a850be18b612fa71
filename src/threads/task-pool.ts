/**
 * Runs tasks on a bounded set of threads, one task at a time on each thread. Uses Piscina, with a separate queue in
 * front.
 *
 * Owns: the threads, the tasks that wait for a thread. Does not own: the meaning of a task, its deadline, the decision
 * to retry it.
 *
 * Invariants:
 * P1 `run` settles exactly once: with the result, the task's own error, `CancelledError` on abort or close, or the
 *    death of the task's thread.
 * P2 no thread is started before the first task; idle threads end by themselves.
 * P3 a thread that dies or is aborted fails only its own task; the next task gets a new thread.
 *
 * Piscina's own queue is not used: its tasks wait forever when the last thread dies, and a full queue throws a plain
 * `Error`.
 */

import { EventEmitter } from 'node:events';
import { MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import type { Piscina } from 'piscina';
import { TOOL_THREAD_IDLE_MS } from '../base/bounds.ts';
import { asError, CancelledError, LimitError, TroupeError } from '../base/errors.ts';
import { isRecord } from '../base/json.ts';
import type { LazyAbort } from '../base/lazy-abort.ts';
import { loadLibrary } from '../base/load-library.ts';
import { decodeError } from './error-codec.ts';
import { threadFlags } from './host-flags.ts';
import { LINE_KEY, type TaskReply } from './task-thread.ts';
import { settledInTime, type ThreadLimits, workerLimits } from './thread.ts';
import { entryPath, missingEntry } from './worker-url.ts';

/**
 * The pool's side of a **line**: a message port between the pool and one thread, beside the tasks. Posting to a dead
 * thread has no effect.
 */
export interface ThreadLine {
  post(message: unknown): void;
}

/** The options of a pool. */
export interface TaskPoolOptions {
  /** A worker entry whose default export is made by `serveTasks`. */
  readonly entry: URL;
  /** The most threads. */
  readonly threads: number;
  /** The most waiting tasks. */
  readonly queueMax: number;
  readonly resourceLimits?: ThreadLimits;
  /** `process.env` of the threads; default: that of the thread that starts them. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Milliseconds that an idle thread is kept; default `TOOL_THREAD_IDLE_MS`. */
  readonly idleMs?: number;
  /**
   * Receives the notes that a thread posts on its line, in order. Notes posted before the end of the thread's task
   * arrive before `run` settles. A note may also arrive after the task's end. Must not throw.
   */
  readonly onNote?: (note: unknown, line: ThreadLine) => void;
}

/** Options of one task. */
export interface TaskOptions {
  /**
   * Aborting a waiting task removes it from the queue. Aborting a running task kills its thread, even in an endless
   * loop. Only the pool may listen to this abort.
   */
  readonly abort?: LazyAbort;
  /** Ports and buffers inside the task that move instead of being copied. */
  readonly transfer?: readonly object[];
}

/** A pool of threads that run tasks. */
export interface TaskPool {
  /**
   * Runs a task. Rejects with the task's own error (class and code kept), `CancelledError` on abort or close, or
   * `LimitError` when the queue is full. If the task's thread died, rejects with an error for which `threadDeathOf`
   * returns the cause.
   */
  run(task: unknown, options?: TaskOptions): Promise<unknown>;
  /** The number of running tasks, of tasks that wait for a thread, and of threads. */
  counts(): { readonly running: number; readonly waiting: number; readonly threads: number };
  /**
   * Rejects open tasks with `CancelledError` and ends the threads, waiting `THREAD_END_MS` at most. A second call is
   * harmless.
   */
  close(): Promise<void>;
}

interface Waiting {
  readonly task: unknown;
  readonly options: TaskOptions;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
  /** Stops a running task by killing its thread. */
  readonly kill: KillSignal;
  /** The reason why the thread was killed. */
  fate: Error | undefined;
}

/** Creates a pool; starts no thread yet. */
export function createTaskPool(options: TaskPoolOptions): TaskPool {
  return new PiscinaPool(options);
}

/** The cause of a thread's death (`exit code 1`, `out of memory`); undefined if the task failed for another reason. */
export function threadDeathOf(error: unknown): string | undefined {
  if (!(error instanceof TroupeError)) return undefined;
  const death = error.data['threadDeath'];
  return typeof death === 'string' ? death : undefined;
}

/** The most notes of one thread read at once: a thread that posts forever must not hold up the event loop. */
const NOTES_MAX = 1_000;

/** The signal that stops a task in Piscina. An `AbortSignal` would cost more than the rest of a small task. */
class KillSignal extends EventEmitter {
  aborted = false;

  abort(): void {
    this.aborted = true;
    this.emit('abort');
  }
}

class PiscinaPool implements TaskPool {
  readonly #options: TaskPoolOptions;
  #piscina: Piscina | undefined;
  /** The waiting tasks, in order. They are in a set, so that an aborted task can be removed in constant time. */
  readonly #waiting = new Set<Waiting>();
  readonly #running = new Set<Waiting>();
  /** The lines of the living threads. */
  readonly #lines = new Map<MessagePort, ThreadLine>();
  #closing: Promise<void> | undefined;

  constructor(options: TaskPoolOptions) {
    this.#options = options;
  }

  run(task: unknown, options: TaskOptions = {}): Promise<unknown> {
    if (this.#closing !== undefined) return Promise.reject(new CancelledError('the thread pool is closed'));
    if (options.abort?.isAborted === true) return Promise.reject(aborted(options.abort.reason));
    if (this.#waiting.size >= this.#options.queueMax) {
      return Promise.reject(
        new LimitError(`more than ${this.#options.queueMax} tasks wait for a thread`, {
          retryable: true,
          data: { limit: 'taskQueue' },
        }),
      );
    }
    const missing = this.#piscina === undefined ? missingEntry(this.#options.entry) : undefined;
    if (missing !== undefined) return Promise.reject(missing);
    return new Promise((resolve, reject) => {
      const entry: Waiting = {
        task,
        options,
        resolve,
        reject,
        kill: new KillSignal(),
        fate: undefined,
      };
      options.abort?.listen((reason) => this.#abort(entry, aborted(reason)));
      this.#waiting.add(entry);
      this.#fill();
    });
  }

  counts(): { readonly running: number; readonly waiting: number; readonly threads: number } {
    return {
      running: this.#running.size,
      waiting: this.#waiting.size,
      threads: this.#piscina?.threads.length ?? 0,
    };
  }

  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #end(): Promise<void> {
    const open = [...this.#waiting, ...this.#running];
    this.#waiting.clear();
    for (const entry of open) entry.reject(new CancelledError('the thread pool was closed'));
    if (this.#piscina !== undefined) await settledInTime(this.#piscina.destroy());
  }

  #fill(): void {
    for (const entry of this.#waiting) {
      if (this.#running.size >= this.#options.threads || this.#closing !== undefined) return;
      this.#waiting.delete(entry);
      void this.#start(entry);
    }
  }

  #abort(entry: Waiting, fate: Error): void {
    if (this.#waiting.delete(entry)) entry.reject(fate);
    entry.fate ??= fate;
    entry.kill.abort();
  }

  async #start(entry: Waiting): Promise<void> {
    this.#running.add(entry);
    const { transfer } = entry.options;
    try {
      const reply = (await this.#threads().run(entry.task, {
        signal: entry.kill,
        ...(transfer === undefined ? {} : { transferList: [...transfer] as never }),
      })) as TaskReply;
      this.#hearLines();
      if ('error' in reply) entry.reject(decodeError(reply.error));
      else entry.resolve(reply.value);
    } catch (error) {
      this.#hearLines();
      entry.reject(entry.fate ?? threadDeath(error));
    } finally {
      this.#running.delete(entry);
      this.#fill();
    }
  }

  #threads(): Piscina {
    if (this.#piscina !== undefined) return this.#piscina;
    const { entry, threads, idleMs, resourceLimits, environment } = this.#options;
    const flags = threadFlags();
    // The library is loaded with the first task. A runtime whose tools are all given as values never runs a task.
    const library = loadLibrary('piscina') as { readonly Piscina: typeof Piscina };
    const piscina = new library.Piscina({
      filename: entryPath(entry),
      minThreads: 0,
      maxThreads: threads,
      idleTimeout: idleMs ?? TOOL_THREAD_IDLE_MS,
      concurrentTasksPerWorker: 1,
      // With `Atomics`, an idle thread would block work that a tool left running. Errors of that work would then appear
      // during the next task.
      atomics: 'disabled',
      recordTiming: false,
      ...(flags === undefined ? {} : { execArgv: [...flags] }),
      ...(environment === undefined ? {} : { env: environment }),
      ...(resourceLimits === undefined ? {} : { resourceLimits: workerLimits(resourceLimits) }),
    });
    // There must always be a listener: if a task is aborted while its reply is in flight, the reply becomes an `error`
    // event.
    piscina.on('error', (error: unknown) => this.#poolError(error));
    piscina.on('message', (message: unknown) => this.#greet(message));
    this.#piscina = piscina;
    return piscina;
  }

  /**
   * Handles an error of the pool. If a thread dies before it is ready, Piscina does not fail the thread's task, and the
   * task would wait forever (P1).
   */
  #poolError(error: unknown): void {
    if ((this.#piscina?.threads.length ?? 0) > 0) return;
    for (const entry of [...this.#running]) this.#abort(entry, threadDeath(error));
  }

  /** Handles the first message of a thread, which carries the pool's side of the line. */
  #greet(message: unknown): void {
    if (!isRecord(message) || !(LINE_KEY in message)) return;
    const port = message[LINE_KEY];
    // A tool may post any message from its thread.
    if (!(port instanceof MessagePort)) return;
    const line: ThreadLine = { post: (note) => port.postMessage(note) };
    this.#lines.set(port, line);
    port.on('message', (note: unknown) => {
      this.#options.onNote?.(note, line);
      this.#hearLine(port, line);
    });
    port.on('close', () => this.#lines.delete(port));
    // Running tasks keep the process alive; an idle thread must not.
    port.unref();
  }

  /** Reads the notes of all threads. A task's end arrives on another port than its notes and may overtake them. */
  #hearLines(): void {
    for (const [port, line] of this.#lines) this.#hearLine(port, line);
  }

  /** Reads the notes that have already arrived, in one loop. One event for each note would cost more than the note. */
  #hearLine(port: MessagePort, line: ThreadLine): void {
    for (let left = NOTES_MAX; left > 0; left -= 1) {
      const received = receiveMessageOnPort(port);
      if (received === undefined) return;
      this.#options.onNote?.(received.message, line);
    }
  }
}

function aborted(reason: unknown): CancelledError {
  return new CancelledError('the task was aborted', { cause: reason });
}

function threadDeath(thrown: unknown): TroupeError {
  const error = asError(thrown);
  const code: unknown = Reflect.get(error, 'code');
  const exit = /exited with code: (-?\d+)/.exec(error.message)?.[1];
  let death = error.message;
  if (code === 'ERR_WORKER_OUT_OF_MEMORY') death = 'out of memory';
  else if (exit !== undefined) death = `exit code ${exit}`;
  return new TroupeError('internal', `the thread died: ${death}`, {
    cause: error,
    retryable: true,
    data: { threadDeath: death },
  });
}
