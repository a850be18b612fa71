/**
 * Runs one call of one tool, from input to outcome, on the thread of the tool's code. A failure becomes an outcome too:
 * this file throws no error of a tool.
 *
 * X1 A call has one outcome, whatever the tool does: throw, return nonsense, never settle, settle twice.
 * X2 The signal is aborted at the timeout and on request.
 */
import { TOOL_RESULT_CROSSING_BYTES_MAX } from '../base/bounds.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import type { Deadline, DeadlineQueue } from '../base/deadline-queue.ts';
import { defined } from '../base/defined.ts';
import { asError, TimeoutError } from '../base/errors.ts';
import { toPlainJson } from '../base/json.ts';
import { LazyAbort, withSignal } from '../base/lazy-abort.ts';
import { withFileKey } from './file-key.ts';
import { cleanText, type ResultContent, resultContent, thrownStack, thrownText } from './result-text.ts';
import { mayRetryAfter } from './retry.ts';
import { isThenable } from './thenable.ts';
import type { AnyTool, ToolContext, ToolFailure, ToolOutcome } from './tool.ts';
import { type CheckedInput, validateInput } from './tool-input.ts';

/** The options of one call. */
export interface ToolExecution {
  readonly input: unknown;
  readonly context: Pick<ToolContext, 'session' | 'callId' | 'key' | 'attempt'> & { readonly fileKey?: string };
  /** Milliseconds; `Infinity` if the caller ends the call in time. */
  readonly timeoutMs: number;
  /** `probe`: call the tool's `probe` first, and run only if it answers `undefined`. */
  readonly mode: 'run' | 'probe';
  /** Cancels the call; if the signal's reason is an `Error`, its message becomes the text of the outcome. */
  readonly signal?: AbortSignal;
  /** Cancels the call as `signal` does, without the cost of an `AbortSignal`. */
  readonly abort?: LazyAbort;
  /**
   * The effect of an abort. `answer` (default): the outcome comes at once, and the tool is abandoned. `wait`: the
   * outcome comes when the tool has settled. A caller that uses `wait` must itself answer a call whose tool never
   * settles.
   */
  readonly onAbort?: 'answer' | 'wait';
  /** Takes progress as plain JSON; values that are not plain are left out. Must not throw. */
  readonly progress?: (data: unknown) => void;
  /** UTF-8 bytes of the outcome's content; default `TOOL_RESULT_CROSSING_BYTES_MAX`. */
  readonly resultBytesMax?: number;
  readonly clock?: Clock;
  /** The shared queue of many calls' timeouts, on the same clock; if missing, this call has its own timer. */
  readonly deadlines?: DeadlineQueue<Expiring>;
}

/** An object with a timeout. */
export interface Expiring {
  /** Called when the call's time is up. Never throws. */
  expire(): void;
}

/** Facts about a failure besides its text. */
interface FailureDetails {
  readonly failed: ToolFailure | undefined;
  readonly stack?: string | undefined;
}

/** The text of a call that ran out of time. */
export function timeoutText(toolName: string, timeoutMs: number): string {
  return `Tool ${JSON.stringify(toolName)} timed out after ${timeoutMs / 1_000} seconds`;
}

/**
 * Runs a tool. Calls `onOutcome` exactly once, possibly before this function returns (X1). `input` is checked here,
 * with the tool's schema. The tool is called before this function returns, unless its schema is asynchronous. A
 * synchronous result costs no promise.
 */
export function startTool(tool: AnyTool, execution: ToolExecution, onOutcome: (outcome: ToolOutcome) => void): void {
  new Execution(tool, execution, onOutcome).begin();
}

/** The state of one call until the call ends. This object is small, because every call has one. */
class Execution implements Expiring {
  readonly tool: AnyTool;
  readonly given: ToolExecution;
  readonly onOutcome: (outcome: ToolOutcome) => void;
  readonly clock: Clock;
  readonly startedAt: number;
  readonly bytesMax: number;
  readonly abort: LazyAbort;
  isOver = false;
  isTimeout = false;
  timer: unknown;
  deadline: Deadline<Expiring> | undefined;
  onSignal: (() => void) | undefined;

  constructor(tool: AnyTool, given: ToolExecution, onOutcome: (outcome: ToolOutcome) => void) {
    this.tool = tool;
    this.given = given;
    this.onOutcome = onOutcome;
    this.clock = given.clock ?? systemClock;
    this.startedAt = this.clock.monotonic();
    this.bytesMax = given.resultBytesMax ?? TOOL_RESULT_CROSSING_BYTES_MAX;
    this.abort = given.abort ?? new LazyAbort();
  }

  begin(): void {
    const { signal, input } = this.given;
    this.abort.listen((reason) => this.aborted(reason));
    if (signal !== undefined) this.listen(signal);
    const checked = validateInput(this.tool, input);
    if (checked instanceof Promise) {
      this.keepTime();
      void checked.then((settled) => this.run(settled));
    } else this.run(checked);
  }

  /**
   * Starts the timeout. The timeout works only for asynchronous work: a tool that occupies the thread until it returns
   * cannot be timed out.
   */
  keepTime(): void {
    const { timeoutMs, deadlines } = this.given;
    if (this.isOver || this.timer !== undefined || this.deadline !== undefined || !Number.isFinite(timeoutMs)) return;
    const now = this.clock.monotonic();
    const leftMs = Math.max(0, this.startedAt + timeoutMs - now);
    if (deadlines !== undefined) this.deadline = deadlines.add(this, now, leftMs);
    else this.timer = this.clock.setTimer(() => this.expire(), leftMs);
  }

  listen(signal: AbortSignal): void {
    this.onSignal = () => this.abort.abort(asError(signal.reason));
    signal.addEventListener('abort', this.onSignal, { once: true });
    if (signal.aborted) this.onSignal();
  }

  expire(): void {
    this.isTimeout = true;
    this.abort.abort(new TimeoutError(timeoutText(this.tool.name, this.given.timeoutMs)));
  }

  aborted(reason: unknown): void {
    if (!this.isTimeout && this.given.onAbort === 'wait') return;
    const failed = this.isTimeout ? 'timeout' : undefined;
    this.end({ content: cleanText(asError(reason).message), success: false }, { failed });
  }

  run(checked: CheckedInput): void {
    if ('error' in checked) {
      this.end({ content: cleanText(checked.error), success: false });
      return;
    }
    try {
      if (this.abort.isAborted) throw this.abort.reason;
      const context = this.context();
      const { value } = checked;
      const result = this.given.mode === 'probe' ? this.probeOrRun(value, context) : this.tool.run(value, context);
      if (isThenable(result)) {
        this.keepTime();
        Promise.resolve(result).then(
          (settled) => this.end(resultContent(settled, this.bytesMax)),
          (error: unknown) => this.threw(error),
        );
      } else this.end(resultContent(result, this.bytesMax));
    } catch (error) {
      this.threw(error);
    }
  }

  /** Calls the tool's probe. Runs the tool if the probe answers undefined. */
  async probeOrRun(input: unknown, context: ToolContext): Promise<unknown> {
    const { tool } = this;
    if (typeof tool.probe !== 'function') {
      throw new Error(`the outcome of the call is unknown: tool ${JSON.stringify(tool.name)} has no probe`);
    }
    const probed = await tool.probe({ key: context.key, input });
    return probed === undefined ? await tool.run(input, context) : probed;
  }

  context(): ToolContext {
    const { context, timeoutMs } = this.given;
    const { session, callId, key, attempt, fileKey } = context;
    const progress = (data: unknown): void => {
      if (!this.isOver) publishProgress(data, this.given.progress);
    };
    const plain = Number.isFinite(timeoutMs)
      ? { session, callId, key, attempt, progress, timeoutMs }
      : { session, callId, key, attempt, progress };
    return withSignal(withFileKey(plain, fileKey), this.abort);
  }

  threw(error: unknown): void {
    // If the call was aborted, the thrown error is not a fault of the tool.
    const isFault = !this.isOver && !this.abort.isAborted;
    const failed = isFault && mayRetryAfter(error) ? 'failure' : undefined;
    this.end(thrownText(error, this.bytesMax), { failed, stack: isFault ? thrownStack(error) : undefined });
  }

  /** Ends the call. Only the first end counts (X1). */
  end(result: ResultContent, details?: FailureDetails): void {
    if (this.isOver) return;
    this.isOver = true;
    if (this.deadline !== undefined) this.given.deadlines?.remove(this.deadline);
    if (this.timer !== undefined) this.clock.clearTimer(this.timer);
    if (this.onSignal !== undefined) this.given.signal?.removeEventListener('abort', this.onSignal);
    const ms = Math.max(0, Math.round(this.clock.monotonic() - this.startedAt));
    this.onOutcome(details === undefined ? { ...result, ms } : { ...result, ms, ...defined({ ...details }) });
  }
}

function publishProgress(data: unknown, progress: ((data: unknown) => void) | undefined): void {
  if (progress === undefined) return;
  try {
    progress(toPlainJson(data));
  } catch {
    // Progress is optional, so an update that cannot be reported does not fail the tool.
  }
}
