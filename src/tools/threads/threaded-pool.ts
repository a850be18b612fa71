/**
 * Runs tool calls on tool threads, in tool processes and on the host. The pool receives each call as a **run**, and
 * answers it with exactly one outcome.
 *
 * Owns: every open run, and delivering its outcome to the listener. Does not own: the order and duration of runs
 * (`threads/runs.ts`, `host-runs.ts`), the threads (`threads/task-pool.ts`), a tool's execution (`tool-execution.ts`).
 *
 * P1 Each run has exactly one outcome. The first cause wins: an outcome decided here (timeout, cancel, fault) is not
 *    replaced by a later report of the thread.
 * P2 A run ends no later than `TOOL_GRACE_MS` after its timeout, which counts from its tool's beginning. Its signal is
 *    aborted at the timeout. The run is answered `TOOL_KILL_MS` later, whatever its tool does. R2 of `runs.ts` has the
 *    exception.
 * P3 A thread's death is the outcome of the run that held its event loop. The other runs on the thread begin again,
 *    except `once` runs: their outcome is reported as unknown.
 * P4 The listener is never called from within `run`, `cancel` or `close`.
 */
import { strict as assert } from 'node:assert';
import {
  TOOL_LOAD_MS,
  TOOL_QUEUE_MAX,
  TOOL_RESULT_CROSSING_BYTES_MAX,
  TOOL_THREAD_HEAP_MB,
  TOOL_THREAD_YOUNG_HEAP_MB,
} from '../../base/bounds.ts';
import type { Clock } from '../../base/clock.ts';
import { ConfigError, systemCodeOf } from '../../base/errors.ts';
import { LazyAbort } from '../../base/lazy-abort.ts';
import { withoutSecrets } from '../../base/secret-environment.ts';
import {
  createTaskPool,
  type TaskPool,
  type TaskPoolOptions,
  type ThreadLine,
  threadDeathOf,
} from '../../threads/task-pool.ts';
import { workerUrl } from '../../threads/worker-url.ts';
import { BeginGate } from '../begin-gate.ts';
import { HostRuns } from '../host-runs.ts';
import type { HostRunner } from '../host-tools.ts';
import { failure, type OpenRun, openHostRun, openThreadRun } from '../open-run.ts';
import type { FoundTool, ToolPool, ToolPoolListener, ToolRun } from '../pool.ts';
import type { ToolOutcome } from '../tool.ts';
import { createProcessPool } from './process-pool.ts';
import type { ThreadNote, ThreadTask } from './protocol.ts';
import { ThreadRuns } from './runs.ts';

/** An error that can no longer be attributed to an open call. */
export interface ToolNoise {
  /** The tool of the call that caused the error; empty if no call caused it. */
  readonly toolName: string;
  readonly message: string;
}

/** The options of a tool pool. */
export interface ToolPoolOptions {
  /** The most tool threads, from 1. No thread is started before the first use. */
  readonly threads: number;
  readonly listener: ToolPoolListener;
  readonly clock: Clock;
  /** False while no call may begin: calls then wait. If missing, a call may always begin. */
  readonly mayBegin?: (() => boolean) | undefined;
  /** Runs the calls of tools on the host; if missing, these calls fail. */
  readonly hostRunner?: HostRunner;
  /** The most open runs, default `TOOL_QUEUE_MAX`; any further run fails. */
  readonly queueMax?: number;
  /** UTF-8 bytes of a result that may leave a thread, default `TOOL_RESULT_CROSSING_BYTES_MAX`. */
  readonly resultBytesMax?: number;
  /** Megabytes of heap of one thread, default `TOOL_THREAD_HEAP_MB`. */
  readonly heapMb?: number;
  /** Variables that the threads receive although their names look like secrets; default: none. */
  readonly secretEnv?: readonly string[];
  /**
   * Called with the number of waiting runs when it changes. A run waits for a thread, or because its tool has as many
   * runs at work as it may have. Must not throw.
   */
  readonly onWaiting?: (count: number) => void;
  /** Called with each error that belongs to no open call, once per thread. Must not throw. */
  readonly onNoise?: (noise: ToolNoise) => void;
  /** Makes the threads; default: worker threads. A simulator supplies simulated ones. */
  readonly makeTaskPool?: (options: TaskPoolOptions) => TaskPool;
}

/** A tool pool that also reports the numbers of its runs and threads. */
export interface ThreadedToolPool extends ToolPool {
  /** The numbers of waiting runs, running runs and living threads. */
  counts(): { readonly waiting: number; readonly running: number; readonly threads: number };
}

/** Makes a pool. Never throws, and starts no thread. */
export function createToolPool(options: ToolPoolOptions): ThreadedToolPool {
  return new Pool(options);
}

/** True if an error was caused by an addon that Node does not load on this thread. */
function isAddonRefused(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (systemCodeOf(cause) === 'ERR_DLOPEN_FAILED') return true;
  }
  return false;
}

interface Completed {
  readonly id: number;
  readonly outcome: ToolOutcome;
}

class Pool implements ThreadedToolPool {
  readonly #options: ToolPoolOptions;
  readonly #tasks: TaskPool;
  readonly #threadRuns: ThreadRuns;
  /** The processes for calls of tools with `isolation: 'process'`. */
  readonly #processes: TaskPool;
  readonly #processRuns: ThreadRuns;
  readonly #hostRuns: HostRuns;
  readonly #open = new Map<number, OpenRun>();
  /** Outcomes that the listener receives in the next microtask (P4). */
  #completed: Completed[] = [];
  /** The number of waiting runs that was reported last. */
  #waiting = 0;
  #isClosed = false;

  constructor(options: ToolPoolOptions) {
    assert(Number.isInteger(options.threads) && options.threads > 0, 'a tool pool has at least one thread');
    this.#options = options;
    const { threads, clock, listener, mayBegin, hostRunner, resultBytesMax = TOOL_RESULT_CROSSING_BYTES_MAX } = options;
    const taskOptions = {
      threads,
      queueMax: TOOL_QUEUE_MAX,
      environment: withoutSecrets(process.env, options.secretEnv ?? []),
      resourceLimits: { heapMb: options.heapMb ?? TOOL_THREAD_HEAP_MB, youngHeapMb: TOOL_THREAD_YOUNG_HEAP_MB },
    };
    this.#tasks = (options.makeTaskPool ?? createTaskPool)({
      ...taskOptions,
      entry: workerUrl('./tool-threads.worker', import.meta.url),
      onNote: (note, line) => this.#hear(note as ThreadNote, line, this.#threadRuns),
    });
    this.#processes = createProcessPool({
      ...taskOptions,
      entry: workerUrl('./tool-process.worker', import.meta.url),
      onNote: (note, line) => this.#hear(note as ThreadNote, line, this.#processRuns),
    });
    const over = (open: OpenRun, outcome: ToolOutcome): void => this.#over(open, outcome);
    const progress = (id: number, data: unknown): void => listener.progress(id, data);
    const handed = (): void => this.#noteWaiting();
    const gate = (): BeginGate | undefined => mayBegin && new BeginGate(clock, mayBegin);
    const runsOptions = { threads, clock, resultBytesMax, over, progress, handed };
    this.#threadRuns = new ThreadRuns({ ...runsOptions, gate: gate(), tasks: this.#tasks });
    this.#processRuns = new ThreadRuns({ ...runsOptions, gate: gate(), tasks: this.#processes, isSingle: true });
    this.#hostRuns = new HostRuns({ clock, gate: gate(), hostRunner, over });
  }

  run(run: ToolRun): void {
    assert(!this.#open.has(run.id), `tool run ${run.id} is already open`);
    const queueMax = this.#options.queueMax ?? TOOL_QUEUE_MAX;
    if (this.#isClosed || this.#open.size >= queueMax) {
      const why = this.#isClosed
        ? 'the tool pool is closed'
        : `${queueMax} tool calls are open already; try again later`;
      this.#report(run.id, failure(`limit: ${why}`, 0));
      return;
    }
    const open = run.place.kind === 'host' ? openHostRun(run) : openThreadRun(run, this.#options.threads);
    this.#open.set(run.id, open);
    this.#runsOf(open).add(open);
  }

  cancel(id: number, reason: string): void {
    const open = this.#open.get(id);
    if (open !== undefined) this.#runsOf(open).cancel(open, reason);
  }

  holds(id: number): boolean {
    return this.#open.has(id) || this.#completed.some((completed) => completed.id === id);
  }

  async describe(url: string): Promise<readonly FoundTool[]> {
    try {
      return await this.#describeOn(this.#tasks, url);
    } catch (error) {
      // A native addon that cannot be loaded on a thread can be loaded in a process. The module's tools then have to
      // run in processes.
      if (!isAddonRefused(error)) throw error;
      const found = await this.#describeOn(this.#processes, url).catch(() => []);
      if (found.length > 0 && found.every(({ description }) => description.isolation === 'process')) return found;
      throw error;
    }
  }

  async #describeOn(tasks: TaskPool, url: string): Promise<readonly FoundTool[]> {
    const task: ThreadTask = { kind: 'describe', url };
    const abort = new LazyAbort();
    const timer = this.#options.clock.setTimer(() => abort.abort(), TOOL_LOAD_MS);
    try {
      return (await tasks.run(task, { abort })) as readonly FoundTool[];
    } catch (error) {
      const death = abort.isAborted ? `not loaded in ${TOOL_LOAD_MS / 1_000} seconds` : threadDeathOf(error);
      if (death === undefined) throw error;
      throw new ConfigError(`tool module ${url} cannot be loaded: ${death}`, { cause: error, data: { url } });
    } finally {
      this.#options.clock.clearTimer(timer);
    }
  }

  counts(): { readonly waiting: number; readonly running: number; readonly threads: number } {
    const running = this.#threadRuns.running + this.#processRuns.running + this.#hostRuns.running;
    const threads = this.#tasks.counts().threads + this.#processes.counts().threads;
    return { waiting: this.#open.size - running, running, threads };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#threadRuns.close();
    this.#processRuns.close();
    this.#hostRuns.close();
    for (const open of [...this.#open.values()]) {
      this.#over(open, failure(open.decided ?? 'The tool call was cancelled: the runtime is closing', 0));
    }
    await Promise.all([this.#tasks.close(), this.#processes.close()]);
  }

  #runsOf(open: OpenRun): ThreadRuns | HostRuns {
    const { place } = open.run;
    if (place.kind !== 'thread') return this.#hostRuns;
    return place.isolation === 'process' ? this.#processRuns : this.#threadRuns;
  }

  #hear(note: ThreadNote, line: ThreadLine, runs: ThreadRuns): void {
    if (this.#isClosed) return;
    if (note.kind !== 'noise') runs.hear(note, line);
    else this.#options.onNoise?.({ toolName: note.toolName, message: note.message });
  }

  #over(open: OpenRun, outcome: ToolOutcome): void {
    // A run that `close` has answered is no longer in the map.
    if (!this.#open.delete(open.run.id)) return;
    this.#report(open.run.id, outcome);
  }

  #noteWaiting(): void {
    const { waiting } = this.counts();
    if (waiting === this.#waiting) return;
    this.#waiting = waiting;
    this.#options.onWaiting?.(waiting);
  }

  #report(id: number, outcome: ToolOutcome): void {
    if (this.#completed.push({ id, outcome }) === 1) queueMicrotask(() => this.#flush());
  }

  #flush(): void {
    const completed = this.#completed;
    this.#completed = [];
    this.#noteWaiting();
    let at = 0;
    try {
      for (const { id, outcome } of completed) {
        at += 1;
        this.#options.listener.finished(id, outcome);
      }
    } finally {
      // If the listener throws, the error belongs to the pool's owner, and the remaining outcomes must still be
      // reported.
      for (const { id, outcome } of completed.slice(at)) this.#report(id, outcome);
    }
  }
}
