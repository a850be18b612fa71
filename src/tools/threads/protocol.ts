/** The messages between a tool pool and its threads: plain data only. */
import type { ToolRun } from '../pool.ts';
import type { ToolOutcome } from '../tool.ts';

/** One call, as it crosses. */
export interface ThreadCall {
  readonly run: Omit<ToolRun, 'place' | 'timeoutMs' | 'concurrency'>;
  readonly url: string;
  readonly exportName: string;
}

/** Calls for one thread, which runs them in order, one at a time. */
export interface ThreadBatchTask {
  readonly kind: 'run';
  readonly calls: readonly ThreadCall[];
  /** The memory of the calls' `BatchCursor`. */
  readonly cursor: SharedArrayBuffer;
  readonly resultBytesMax: number;
}

/**
 * A task for a thread. A batch is answered with its last outcome, unless the call after it was taken back meanwhile.
 */
export type ThreadTask = ThreadBatchTask | { readonly kind: 'describe'; readonly url: string };

/** The outcome of one call. */
export interface ThreadFinished {
  readonly kind: 'finished';
  readonly id: number;
  readonly outcome: ToolOutcome;
}

/**
 * The messages of a thread besides its answers. A thread reports the beginning of the first call of a batch, and of
 * calls whose module is not loaded yet. Any other call begins when the call before it ends.
 */
export type ThreadNote =
  /** A call has ended. The note is sent before the next call begins, since that call may never yield the thread. */
  | ThreadFinished
  /** The thread loads the module that the next call needs. */
  | { readonly kind: 'loading'; readonly id: number }
  /** The module is loaded and the tool begins: the call's time counts from here. */
  | { readonly kind: 'started'; readonly id: number }
  | { readonly kind: 'progress'; readonly id: number; readonly data: unknown }
  /** The running call threw an uncaught error: this note is the call's outcome, even if the call continues. */
  | { readonly kind: 'fault'; readonly id: number; readonly content: string; readonly stack: string }
  /** An error of a call that has ended, or of no call. */
  | { readonly kind: 'noise'; readonly toolName: string; readonly message: string };

/** The pool's message to a thread: abort the running call's signal. */
export interface ThreadAbort {
  readonly id: number;
  readonly reason: string;
}
