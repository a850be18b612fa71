/** Tool threads controlled by a test: a batch handed to a thread is held until the test decides its outcome. */
import { strict as assert } from 'node:assert';
import type { Clock } from '../../src/base/clock.ts';
import { TroupeError } from '../../src/base/errors.ts';
import type { LazyAbort } from '../../src/base/lazy-abort.ts';
import type { TaskPool, TaskPoolOptions, ThreadLine } from '../../src/threads/task-pool.ts';
import { BatchCursor } from '../../src/tools/batch-cursor.ts';
import type { ThreadBatchTask, ThreadFinished, ThreadNote, ThreadOrder } from '../../src/tools/threads/protocol.ts';

/** A batch handed to a thread. A batch that joins a thread at work belongs to the shift of the first batch there. */
export class HeldBatch {
  readonly ids: readonly number[];
  readonly task: ThreadBatchTask;
  readonly cursor: BatchCursor;
  /** The aborts that its thread received, on the first batch of the shift. */
  readonly aborts: { readonly id: number; readonly reason: string }[] = [];
  isKilled = false;
  readonly #thread: HeldThread;
  #ended = 0;

  constructor(task: ThreadBatchTask, thread: HeldThread) {
    this.task = task;
    this.#thread = thread;
    this.ids = task.calls.map(({ run }) => run.id);
    this.cursor = new BatchCursor(task.cursor);
  }

  post(note: ThreadNote): void {
    this.#thread.note(note, this);
  }

  /** Begins the next call, and marks it as a thread does. Returns its id. */
  begin(): number {
    const at = this.cursor.claim();
    const id = at === undefined ? undefined : this.ids[at];
    assert(id !== undefined && at !== undefined, 'the batch has another call');
    if (at === 0) this.post({ kind: 'opened', shift: this.task.shift });
    this.cursor.markRunning(at, this.#thread.clock.monotonic() - this.task.handedAt);
    return id;
  }

  /** Marks that a call loads its module, from now on. */
  load(id: number): void {
    this.cursor.markLoading(this.ids.indexOf(id), this.#thread.clock.monotonic() - this.task.handedAt);
  }

  /** Marks that the tool of a call runs, from now on. */
  run(id: number): void {
    this.cursor.markRunning(this.ids.indexOf(id), this.#thread.clock.monotonic() - this.task.handedAt);
  }

  /** Marks that a call holds the loop. */
  hold(id: number): void {
    this.cursor.hold(this.ids.indexOf(id));
  }

  /** Marks that the loop has noticed the abort of a call. */
  notice(id: number): void {
    this.cursor.markAborted(this.ids.indexOf(id));
  }

  /** Ends a begun call without a report. */
  end(id: number): ThreadFinished {
    this.#ended += 1;
    this.cursor.markEnded(this.ids.indexOf(id), this.#ended);
    return { kind: 'finished', id, outcome: { content: `result ${id}`, success: true, ms: 0 } };
  }

  /** Ends a begun call and reports its outcome. */
  finish(id: number): void {
    this.post(this.end(id));
  }

  /** Begins and ends the next call, and reports its outcome. The last one ends the shift. */
  finishNext(): void {
    const finished = this.end(this.begin());
    if (this.cursor.claimed < this.cursor.end) this.post(finished);
    else this.leave(finished);
  }

  finishAll(): void {
    while (this.cursor.claimed < this.cursor.end) this.finishNext();
  }

  /** Ends the shift. */
  leave(last?: ThreadFinished): void {
    this.#thread.resolve(last);
  }

  die(): void {
    this.fail(new TroupeError('internal', 'the thread died: exit code 3', { data: { threadDeath: 'exit code 3' } }));
  }

  kill(): void {
    this.isKilled = true;
    this.fail(new TroupeError('cancelled', 'the task was aborted'));
  }

  fail(error: Error): void {
    this.#thread.reject(error);
  }
}

interface HeldThread {
  readonly clock: Clock;
  readonly note: (note: ThreadNote, batch: HeldBatch) => void;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** See the head of the file. */
export class HeldTasks {
  readonly batches: HeldBatch[] = [];

  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  readonly make = ({ onNote }: TaskPoolOptions): TaskPool => ({
    run: (task: unknown, { abort }: { readonly abort?: LazyAbort } = {}) =>
      new Promise((resolve, reject) => {
        const line: ThreadLine = {
          post: (message) => {
            const order = message as ThreadOrder;
            if (order.kind === 'run') this.batches.push(new HeldBatch(order, thread));
            else first.aborts.push({ id: order.id, reason: order.reason });
          },
        };
        const thread = { clock: this.#clock, resolve, reject, note: (note: ThreadNote) => onNote?.(note, line) };
        const first = new HeldBatch(task as ThreadBatchTask, thread);
        abort?.listen(() => first.kill());
        this.batches.push(first);
      }),
    counts: () => ({ running: this.batches.length, waiting: 0, threads: this.batches.length }),
    close: () => Promise.resolve(),
  });

  /** The batches handed to threads since the last call of this method. */
  next(): readonly HeldBatch[] {
    return this.batches.splice(0);
  }
}
