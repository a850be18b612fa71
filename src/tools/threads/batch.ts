/** The pool's view of calls handed to one thread in one message. */
import type { Deadline } from '../../base/deadline-queue.ts';
import { LazyAbort } from '../../base/lazy-abort.ts';
import type { ThreadLine } from '../../threads/task-pool.ts';
import { BatchCursor } from '../batch-cursor.ts';
import type { OpenRun } from '../open-run.ts';
import type { ThreadBatchTask, ThreadCall } from './protocol.ts';

/** The work that is due at a deadline: checking the run of a thread, or sharing the calls that were handed over. */
export type Due = ThreadBatch | 'share';

/** See the head of the file. */
export class ThreadBatch {
  readonly runs: readonly OpenRun[];
  readonly cursor: BatchCursor;
  /** Monotonic ms at which the batch was handed over. */
  readonly handedAt: number;
  /** Aborted to end the thread. */
  readonly kill: LazyAbort = new LazyAbort();
  /** The index of the thread's current run, as far as the thread has reported; all earlier runs have ended. */
  head = 0;
  /** The number of runs that were not taken back. */
  end: number;
  /**
   * The run that the thread has left without a report, after the report was awaited once more (R5 of
   * `threads/runs.ts`).
   */
  awaited: OpenRun | undefined;
  /** True if the thread has finished the batch. Reports of its runs may still be in flight. */
  isLeft = false;
  /** The time of the next check of the current run. */
  deadline: Deadline<Due> | undefined;
  /** The line to its thread, once the thread has sent a message. */
  line: ThreadLine | undefined;

  constructor(runs: readonly OpenRun[], handedAt: number) {
    this.runs = runs;
    this.cursor = BatchCursor.before(runs.length);
    this.handedAt = handedAt;
    this.end = runs.length;
  }

  /** The thread's current run. */
  get current(): OpenRun | undefined {
    return this.head < this.end ? this.runs[this.head] : undefined;
  }

  /** The number of runs that the thread has not begun. */
  get waiting(): number {
    return this.end - Math.max(this.head + 1, this.cursor.claimed);
  }

  /** Takes back the runs from an index on that the thread has not begun. Returns them, in order. */
  takeBack(from: number): readonly OpenRun[] {
    const first = this.cursor.takeBack(from);
    const taken = this.runs.slice(first, this.end);
    this.end = first;
    return taken;
  }

  /** The message to the thread. */
  task(resultBytesMax: number): ThreadBatchTask {
    const calls: ThreadCall[] = [];
    for (const { run } of this.runs) {
      const { id, session, callId, key, toolName, place, input, mode } = run;
      if (place.kind !== 'thread') continue;
      const { url, exportName } = place;
      calls.push({ run: { id, session, callId, key, toolName, input, mode }, url, exportName });
    }
    return { kind: 'run', calls, cursor: this.cursor.memory, resultBytesMax };
  }
}
