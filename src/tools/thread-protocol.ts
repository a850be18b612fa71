/** What a tool pool and its threads say to each other: plain data only. */
import type { ToolRun } from './pool.ts';

/** A task for a thread. */
export type ThreadTask =
  | {
      readonly kind: 'run';
      readonly run: Omit<ToolRun, 'place' | 'timeoutMs'>;
      readonly url: string;
      readonly exportName: string;
      readonly resultBytesMax: number;
    }
  | { readonly kind: 'describe'; readonly url: string };

/** What a thread tells beside its results. */
export type ThreadNote =
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
