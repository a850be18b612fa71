/**
 * The messages between a tool pool and its threads: plain data only. `batch.ts` explains the words batch, shift and
 * line.
 */
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
 * A batch: calls for one thread, which begins them in order. The first batch of a shift is sent as the thread's task.
 * Later batches are sent as messages while the shift runs.
 */
export interface ThreadBatchTask {
  readonly kind: 'run';
  /** The number of the shift. */
  readonly shift: number;
  readonly calls: readonly ThreadCall[];
  /** True if a call of the batch begins only when the one before it has ended. */
  readonly isSequential: boolean;
  /** Monotonic ms at which the batch was handed over. The times in `cursor` are milliseconds since this moment. */
  readonly handedAt: number;
  /** The memory of a `BatchCursor`, in which the thread marks the state of each call of the batch. */
  readonly cursor: SharedArrayBuffer;
  readonly resultBytesMax: number;
}

/**
 * A task for a thread: the first batch of a shift, or a module whose tools are described. The thread answers a first
 * batch when every call of the shift has ended. The answer is the outcome of the last call, or `undefined` if the
 * thread has already sent that outcome as a note.
 */
export type ThreadTask = ThreadBatchTask | { readonly kind: 'describe'; readonly url: string };

/** The outcome of one call. */
export interface ThreadFinished {
  readonly kind: 'finished';
  readonly id: number;
  readonly outcome: ToolOutcome;
}

/** The messages of a thread to the pool, besides the answers to its tasks. */
export type ThreadNote =
  /** The thread begins a shift. From now on the pool can send messages to the thread. */
  | { readonly kind: 'opened'; readonly shift: number }
  /** Every call of a batch has begun, and the pool asked for this note (C3 of `batch-cursor.ts`). */
  | { readonly kind: 'ready'; readonly shift: number }
  /**
   * A call has ended. If a call ends at once, the note is sent before the next call begins, because the next call may
   * hold the thread's event loop.
   */
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
