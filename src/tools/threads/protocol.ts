/** The messages between a tool pool and its threads: plain data only. */
import type { ToolRun } from '../pool.ts';
import type { ToolFailure, ToolOutcome } from '../tool.ts';

/** One call, as it is sent to a thread. */
export interface ThreadCall {
  readonly run: Omit<ToolRun, 'place' | 'timeoutMs' | 'concurrency' | 'effect'>;
  readonly url: string;
  readonly exportName: string;
  readonly options?: string;
}

/**
 * A batch: calls for one thread, which begins them in order. The first batch of a shift is the thread's task; later
 * batches are sent over the thread's line.
 */
export interface ThreadBatchTask {
  readonly kind: 'run';
  /** The number of the shift. */
  readonly shift: number;
  readonly calls: readonly ThreadCall[];
  /** True if a call of the batch begins only when the one before it has ended. */
  readonly isSequential: boolean;
  /** Monotonic ms from which the marks of the cursor count. */
  readonly handedAt: number;
  /** The memory of the calls' `BatchCursor`. */
  readonly cursor: SharedArrayBuffer;
  readonly resultBytesMax: number;
}

/**
 * A task for a thread. A batch begins a shift, which lasts until every call of the shift has ended. The answer of a
 * shift is its last outcome, unless that outcome was already sent as a note.
 */
export type ThreadTask = ThreadBatchTask | { readonly kind: 'describe'; readonly url: string };

/** The outcome of one call. */
export interface ThreadFinished {
  readonly kind: 'finished';
  readonly id: number;
  readonly outcome: ToolOutcome;
}

/** The messages of a thread besides its answers. */
export type ThreadNote =
  /** The thread begins a shift. The note carries the thread's line. */
  | { readonly kind: 'opened'; readonly shift: number }
  /** Every call of a batch has begun, and the pool wished to know that (C3 of `batch-cursor.ts`). */
  | { readonly kind: 'ready'; readonly shift: number }
  /** A call has ended. The note is sent before the next call begins, because that call may never yield the thread. */
  | ThreadFinished
  | { readonly kind: 'progress'; readonly id: number; readonly data: unknown }
  /** A running call threw an uncaught error. This note becomes the call's outcome, even if the call continues. */
  | {
      readonly kind: 'fault';
      readonly id: number;
      readonly content: string;
      readonly failed?: ToolFailure;
      readonly stack: string;
    }
  /** An error of a call that has ended, or an error that belongs to no call. */
  | { readonly kind: 'noise'; readonly toolName: string; readonly message: string };

/** The pool's messages to a thread: further calls for its shift, or the abort of a call's signal. */
export type ThreadOrder = ThreadBatchTask | ThreadAbort;

/** See `ThreadOrder`. */
export interface ThreadAbort {
  readonly kind: 'abort';
  readonly id: number;
  readonly reason: string;
}
