/**
 * Runs tools given as values, and calls tools of MCP servers, on the host thread. This is the `HostRunner` that a pool
 * calls, directly or over a bridge. A host tool cannot be killed. The call of such a tool is still answered: this file
 * answers it at the timeout. If the tool blocks this thread, the pool answers it at the pool's deadline.
 *
 * H1 `run` resolves with exactly one outcome and never rejects.
 * H2 A `probe` is not called while an earlier run of its call is still at work, because that run may still take effect.
 */
import { type Clock, systemClock } from '../base/clock.ts';
import { DeadlineQueue } from '../base/deadline-queue.ts';
import { CancelledError } from '../base/errors.ts';
import { LazyAbort } from '../base/lazy-abort.ts';
import type { AnsweredElicitation } from '../session/state/elicitation.ts';
import type { ToolPlace, ToolRun } from './pool.ts';
import { coalesceProgress, type ProgressPublisher } from './progress.ts';
import type { AnyTool, ToolOutcome } from './tool.ts';
import { type Expiring, startTool } from './tool-execution.ts';
import type { ToolWatch } from './tool-watch.ts';

/** The place of a tool of an MCP server. */
export type McpPlace = Extract<ToolPlace, { kind: 'mcp' }>;

/** Makes a tool that calls a tool of an MCP server. `elicited`: the answer that the call continues with. */
export type McpToolOf = (name: string, place: McpPlace, elicited: AnsweredElicitation | undefined) => AnyTool;

/** Runs calls on the host thread. Input and output are plain data, so that they can cross a bridge. */
export interface HostRunner {
  /** Runs a call; resolves with its outcome. */
  run(run: ToolRun): Promise<ToolOutcome> | ToolOutcome;
  /** Aborts a running call's signal; unknown ids are ignored. */
  abort(id: number, reason: string): Promise<void> | void;
}

/** The options of a host's runner. */
export interface HostToolsOptions {
  /** The tool value of this name that an agent has. */
  readonly find: (agent: string, name: string) => AnyTool | undefined;
  /** Makes the tools of MCP servers; if missing, there are no servers. */
  readonly mcpTool?: McpToolOf;
  /** Takes progress, coalesced. Must not throw. */
  readonly progress: (id: number, data: unknown) => void;
  readonly resultBytesMax?: number;
  readonly clock?: Clock;
  /** The tools at work, shared with earlier and later runners of the same host; if missing, no runner shares them. */
  readonly work?: HostWork;
  /** Reports tools that hold the thread; if missing, they are not reported. */
  readonly watch?: ToolWatch;
}

/**
 * `probe` tools at work on the host, by the key of their call. A tool whose call was already answered, or whose session
 * thread died, stays at work until it settles.
 */
export type HostWork = Map<string, Promise<void>>;

/** A runner that can abort all its calls. */
export interface OwnHostRunner extends HostRunner {
  /** Aborts all running calls. */
  abortAll(reason: string): void;
}

/** The runner of the tools that an embedder gave as values. Runs on the host thread. */
export function createHostRunner(options: HostToolsOptions): OwnHostRunner {
  return new Runner(options);
}

/** A call that is about to begin, or runs. */
interface Running {
  readonly run: ToolRun;
  readonly tool: AnyTool;
  readonly abort: LazyAbort;
  readonly resolve: (outcome: ToolOutcome) => void;
  progress: ProgressPublisher | undefined;
}

class Runner implements OwnHostRunner {
  readonly #options: HostToolsOptions;
  readonly #clock: Clock;
  readonly #work: HostWork;
  readonly #running = new Map<number, Running>();
  readonly #deadlines: DeadlineQueue<Expiring>;
  #starting: Running[] = [];

  constructor(options: HostToolsOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#work = options.work ?? new Map();
    this.#deadlines = new DeadlineQueue(this.#clock, (call) => call.expire());
  }

  run(run: ToolRun): Promise<ToolOutcome> | ToolOutcome {
    const tool = this.#toolOf(run);
    if (tool === undefined) return { content: `Unknown tool: ${run.toolName}`, success: false, ms: 0 };
    return new Promise((resolve) => {
      const running: Running = { run, tool, abort: new LazyAbort(), resolve, progress: undefined };
      this.#running.set(run.id, running);
      // The call is not started from within `run`, because a tool may occupy the thread, and the caller must first send
      // its remaining calls.
      if (this.#starting.push(running) === 1) queueMicrotask(this.#startAll);
    });
  }

  #toolOf({ place, toolName, elicited }: ToolRun): AnyTool | undefined {
    if (place.kind === 'host') return this.#options.find(place.agent, toolName);
    return place.kind === 'mcp' ? this.#options.mcpTool?.(toolName, place, elicited) : undefined;
  }

  abort(id: number, reason: string): void {
    this.#running.get(id)?.abort.abort(new CancelledError(reason));
  }

  abortAll(reason: string): void {
    for (const id of [...this.#running.keys()]) this.abort(id, reason);
  }

  #startAll = (): void => {
    const starting = this.#starting;
    this.#starting = [];
    for (const running of starting) {
      if (running.run.mode === 'probe') void this.#startAfterWork(running);
      else this.#start(running);
    }
  };

  /**
   * Starts a call once no run of the same call is at work, so that no probe runs beside such a run (H2). The wait is
   * bounded by the pool's deadline, which counts from the call of `run`.
   */
  async #startAfterWork(running: Running): Promise<void> {
    await Promise.race([this.#work.get(running.run.key), aborted(running.abort)]);
    this.#start(running);
  }

  #start(running: Running): void {
    const { run, tool, abort } = running;
    const { resultBytesMax, watch } = this.#options;
    const execution = {
      input: run.input,
      context: run,
      timeoutMs: run.timeoutMs,
      mode: run.mode,
      abort,
      progress: (data: unknown) => this.#publishProgress(running, data),
      clock: this.#clock,
      deadlines: this.#deadlines,
    };
    const start = (): void =>
      startTool(
        tool.effect === 'probe' ? watched(tool, run.key, this.#work) : tool,
        resultBytesMax === undefined ? execution : { ...execution, resultBytesMax },
        (outcome) => this.#end(running, outcome),
      );
    if (watch === undefined) start();
    else watch.begin(run.toolName, start);
  }

  #publishProgress(running: Running, data: unknown): void {
    running.progress ??= coalesceProgress((newest) => this.#options.progress(running.run.id, newest), this.#clock);
    running.progress.publish(data);
  }

  #end(running: Running, outcome: ToolOutcome): void {
    this.#running.delete(running.run.id);
    this.#options.watch?.ended(running.run.toolName);
    running.progress?.end();
    running.resolve(outcome);
  }
}

/** The tool, which is recorded in `work` while it runs (H2). */
function watched(tool: AnyTool, key: string, work: HostWork): AnyTool {
  const run: AnyTool['run'] = async (input, context) => {
    let settle = (): void => undefined;
    const ended = new Promise<void>((resolve) => {
      settle = resolve;
    });
    work.set(key, ended);
    try {
      return await tool.run(input, context);
    } finally {
      settle();
      if (work.get(key) === ended) work.delete(key);
    }
  };
  return Object.create(tool, { run: { value: run } }) as AnyTool;
}

function aborted(abort: LazyAbort): Promise<void> {
  return new Promise((resolve) => abort.listen(() => resolve()));
}
