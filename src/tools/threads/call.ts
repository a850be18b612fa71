/**
 * Runs the calls of one shift (see `batch.ts`) on a tool thread, from the first call to the last outcome. Real and
 * simulated threads share this code. There are no deadlines here: the pool aborts late calls, and ends a thread whose
 * event loop does not answer.
 *
 * Owns: the calls that have begun and not ended, and the marks of all calls in the memory that the pool reads
 * (`batch-cursor.ts`). Does not own: the modules, the thread.
 *
 * B1 A call that ends at once reports its outcome before the next call begins, because the next call may hold the loop.
 * B2 A call that the pool has taken back is not begun.
 * B3 A call of a sequential batch begins when the call before it has ended. Other calls run side by side.
 * B4 While a call occupies the loop to begin its tool, the cursor of its batch has the index of the call.
 */
import { strict as assert } from 'node:assert';
import type { Clock, Soon } from '../../base/clock.ts';
import { CancelledError } from '../../base/errors.ts';
import { LazyAbort } from '../../base/lazy-abort.ts';
import { BatchCursor } from '../batch-cursor.ts';
import { coalesceProgress, type ProgressPublisher } from '../progress.ts';
import { nameAndMessage } from '../result-text.ts';
import type { AnyTool, ToolOutcome } from '../tool.ts';
import { startTool } from '../tool-execution.ts';
import type { ThreadBatchTask, ThreadCall, ThreadFinished, ThreadNote } from './protocol.ts';

/**
 * The thread begins calls for this many milliseconds, and then yields for one tick. So aborts and the timers of tools
 * are not delayed for long.
 */
const TURN_MS = 2;

/** A batch on its thread. */
interface BatchInThread {
  readonly task: ThreadBatchTask;
  readonly cursor: BatchCursor;
  /** The number of calls of the batch that have ended. */
  ended: number;
}

/** A call on its thread. Code that the call started may outlive the call and still refer to this object. */
export interface CallInThread {
  readonly call: ThreadCall;
  /** Asks the tool to stop. */
  readonly abort: LazyAbort;
  /** The cursor of the call's batch, and the call's index in that batch. */
  readonly cursor: BatchCursor;
  readonly at: number;
  /** False once the call has its outcome; later errors are ignored. */
  running: boolean;
}

interface CallAtWork extends CallInThread {
  readonly batch: BatchInThread;
  progress: ProgressPublisher | undefined;
  /** Called at the end of the call, if its batch is sequential and waits for the end. */
  onEnd: (() => void) | undefined;
}

/** The environment of a shift. */
export interface ShiftSurroundings {
  /** The tool of a call. `undefined`: no tool has this name. A promise: the tool's module must be loaded first. */
  readonly find: (call: ThreadCall) => AnyTool | undefined | Promise<AnyTool | undefined>;
  /**
   * Runs `begin`, which begins a call, in the call's async context. So an error that the call causes later can be
   * attributed to the call.
   */
  readonly within: (call: CallInThread, begin: () => Promise<void> | undefined) => Promise<void> | undefined;
  readonly clock: Clock;
  readonly soon: Soon;
  /** Makes the cursor of a batch, for a process that must send the cursor's marks to its pool. */
  readonly cursorOf?: (memory: SharedArrayBuffer) => BatchCursor;
  /** Sends a note to the pool. */
  readonly post: (note: ThreadNote) => void;
}

/** See the head of the file. */
export class ShiftInThread {
  readonly #around: ShiftSurroundings;
  readonly #open = new Map<number, CallAtWork>();
  /** Batches whose calls have not all begun. */
  readonly #beginning = new Set<BatchInThread>();
  #resolve: (last: ThreadFinished | undefined) => void = () => undefined;
  #reject: (error: unknown) => void = () => undefined;
  /** The cursor of the first batch. */
  #cursor: BatchCursor | undefined;
  #isOver = false;

  constructor(around: ShiftSurroundings) {
    this.#around = around;
  }

  /** The call that runs, if there is only one: an error outside every call's context most likely comes from it. */
  get only(): CallInThread | undefined {
    if (this.#open.size !== 1) return undefined;
    const [call] = this.#open.values();
    return call;
  }

  /**
   * Runs the calls of the first batch and of batches that join, except calls that are taken back. Resolves when all
   * these calls have ended: with the last outcome, or with `undefined` if that outcome was already reported. Rejects
   * only for an error of this code.
   */
  run(task: ThreadBatchTask): Promise<ThreadFinished | undefined> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      this.#around.post({ kind: 'opened', shift: task.shift });
      this.join(task);
    });
  }

  /** Adds a batch. A batch that arrives after the end is not begun: the pool takes its calls back. */
  join(task: ThreadBatchTask): void {
    if (this.#isOver) return;
    const cursor = this.#around.cursorOf?.(task.cursor) ?? new BatchCursor(task.cursor);
    this.#cursor ??= cursor;
    this.#begin({ task, cursor, ended: 0 }).catch((error: unknown) => this.#reject(error));
  }

  /** Aborts a call's signal. Unknown ids are ignored. */
  abort(id: number, reason: string): void {
    const call = this.#open.get(id);
    if (call === undefined) return;
    call.cursor.markAborted(call.at);
    call.abort.abort(new CancelledError(reason));
  }

  /** Begins the calls of a batch, in order. */
  async #begin(batch: BatchInThread): Promise<void> {
    const { task, cursor } = batch;
    const { clock, soon, within, post } = this.#around;
    this.#beginning.add(batch);
    let now = clock.monotonic();
    let turnedAt = now;
    for (let at = cursor.claim(); at !== undefined; at = cursor.claim()) {
      const call = task.calls[at];
      assert(call !== undefined, 'a claimed call is one of the batch');
      const working: CallAtWork = {
        call,
        abort: new LazyAbort(),
        cursor,
        at,
        running: true,
        batch,
        progress: undefined,
        onEnd: undefined,
      };
      this.#open.set(call.run.id, working);
      const begun = within(working, () => this.#find(working, now - task.handedAt));
      if (begun !== undefined) await begun;
      if (working.running && task.isSequential) await endOf(working);
      // Waits one microtask, in which a promise that is already settled reports its outcome (B1).
      else if (working.running) await undefined;
      now = clock.monotonic();
      if (now - turnedAt < TURN_MS) continue;
      await new Promise<void>((resolve) => soon(resolve));
      now = clock.monotonic();
      turnedAt = now;
    }
    this.#beginning.delete(batch);
    if (this.#isOver) return;
    if (this.#hasEnded()) this.#finish(undefined);
    else if (cursor.takeWish()) post({ kind: 'ready', shift: task.shift });
  }

  /** Finds the tool and starts it. Returns a promise if the tool's module must be loaded first. */
  #find(working: CallAtWork, ms: number): Promise<void> | undefined {
    const { cursor, at, call, batch } = working;
    const { find, clock } = this.#around;
    const tool = find(call);
    if (!(tool instanceof Promise)) {
      this.#start(working, tool, ms);
      return undefined;
    }
    cursor.markLoading(at, ms);
    return tool.then(
      (loaded) => this.#start(working, loaded, clock.monotonic() - batch.task.handedAt),
      (error: unknown) => {
        const tookMs = Math.round(clock.monotonic() - batch.task.handedAt - ms);
        this.#end(working, { content: nameAndMessage(error), success: false, ms: tookMs });
      },
    );
  }

  #start(working: CallAtWork, tool: AnyTool | undefined, ms: number): void {
    const { call, abort, cursor, at, batch } = working;
    const { run } = call;
    cursor.markRunning(at, ms);
    if (tool === undefined) {
      this.#end(working, { content: `Unknown tool: ${run.toolName}`, success: false, ms: 0 });
      return;
    }
    const execution = {
      input: run.input,
      context: run,
      timeoutMs: Number.POSITIVE_INFINITY,
      mode: run.mode,
      abort,
      onAbort: 'wait',
      progress: (data: unknown) => this.#publishProgress(working, data),
      resultBytesMax: batch.task.resultBytesMax,
      clock: this.#around.clock,
    } as const;
    cursor.hold(at);
    startTool(tool, execution, (outcome) => this.#end(working, outcome));
    cursor.letGo();
  }

  #publishProgress(working: CallAtWork, data: unknown): void {
    const { clock, post } = this.#around;
    const { id } = working.call.run;
    working.progress ??= coalesceProgress((newest) => post({ kind: 'progress', id, data: newest }), clock);
    working.progress.publish(data);
  }

  #end(working: CallAtWork, outcome: ToolOutcome): void {
    const { batch, call, cursor, at } = working;
    const { id } = call.run;
    working.running = false;
    working.progress?.end();
    this.#open.delete(id);
    batch.ended += 1;
    cursor.markEnded(at, batch.ended);
    const finished: ThreadFinished = { kind: 'finished', id, outcome };
    if (this.#hasEnded()) this.#finish(finished);
    else this.#around.post(finished);
    working.onEnd?.();
  }

  /** True if every call has ended, and no call is left to begin. */
  #hasEnded(): boolean {
    if (this.#open.size > 0) return false;
    for (const { cursor } of this.#beginning) if (cursor.claimed < cursor.end) return false;
    return true;
  }

  #finish(last: ThreadFinished | undefined): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#cursor?.markOver();
    this.#resolve(last);
  }
}

function endOf(working: CallAtWork): Promise<void> {
  return new Promise((resolve) => {
    working.onEnd = resolve;
  });
}
