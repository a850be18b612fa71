/** Calls handed to one thread in one message, as the pool sees them. */
import type { Deadline } from '../../base/deadline-queue.ts';
import { LazyAbort } from '../../base/lazy-abort.ts';
import type { ThreadLine } from '../../threads/task-pool.ts';
import { BatchCursor } from '../batch-cursor.ts';
import type { OpenRun } from '../open-run.ts';
import type { ThreadBatchTask, ThreadCall } from './protocol.ts';

/** What may be due: to look after the run a thread is on, or to share what was handed over. */
export type Due = ThreadBatch | 'share';

/** See the head of the file. */
export class ThreadBatch {
  readonly runs: readonly OpenRun[];
  readonly cursor: BatchCursor;
  /** Monotonic ms. */
  readonly handedAt: number;
  /** Ends the thread. */
  readonly kill: LazyAbort = new LazyAbort();
  /** The run the thread is on, as far as it has told: all before it are over. */
  head = 0;
  /** Runs that were not taken back. */
  end: number;
  /** The run that the thread has left without a word: the word was waited for once (R5 of `threads/runs.ts`). */
  awaited: OpenRun | undefined;
  /** The thread is done with it; words about its runs may still be on the way. */
  isLeft = false;
  /** When the run it is on must be looked after. */
  deadline: Deadline<Due> | undefined;
  /** The line to its thread, once that has spoken. */
  line: ThreadLine | undefined;

  constructor(runs: readonly OpenRun[], handedAt: number) {
    this.runs = runs;
    this.cursor = BatchCursor.before(runs.length);
    this.handedAt = handedAt;
    this.end = runs.length;
  }

  /** The run the thread is on. */
  get current(): OpenRun | undefined {
    return this.head < this.end ? this.runs[this.head] : undefined;
  }

  /** Runs that the thread has not begun. */
  get waiting(): number {
    return this.end - Math.max(this.head + 1, this.cursor.claimed);
  }

  /** Takes back what the thread has not begun, from an index on. Returns it, in order. */
  takeBack(from: number): readonly OpenRun[] {
    const first = this.cursor.takeBack(from);
    const taken = this.runs.slice(first, this.end);
    this.end = first;
    return taken;
  }

  /** What the thread is sent. */
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
