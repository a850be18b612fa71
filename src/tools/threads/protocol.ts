/** What a tool pool and its threads say to each other: plain data only. */
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
  /** The memory of their `BatchCursor`. */
  readonly cursor: SharedArrayBuffer;
  readonly resultBytesMax: number;
}

/** A task for a thread. A batch is answered with its last outcome, unless the call after it was taken back meanwhile. */
export type ThreadTask = ThreadBatchTask | { readonly kind: 'describe'; readonly url: string };

/** The outcome of one call. */
export interface ThreadFinished {
  readonly kind: 'finished';
  readonly id: number;
  readonly outcome: ToolOutcome;
}

/**
 * What a thread tells beside its answers. Where a call's beginning is not told, it is the end of the one before: a thread tells
 * it of the first of a batch, and of those whose module is not loaded yet.
 */
export type ThreadNote =
  /** Told before the next call begins: that one may never give the thread back. */
  | ThreadFinished
  /** The call that is next must wait for its module. */
  | { readonly kind: 'loading'; readonly id: number }
  /** The module is loaded and the tool begins: its time counts from here. */
  | { readonly kind: 'started'; readonly id: number }
  | { readonly kind: 'progress'; readonly id: number; readonly data: unknown }
  /** The running call threw where nobody caught it: this is its outcome, whatever it still does. */
  | { readonly kind: 'fault'; readonly id: number; readonly content: string }
  /** An error of a call that is over, or of no call. */
  | { readonly kind: 'noise'; readonly toolName: string; readonly message: string };

/** What the pool tells a thread: abort the running call's signal. */
export interface ThreadAbort {
  readonly id: number;
  readonly reason: string;
}
