/** One run of a tool pool, from its acceptance to its outcome. */
import { TOOL_ADMITTED, TOOL_CONCURRENCY } from '../base/bounds.ts';
import { defined } from '../base/defined.ts';
import type { ThreadPlace, ToolRun } from './pool.ts';
import type { QueuedRun } from './run-queue.ts';
import type { ToolFailure, ToolOutcome } from './tool.ts';

/**
 * The phase of a run. `handed`: handed to a thread; the marks of its batch say whether it has begun
 * (`batch-cursor.ts`). `running`: begun, on the host. `ending`: its outcome is decided, but its tool has not settled.
 */
export type RunPhase = 'waiting' | 'handed' | 'running' | 'ending';

/** See the head of the file. */
export interface OpenRun extends QueuedRun {
  readonly run: ToolRun;
  phase: RunPhase;
  /**
   * `probe` if the tool's `probe` is called first: the caller asked for that, or a run of a `probe` tool begins again.
   */
  mode: ToolRun['mode'];
  /** Maximum runs of its tool on one thread. */
  readonly perThread: number;
  /** True if the run must have its thread to itself. */
  isAlone: boolean;
  /** How often the run has begun again because another call ended its thread. */
  repeats: number;
  /** Monotonic ms at which the tool began; 0 before that. For a run on a thread this time is read from the marks. */
  startedAt: number;
  /** The answer of the run, once the pool has decided it. */
  decided: string | undefined;
  /** How the run failed, if a failure decided its answer. */
  failed: ToolFailure | undefined;
  /**
   * True after a cancellation or an uncaught error: `decided` is then the answer even if the tool never saw the abort.
   */
  isFinal: boolean;
  /** The stack of the error that the tool threw, if that error decided the answer. */
  stack: string | undefined;
  /** Monotonic ms at which the decision was made. */
  decidedAt: number;
  /** Monotonic ms at which a check found that the run has ended without a report. */
  endSeenAt: number | undefined;
}

/** A run that waits for the host thread. There a tool has a bound only if its description gives one. */
export function openHostRun(run: ToolRun): OpenRun {
  return openRun(run, run.concurrency, { isAlone: false, perThread: Number.POSITIVE_INFINITY });
}

/**
 * A run that waits for one of `threads` tool threads. A bound from the tool's description holds for all threads
 * together. Without such a bound, a tool has the default bound on each thread. A run needs a thread alone if its tool
 * runs in a process, or if it is a `once` run without a bound above 1.
 */
export function openThreadRun(run: ToolRun, threads: number): OpenRun {
  const { concurrency, effect, place } = run;
  if (place.kind === 'thread' && place.isolation === 'process')
    return openRun(run, concurrency, { isAlone: true, perThread: 1 });
  if (effect === 'once' && (concurrency === undefined || concurrency === 1))
    return openRun(run, concurrency, { isAlone: true, perThread: 1 });
  return openRun(run, concurrency ?? TOOL_ADMITTED * threads, {
    isAlone: false,
    perThread: concurrency ?? TOOL_CONCURRENCY,
  });
}

function openRun(
  run: ToolRun,
  concurrency: number | undefined,
  { isAlone, perThread }: { readonly isAlone: boolean; readonly perThread: number },
): OpenRun {
  return {
    run,
    order: run.id,
    lane: laneOf(run),
    concurrency,
    perThread,
    isAlone,
    phase: 'waiting',
    mode: run.mode,
    repeats: 0,
    startedAt: 0,
    decided: undefined,
    failed: undefined,
    isFinal: false,
    stack: undefined,
    decidedAt: 0,
    endSeenAt: undefined,
  };
}

/** The lane of a run. The bound holds for all runs of a lane: those of one tool, or of all tools of one MCP server. */
export function laneOf({ place, toolName }: ToolRun): string {
  if (place.kind === 'thread') return threadLane(place);
  return place.kind === 'host' ? `host\n${place.agent}\n${toolName}` : `mcp\n${place.server}`;
}

/** The lane of a tool in a module. With `options`, the export is a function that makes the tool from these options. */
export function threadLane({ url, exportName, options }: Pick<ThreadPlace, 'url' | 'exportName' | 'options'>): string {
  const lane = `${url}\n${exportName}`;
  return options === undefined ? lane : `${lane}\n${options}`;
}

/** An outcome that did not come from the tool. */
export function failure(content: string, ms: number, failed?: ToolFailure, stack?: string): ToolOutcome {
  return { content, success: false, ms, ...defined({ failed, stack }) };
}
