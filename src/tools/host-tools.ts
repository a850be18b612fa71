/**
 * Tools given as values, run on the host thread: the other end of a pool's `HostRunner`, reached in place or over a
 * bridge. A host tool cannot be killed; its call is answered all the same, here at the timeout, by the pool at the deadline.
 *
 * H1 `run` resolves with exactly one outcome and never rejects.
 * H2 a `probe` is not asked while an earlier run of its call is still at work: what it has not done yet, it may still do.
 */
import { type Clock, systemClock } from '../base/clock.ts';
import { CancelledError } from '../base/errors.ts';
import { LazyAbort } from '../base/lazy-abort.ts';
import type { ToolRun } from './pool.ts';
import { coalesceProgress } from './progress.ts';
import type { AnyTool, ToolOutcome } from './tool.ts';
import { executeTool } from './tool-execution.ts';

/** Runs calls whose place is the host thread. Plain data in and out, so that a bridge can stand between. */
export interface HostRunner {
  /** Runs a call; resolves with its outcome. */
  run(run: ToolRun): Promise<ToolOutcome> | ToolOutcome;
  /** Aborts a running call's signal; unknown ids are ignored. */
  abort(id: number, reason: string): Promise<void> | void;
}

/** How to make a host's runner. */
export interface HostToolsOptions {
  /** The tool of this name that an agent has as a value. */
  readonly find: (agent: string, name: string) => AnyTool | undefined;
  /** Takes progress, coalesced. Must not throw. */
  readonly progress: (id: number, data: unknown) => void;
  readonly resultBytesMax?: number;
  readonly clock?: Clock;
  /** What is at work, shared with the runners before and after this one of the same host; missing: nothing else is. */
  readonly work?: HostWork;
}

/**
 * `probe` tools at work on the host, by the key of their call. A tool that was answered for, or whose session thread died, is
 * at work until it has settled by itself.
 */
export type HostWork = Map<string, Promise<void>>;

/** The runner of the tools an embedder gave as values. Runs on the host thread. */
export function createHostRunner(options: HostToolsOptions): HostRunner {
  const running = new Map<number, LazyAbort>();
  const { find, progress, resultBytesMax, clock = systemClock, work = new Map() } = options;
  return {
    async run(run) {
      const tool = run.place.kind === 'host' ? find(run.place.agent, run.toolName) : undefined;
      if (tool === undefined) return { content: `Unknown tool: ${run.toolName}`, success: false, ms: 0 };
      const abort = new LazyAbort();
      running.set(run.id, abort);
      // Bounded by the pool's deadline, which counts from here.
      if (run.mode === 'probe') await Promise.race([work.get(run.key), aborted(abort)]);
      const teller = coalesceProgress((data) => progress(run.id, data), clock);
      try {
        return await executeTool(tool.effect === 'probe' ? watched(tool, run.key, work) : tool, {
          input: run.input,
          context: { session: run.session, callId: run.callId, key: run.key },
          timeoutMs: run.timeoutMs,
          mode: run.mode,
          abort,
          progress: teller.tell,
          ...(resultBytesMax === undefined ? {} : { resultBytesMax }),
          clock,
        });
      } finally {
        running.delete(run.id);
        teller.end();
      }
    },
    abort(id, reason) {
      running.get(id)?.abort(new CancelledError(reason));
    },
  };
}

/** The tool, noting for how long it is at work (H2). */
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
