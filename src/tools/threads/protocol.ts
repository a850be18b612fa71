/** The messages between a tool pool and its threads: plain data only. */
import type { ToolRun } from '../pool.ts';
import type { ToolFailure, ToolOutcome } from '../tool.ts';

/** One call, as it crosses. */
export interface ThreadCall {
  readonly run: Omit<ToolRun, 'place' | 'timeoutMs' | 'concurrency' | 'effect'>;
  readonly url: string;
  readonly exportName: string;
  readonly options?: string;
}

/** Calls for one thread, which begins them in order. The first batch of a shift is its task, others come by its line. */
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
 * A task for a thread. A batch begins a shift, which lasts until every call of it has ended. The answer of a shift is
 * its last outcome, unless that outcome has left as a note.
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
  /** The thread takes up its first batch of a shift. The note carries the thread's line. */
  | { readonly kind: 'opened'; readonly shift: number }
  /** Everything that was handed over has begun, and the pool wished to know (C3). */
  | { readonly kind: 'ready'; readonly shift: number }
  /** A call has ended. The note is sent before the next call begins, since that call may never yield the thread. */
  | ThreadFinished
  | { readonly kind: 'progress'; readonly id: number; readonly data: unknown }
  /** A running call threw an uncaught error: this note is the call's outcome, even if the call continues. */
  | {
      readonly kind: 'fault';
      readonly id: number;
      readonly content: string;
      readonly failed?: ToolFailure;
      readonly stack: string;
    }
  /** An error of a call that has ended, or of no call. */
  | { readonly kind: 'noise'; readonly toolName: string; readonly message: string };

/** The pool's messages to a thread: further calls for its shift, or the abort of a call's signal. */
export type ThreadOrder = ThreadBatchTask | ThreadAbort;

/** See `ThreadOrder`. */
export interface ThreadAbort {
  readonly kind: 'abort';
  readonly id: number;
  readonly reason: string;
}
