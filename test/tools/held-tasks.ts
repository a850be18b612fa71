/** Tool threads controlled by a test: a batch handed to a thread is held until the test decides its outcome. */
import { strict as assert } from 'node:assert';
import { TroupeError } from '../../src/base/errors.ts';
import type { LazyAbort } from '../../src/base/lazy-abort.ts';
import type { TaskPool, TaskPoolOptions } from '../../src/threads/task-pool.ts';
import { BatchCursor } from '../../src/tools/batch-cursor.ts';
import type { ThreadAbort, ThreadBatchTask, ThreadFinished, ThreadNote } from '../../src/tools/threads/protocol.ts';

/** A batch handed to a thread. */
export class HeldBatch {
  readonly ids: readonly number[];
  readonly cursor: BatchCursor;
  readonly aborts: ThreadAbort[] = [];
  isKilled = false;
  readonly #note: (note: ThreadNote, batch: HeldBatch) => void;
  readonly #resolve: (value: unknown) => void;
  readonly #reject: (error: Error) => void;

  constructor(
    task: ThreadBatchTask,
    note: (note: ThreadNote, batch: HeldBatch) => void,
    [resolve, reject]: readonly [(value: unknown) => void, (error: Error) => void],
  ) {
    this.ids = task.calls.map(({ run }) => run.id);
    this.cursor = new BatchCursor(task.cursor);
    this.#note = note;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  post(note: ThreadNote): void {
    this.#note(note, this);
  }

  /** Begins the next call, and reports the first one as a thread does. Returns its id. */
  begin(): number {
    const at = this.cursor.claim();
    const id = at === undefined ? undefined : this.ids[at];
    assert(id !== undefined, 'the batch has another call');
    if (at === 0) this.post({ kind: 'started', id });
    return id;
  }

  /** Begins and ends the next call, and reports its outcome. The last one ends the batch. */
  finishNext(): void {
    const id = this.begin();
    const finished: ThreadFinished = {
      kind: 'finished',
      id,
      outcome: { content: `result ${id}`, success: true, ms: 0 },
    };
    if (this.cursor.claimed < this.cursor.end) this.post(finished);
    else this.#resolve(finished);
  }

  finishAll(): void {
    while (this.cursor.claimed < this.cursor.end) this.finishNext();
  }

  die(): void {
    this.fail(new TroupeError('internal', 'the thread died: exit code 3', { data: { threadDeath: 'exit code 3' } }));
  }

  kill(): void {
    this.isKilled = true;
    this.fail(new TroupeError('cancelled', 'the task was aborted'));
  }

  fail(error: Error): void {
    this.#reject(error);
  }
}

/** See the head of the file. */
export class HeldTasks {
  readonly batches: HeldBatch[] = [];

  readonly make = ({ onNote }: TaskPoolOptions): TaskPool => ({
    run: (task: unknown, { abort }: { readonly abort?: LazyAbort } = {}) =>
      new Promise((resolve, reject) => {
        const note = (told: ThreadNote, { aborts }: HeldBatch): void =>
          onNote?.(told, { post: (message) => aborts.push(message as ThreadAbort) });
        const batch = new HeldBatch(task as ThreadBatchTask, note, [resolve, reject]);
        abort?.listen(() => batch.kill());
        this.batches.push(batch);
      }),
    counts: () => ({ running: this.batches.length, waiting: 0, threads: this.batches.length }),
    close: () => Promise.resolve(),
  });

  /** The batches handed to threads since the last call of this method. */
  next(): readonly HeldBatch[] {
    return this.batches.splice(0);
  }
}
