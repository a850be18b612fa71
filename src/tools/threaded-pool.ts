/**
 * Tool calls on tool threads and on the host: a call goes out, exactly one outcome comes back, in time.
 *
 * Owns: every open run, its deadline, its outcome. Does not own: the threads (`threads/task-pool.ts`), the order of waiting
 * runs (`run-queue.ts`), what a tool does (`tool-execution.ts`).
 *
 * P1 each run has exactly one outcome. The first cause wins: an outcome decided here (timeout, cancel, fault) is not replaced
 *    by what the thread says later.
 * P2 a run is over at its timeout plus `TOOL_GRACE_MS`, counted from when the tool begins: its signal is aborted at the
 *    timeout, its thread killed `TOOL_KILL_MS` later. A host tool cannot be killed; its call is answered then.
 * P3 a thread's death is the outcome of the run it had, and of no other.
 * P4 the listener is never called from within `run`, `cancel` or `close`.
 */
import { strict as assert } from 'node:assert';
import {
  TOOL_KILL_MS,
  TOOL_LOAD_MS,
  TOOL_QUEUE_MAX,
  TOOL_RESULT_CROSSING_BYTES_MAX,
  TOOL_THREAD_HEAP_MB,
  TOOL_THREAD_YOUNG_HEAP_MB,
} from '../base/bounds.ts';
import type { Clock } from '../base/clock.ts';
import { ConfigError } from '../base/errors.ts';
import { LazyAbort } from '../base/lazy-abort.ts';
import {
  createTaskPool,
  type TaskPool,
  type TaskPoolOptions,
  type ThreadLine,
  threadDeathOf,
} from '../threads/task-pool.ts';
import { workerUrl } from '../threads/worker-url.ts';
import type { HostRunner } from './host-tools.ts';
import type { FoundTool, ToolPool, ToolPoolListener, ToolRun } from './pool.ts';
import { nameAndMessage } from './result-text.ts';
import { type QueuedRun, RunQueue } from './run-queue.ts';
import type { ThreadAbort, ThreadNote, ThreadTask } from './thread-protocol.ts';
import type { ToolOutcome } from './tool.ts';
import { timeoutText } from './tool-execution.ts';

/** An error that no call can be charged with any more. */
export interface ToolNoise {
  /** The tool of the call it stems from; empty when it stems from none. */
  readonly toolName: string;
  readonly message: string;
}

/** How to make a pool. */
export interface ToolPoolOptions {
  /** Tool threads at most, from 1; none is started before the first use. */
  readonly threads: number;
  readonly listener: ToolPoolListener;
  readonly clock: Clock;
  /** Runs the calls whose place is the host; missing: they fail. */
  readonly hostRunner?: HostRunner;
  /** Open runs at most, default `TOOL_QUEUE_MAX`; a further one fails. */
  readonly queueMax?: number;
  /** UTF-8 bytes of a result that may come out of a thread, default `TOOL_RESULT_CROSSING_BYTES_MAX`. */
  readonly resultBytesMax?: number;
  /** Megabytes of heap of one thread, default `TOOL_THREAD_HEAP_MB`. */
  readonly heapMb?: number;
  /** Takes late errors, each once a thread. Must not throw. */
  readonly onNoise?: (noise: ToolNoise) => void;
  /** Makes the threads; default worker threads. A simulator gives some that are none. */
  readonly makeTaskPool?: (options: TaskPoolOptions) => TaskPool;
}

/** A tool pool, with figures. */
export interface ThreadedToolPool extends ToolPool {
  /** Runs that wait and that run, and threads alive. */
  counts(): { readonly waiting: number; readonly running: number; readonly threads: number };
}

/** Makes a pool. Throws nothing; starts nothing. */
export function createToolPool(options: ToolPoolOptions): ThreadedToolPool {
  return new Pool(options);
}

interface OpenRun extends QueuedRun {
  readonly run: ToolRun;
  /** `loading`: with a thread that has not begun the tool. `ending`: the outcome is decided, the tool not gone. */
  phase: 'waiting' | 'loading' | 'running' | 'ending';
  /** Monotonic ms of the phase `running`, before it that of the take. */
  startedAt: number;
  /** What the run is answered, once decided here (P1). */
  decided: string | undefined;
  timer: unknown;
  /** The line to the thread that runs it. */
  line: ThreadLine | undefined;
  /** Kills the thread; for a host run, gives up on it. */
  readonly kill: LazyAbort;
}

class Pool implements ThreadedToolPool {
  readonly #options: ToolPoolOptions;
  readonly #tasks: TaskPool;
  readonly #open = new Map<number, OpenRun>();
  readonly #threadQueue = new RunQueue<OpenRun>();
  readonly #hostQueue = new RunQueue<OpenRun>();
  /** Bounds of tools seen by `describe`, for runs that do not carry theirs. */
  readonly #concurrency = new Map<string, number>();
  #threadsBusy = 0;
  #running = 0;
  #closed = false;

  constructor(options: ToolPoolOptions) {
    assert(Number.isInteger(options.threads) && options.threads > 0, 'a tool pool has at least one thread');
    this.#options = options;
    this.#tasks = (options.makeTaskPool ?? createTaskPool)({
      entry: workerUrl('./tool-threads.worker', import.meta.url),
      threads: options.threads,
      queueMax: TOOL_QUEUE_MAX,
      resourceLimits: { heapMb: options.heapMb ?? TOOL_THREAD_HEAP_MB, youngHeapMb: TOOL_THREAD_YOUNG_HEAP_MB },
      onNote: (note, line) => this.#hear(note as ThreadNote, line),
    });
  }

  run(run: ToolRun): void {
    assert(!this.#open.has(run.id), `tool run ${run.id} is already open`);
    const queueMax = this.#options.queueMax ?? TOOL_QUEUE_MAX;
    if (this.#closed || this.#open.size >= queueMax) {
      const why = this.#closed ? 'the tool pool is closed' : `${queueMax} tool calls are open already; try again later`;
      this.#tell(run.id, failure(`limit: ${why}`, 0));
      return;
    }
    const lane = laneOf(run);
    const open: OpenRun = {
      run,
      lane,
      concurrency: run.concurrency ?? this.#concurrency.get(lane),
      phase: 'waiting',
      startedAt: 0,
      decided: undefined,
      timer: undefined,
      line: undefined,
      kill: new LazyAbort(),
    };
    this.#open.set(run.id, open);
    this.#queueOf(open).add(open);
    this.#pump();
  }

  cancel(id: number, reason: string): void {
    const open = this.#open.get(id);
    if (open === undefined) return;
    if (open.phase !== 'waiting') {
      this.#decide(open, reason);
      return;
    }
    this.#queueOf(open).remove(open);
    this.#finish(open, failure(reason, 0));
    this.#pump();
  }

  async describe(url: string): Promise<readonly FoundTool[]> {
    const task: ThreadTask = { kind: 'describe', url };
    const deadline = new AbortController();
    const timer = this.#options.clock.setTimer(() => deadline.abort(), TOOL_LOAD_MS);
    try {
      const found = (await this.#tasks.run(task, { signal: deadline.signal })) as readonly FoundTool[];
      for (const { exportName, description } of found) {
        if (description.concurrency === undefined) continue;
        this.#concurrency.set(threadLane(url, exportName), description.concurrency);
      }
      return found;
    } catch (error) {
      const death = deadline.signal.aborted ? `not loaded in ${TOOL_LOAD_MS / 1_000} seconds` : threadDeathOf(error);
      if (death === undefined) throw error;
      throw new ConfigError(`tool module ${url} cannot be loaded: ${death}`, { cause: error, data: { url } });
    } finally {
      this.#options.clock.clearTimer(timer);
    }
  }

  counts(): { readonly waiting: number; readonly running: number; readonly threads: number } {
    return {
      waiting: this.#open.size - this.#running,
      running: this.#running,
      threads: this.#tasks.counts().threads,
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const open of [...this.#open.values()]) {
      if (open.run.place.kind === 'host' && open.phase !== 'waiting') this.#abortHost(open, 'The runtime is closing');
      this.#finish(open, failure(open.decided ?? 'The tool call was cancelled: the runtime is closing', 0));
    }
    await this.#tasks.close();
  }

  #queueOf(open: OpenRun): RunQueue<OpenRun> {
    return open.run.place.kind === 'host' ? this.#hostQueue : this.#threadQueue;
  }

  /** Begins what may begin: every host run its tool's bound admits, and a thread run for each free thread. */
  #pump(): void {
    if (this.#closed) return;
    for (let open = this.#hostQueue.take(); open !== undefined; open = this.#hostQueue.take()) {
      this.#take(open);
      void this.#runOnHost(open);
    }
    while (this.#threadsBusy < this.#options.threads) {
      const open = this.#threadQueue.take();
      if (open === undefined) return;
      this.#take(open);
      void this.#runOnThread(open);
    }
  }

  #take(open: OpenRun): void {
    open.phase = 'loading';
    open.startedAt = this.#options.clock.monotonic();
    this.#running += 1;
  }

  async #runOnThread(open: OpenRun): Promise<void> {
    const { place, timeoutMs: _ours, ...run } = open.run;
    if (place.kind !== 'thread') return;
    const resultBytesMax = this.#options.resultBytesMax ?? TOOL_RESULT_CROSSING_BYTES_MAX;
    const task: ThreadTask = { kind: 'run', run, url: place.url, exportName: place.exportName, resultBytesMax };
    this.#threadsBusy += 1;
    this.#setTimer(open, TOOL_LOAD_MS, () => {
      this.#decide(open, `tool worker died: ${place.url} was not loaded in ${TOOL_LOAD_MS / 1_000} seconds`);
    });
    let outcome: ToolOutcome;
    try {
      outcome = (await this.#tasks.run(task, { signal: open.kill.signal })) as ToolOutcome;
    } catch (error) {
      outcome = failure(taskFailureText(error), this.#elapsed(open));
    }
    this.#threadsBusy -= 1;
    this.#over(open, outcome);
  }

  async #runOnHost(open: OpenRun): Promise<void> {
    this.#begin(open);
    const { hostRunner } = this.#options;
    let outcome: ToolOutcome;
    try {
      if (hostRunner === undefined) throw new Error('no host runs tools here');
      outcome = await hostRunner.run(open.run);
    } catch (error) {
      outcome = failure(nameAndMessage(error), this.#elapsed(open));
    }
    this.#over(open, outcome);
  }

  #hear(note: ThreadNote, line: ThreadLine): void {
    if (note.kind === 'noise') {
      this.#options.onNoise?.({ toolName: note.toolName, message: note.message });
      return;
    }
    const open = this.#open.get(note.id);
    if (open === undefined || open.phase === 'waiting') return;
    if (note.kind === 'started') {
      open.line = line;
      if (open.phase === 'loading') this.#begin(open);
      else this.#abortThread(open);
    } else if (note.kind === 'fault') this.#decide(open, note.content);
    else if (open.phase === 'running') this.#options.listener.progress(note.id, note.data);
  }

  /** The tool has begun: its time counts from here (P2). */
  #begin(open: OpenRun): void {
    open.phase = 'running';
    open.startedAt = this.#options.clock.monotonic();
    const { toolName, timeoutMs } = open.run;
    this.#setTimer(open, timeoutMs, () => this.#decide(open, timeoutText(toolName, timeoutMs)));
  }

  /** Settles what the run will be answered, asks the tool to stop, and sees to it that it does (P1, P2). */
  #decide(open: OpenRun, content: string): void {
    if (open.phase === 'ending') return;
    open.phase = 'ending';
    open.decided = content;
    this.#setTimer(open, TOOL_KILL_MS, () => {
      open.kill.abort();
      if (open.run.place.kind === 'host') this.#over(open, failure(content, this.#elapsed(open)));
    });
    if (open.run.place.kind === 'host') this.#abortHost(open, content);
    else this.#abortThread(open);
  }

  #abortThread(open: OpenRun): void {
    const abort: ThreadAbort = { id: open.run.id, reason: open.decided ?? '' };
    open.line?.post(abort);
  }

  #abortHost(open: OpenRun, reason: string): void {
    // The answer does not wait for the host: if this fails, the deadline answers.
    void Promise.resolve(this.#options.hostRunner?.abort(open.run.id, reason)).catch(() => undefined);
  }

  #over(open: OpenRun, outcome: ToolOutcome): void {
    // False for a host run that was given up on, and for runs that `close` has answered.
    if (this.#open.get(open.run.id) !== open) return;
    const { decided } = open;
    this.#finish(open, decided === undefined ? outcome : failure(decided, this.#elapsed(open)));
    this.#queueOf(open).release(open);
    this.#pump();
  }

  #finish(open: OpenRun, outcome: ToolOutcome): void {
    if (open.phase !== 'waiting') this.#running -= 1;
    this.#options.clock.clearTimer(open.timer);
    this.#open.delete(open.run.id);
    this.#tell(open.run.id, outcome);
  }

  #tell(id: number, outcome: ToolOutcome): void {
    queueMicrotask(() => this.#options.listener.finished(id, outcome));
  }

  #setTimer(open: OpenRun, delayMs: number, run: () => void): void {
    const { clock } = this.#options;
    clock.clearTimer(open.timer);
    open.timer = clock.setTimer(run, delayMs);
  }

  #elapsed(open: OpenRun): number {
    return Math.max(0, Math.round(this.#options.clock.monotonic() - open.startedAt));
  }
}

function laneOf(run: ToolRun): string {
  const { place } = run;
  return place.kind === 'host' ? `host\n${place.agent}\n${run.toolName}` : threadLane(place.url, place.exportName);
}

function threadLane(url: string, exportName: string): string {
  return `${url}\n${exportName}`;
}

function taskFailureText(error: unknown): string {
  const death = threadDeathOf(error);
  return death === undefined ? nameAndMessage(error) : `tool worker died: ${death}`;
}

function failure(content: string, ms: number): ToolOutcome {
  return { content, success: false, ms };
}
