/**
 * Runs the calls of one batch on a tool thread, from the first claim to the last outcome. A real and a simulated thread
 * share this code. It keeps no time: the pool aborts calls, and kills a thread that does not obey.
 *
 * B1 One call runs at a time, in order; a call's outcome leaves the thread before the next call begins.
 * B2 A call that the pool has taken back is not begun.
 */
import { strict as assert } from 'node:assert';
import type { Clock, Soon } from '../../base/clock.ts';
import { LazyAbort } from '../../base/lazy-abort.ts';
import { BatchCursor } from '../batch-cursor.ts';
import { coalesceProgress } from '../progress.ts';
import { nameAndMessage } from '../result-text.ts';
import type { AnyTool, ToolOutcome } from '../tool.ts';
import { executeTool } from '../tool-execution.ts';
import type { ThreadBatchTask, ThreadCall, ThreadFinished, ThreadNote } from './protocol.ts';

/**
 * Milliseconds of calls after which the thread yields for one tick, so that aborts, and timers that tools left behind,
 * are not delayed.
 */
const TURN_MS = 2;

/** A call, for as long as anything it started is alive. */
export interface CallInThread {
  readonly call: ThreadCall;
  /** Asks the tool to stop. */
  readonly abort: LazyAbort;
  /** False once the call has its outcome; later errors are ignored. */
  running: boolean;
}

/** The environment of a batch. */
export interface BatchSurroundings {
  /** The tool of a call, `undefined` when there is none of this name; a promise if its module must be loaded first. */
  readonly find: (call: ThreadCall) => AnyTool | undefined | Promise<AnyTool | undefined>;
  /** Runs a call by `work`, so that later effects of the call can be attributed to it. */
  readonly within: (call: CallInThread, work: () => Promise<ToolOutcome>) => Promise<ToolOutcome>;
  readonly clock: Clock;
  readonly soon: Soon;
  /** Sends a note to the pool. */
  readonly post: (note: ThreadNote) => void;
}

/**
 * Runs the calls of a batch that are not taken back. Resolves with the last outcome that is not reported yet. Never
 * rejects.
 */
export async function runThreadBatch(
  task: ThreadBatchTask,
  around: BatchSurroundings,
): Promise<ThreadFinished | undefined> {
  const cursor = new BatchCursor(task.cursor);
  let turnedAt = around.clock.monotonic();
  for (let at = cursor.claim(); at !== undefined; at = cursor.claim()) {
    const call = task.calls[at];
    assert(call !== undefined, 'a claimed call is one of the batch');
    const isFirst = at === 0;
    const current: CallInThread = { call, abort: new LazyAbort(), running: true };
    const outcome = await around.within(current, () => runCall(current, task.resultBytesMax, isFirst, around));
    current.running = false;
    const finished: ThreadFinished = { kind: 'finished', id: call.run.id, outcome };
    if (at + 1 >= cursor.end) return finished;
    around.post(finished);
    if (around.clock.monotonic() - turnedAt < TURN_MS) continue;
    await new Promise<void>((resolve) => around.soon(resolve));
    turnedAt = around.clock.monotonic();
  }
  return undefined;
}

async function runCall(
  { call, abort }: CallInThread,
  resultBytesMax: number,
  isFirst: boolean,
  { find, clock, post }: BatchSurroundings,
): Promise<ToolOutcome> {
  const { run } = call;
  const { id } = run;
  let tool = find(call);
  if (tool instanceof Promise) {
    if (!isFirst) post({ kind: 'loading', id });
    const askedAt = clock.monotonic();
    try {
      tool = await tool;
    } catch (error) {
      return { content: nameAndMessage(error), success: false, ms: Math.round(clock.monotonic() - askedAt) };
    }
    post({ kind: 'started', id });
  } else if (isFirst) post({ kind: 'started', id });
  if (tool === undefined) return { content: `Unknown tool: ${run.toolName}`, success: false, ms: 0 };
  const progress = coalesceProgress((data) => post({ kind: 'progress', id, data }), clock);
  const outcome = await executeTool(tool, {
    input: run.input,
    context: { session: run.session, callId: run.callId, key: run.key },
    timeoutMs: Number.POSITIVE_INFINITY,
    mode: run.mode,
    abort,
    onAbort: 'wait',
    progress: progress.publish,
    resultBytesMax,
    clock,
  });
  progress.end();
  return outcome;
}
