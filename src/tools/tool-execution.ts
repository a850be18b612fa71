/**
 * One call of one tool, from input to outcome, on the thread where its code is. Failure is data: nothing is thrown past
 * here (rule of the tool boundary).
 *
 * X1 one outcome a call, whatever the tool does: throw, return nonsense, never settle, settle twice.
 * X2 the signal is aborted at the timeout and on request, and after an outcome that the tool did not give.
 */
import { TOOL_RESULT_CROSSING_BYTES_MAX } from '../base/bounds.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { asError, TimeoutError } from '../base/errors.ts';
import { toPlainJson } from '../base/json.ts';
import { LazyAbort } from '../base/lazy-abort.ts';
import { cleanText, type ResultText, resultText, thrownText } from './result-text.ts';
import type { AnyTool, ToolContext, ToolOutcome } from './tool.ts';
import { validateInput } from './tool-input.ts';

/** What one call is given. */
export interface ToolExecution {
  readonly input: unknown;
  readonly context: Pick<ToolContext, 'session' | 'callId' | 'key'>;
  /** Milliseconds; `Infinity` where someone else keeps the time. */
  readonly timeoutMs: number;
  /** `probe`: ask the tool's `probe` first, and run only if it answers `undefined`. */
  readonly mode: 'run' | 'probe';
  /** Cancels the call; an `Error` as its reason is the outcome's text. */
  readonly signal?: AbortSignal;
  /** Cancels the call as `signal` does, without the cost of one. */
  readonly abort?: LazyAbort;
  /**
   * What an abort means. `answer` (default): the outcome comes at once, the tool is left behind. `wait`: the outcome comes when the
   * tool has settled, for a thread that is killed otherwise.
   */
  readonly onAbort?: 'answer' | 'wait';
  /** Takes progress as plain JSON; what is not plain is left out. Must not throw. */
  readonly progress?: (data: unknown) => void;
  /** UTF-8 bytes of the outcome's content; default `TOOL_RESULT_CROSSING_BYTES_MAX`. */
  readonly resultBytesMax?: number;
  readonly clock?: Clock;
}

/** The text of a call that ran out of time. */
export function timeoutText(toolName: string, timeoutMs: number): string {
  return `Tool ${JSON.stringify(toolName)} timed out after ${timeoutMs / 1_000} seconds`;
}

/** Runs a tool. Resolves with exactly one outcome and never rejects (X1). `input` is checked here, by the tool's schema. */
export async function executeTool(tool: AnyTool, execution: ToolExecution): Promise<ToolOutcome> {
  const clock = execution.clock ?? systemClock;
  const startedAt = clock.monotonic();
  const bytesMax = execution.resultBytesMax ?? TOOL_RESULT_CROSSING_BYTES_MAX;
  let open = true;
  const { content, success } = await raceAbort(tool.name, execution, clock, (abort) => {
    const context: ToolContext = {
      ...execution.context,
      ...(Number.isFinite(execution.timeoutMs) ? { timeoutMs: execution.timeoutMs } : {}),
      get signal() {
        return abort.signal;
      },
      progress: (data) => {
        if (open) tellProgress(data, execution.progress);
      },
    };
    return attempt(tool, execution, context, bytesMax, abort);
  });
  open = false;
  return { content, success, ms: Math.max(0, Math.round(clock.monotonic() - startedAt)) };
}

/** The attempt's result, or that of the timeout or the abort, whichever is first. */
function raceAbort(
  toolName: string,
  { abort: given, signal, timeoutMs, onAbort }: ToolExecution,
  clock: Clock,
  start: (abort: LazyAbort) => Promise<ResultText>,
): Promise<ResultText> {
  const abort = given ?? new LazyAbort();
  return new Promise((resolve) => {
    let isTimeout = false;
    const onSignal = (): void => abort.abort(asError(signal?.reason));
    const onTimeout = (): void => {
      isTimeout = true;
      abort.abort(new TimeoutError(timeoutText(toolName, timeoutMs)));
    };
    const timer = Number.isFinite(timeoutMs) ? clock.setTimer(onTimeout, timeoutMs) : undefined;
    const end = (result: ResultText): void => {
      if (timer !== undefined) clock.clearTimer(timer);
      signal?.removeEventListener('abort', onSignal);
      resolve(result);
    };
    abort.listen((reason) => {
      if (isTimeout || onAbort !== 'wait') end({ content: cleanText(asError(reason).message), success: false });
    });
    signal?.addEventListener('abort', onSignal, { once: true });
    if (signal?.aborted === true) onSignal();
    void start(abort).then(end);
  });
}

/** Checks the input, probes, runs. Never rejects. */
async function attempt(
  tool: AnyTool,
  execution: ToolExecution,
  context: ToolContext,
  bytesMax: number,
  abort: LazyAbort,
): Promise<ResultText> {
  try {
    const checked = await validateInput(tool, execution.input);
    if ('error' in checked) return { content: cleanText(checked.error), success: false };
    if (abort.isAborted) throw abort.reason;
    if (execution.mode === 'probe') {
      const probed = await probe(tool, context.key, checked.value);
      if (probed !== undefined) return resultText(probed, bytesMax);
    }
    return resultText(await tool.run(checked.value, context), bytesMax);
  } catch (error) {
    return thrownText(error, bytesMax);
  }
}

async function probe(tool: AnyTool, key: string, input: unknown): Promise<unknown> {
  if (typeof tool.probe !== 'function') {
    throw new Error(`the outcome of the call is unknown: tool ${JSON.stringify(tool.name)} has no probe`);
  }
  return await tool.probe({ key, input });
}

function tellProgress(data: unknown, progress: ((data: unknown) => void) | undefined): void {
  if (progress === undefined) return;
  try {
    progress(toPlainJson(data));
  } catch {
    // Progress is a courtesy: what cannot be told is not a reason for the tool to fail.
  }
}
