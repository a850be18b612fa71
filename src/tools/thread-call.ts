/** One call on a tool thread, from its start to its outcome: what a real thread and a simulated one do alike. */
import type { Clock } from '../base/clock.ts';
import { coalesceProgress } from './progress.ts';
import type { ThreadNote, ThreadTask } from './thread-protocol.ts';
import type { AnyTool, ToolOutcome } from './tool.ts';
import { executeTool } from './tool-execution.ts';

/** What a call has around it. */
export interface ThreadCallSurroundings {
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** Tells the pool. */
  readonly post: (note: ThreadNote) => void;
}

/**
 * Runs a task's tool; `undefined` is answered as unknown. Tells the pool when it begins and how far it is. No time runs here:
 * the pool aborts, and kills the thread that does not obey. Never rejects.
 */
export async function runThreadCall(
  tool: AnyTool | undefined,
  task: Extract<ThreadTask, { kind: 'run' }>,
  { signal, clock, post }: ThreadCallSurroundings,
): Promise<ToolOutcome> {
  const { run, resultBytesMax } = task;
  // Posted before the tool has the thread: it may never give it back.
  post({ kind: 'started', id: run.id });
  if (tool === undefined) return { content: `Unknown tool: ${run.toolName}`, success: false, ms: 0 };
  const progress = coalesceProgress((data) => post({ kind: 'progress', id: run.id, data }), clock);
  const outcome = await executeTool(tool, {
    input: run.input,
    context: { session: run.session, callId: run.callId, key: run.key },
    timeoutMs: Number.POSITIVE_INFINITY,
    mode: run.mode,
    signal,
    onAbort: 'wait',
    progress: progress.tell,
    resultBytesMax,
    clock,
  });
  progress.end();
  return outcome;
}
