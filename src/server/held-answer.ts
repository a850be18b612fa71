/**
 * The body of a large answer. The body counts in the budget of all readers (`reader-budget.ts`) until its client has
 * read it. If the budget runs out, the connection is closed and the body is dropped. The client can then send its
 * request again.
 */
import { LimitError } from '../base/errors.ts';
import { type BudgetedReader, READERS, type ReaderBudget } from '../events/reading/reader-budget.ts';

/** A body of at least this many bytes is counted. A smaller body fits into a socket's own buffer. */
export const HELD_ANSWER_BYTES_MIN: number = 64 * 1024;

/**
 * A stream of these bytes. The budget releases the bytes when the next read shows that they were sent, or on cancel.
 */
export function heldAnswer(bytes: Uint8Array, budget: ReaderBudget = READERS): ReadableStream<Uint8Array> {
  let left: Uint8Array | undefined = bytes;
  let controllerOf: ReadableStreamDefaultController<Uint8Array> | undefined;
  let isHanded = false;
  const release = (): void => {
    if (left === undefined) return;
    const { byteLength } = left;
    left = undefined;
    budget.changed(body, byteLength, 0);
  };
  const body: BudgetedReader = {
    get held() {
      return left?.byteLength ?? 0;
    },
    giveUp() {
      controllerOf?.error(new LimitError('the client did not read its answer', { data: { limit: 'readersBytes' } }));
      release();
    },
  };
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        controllerOf = controller;
        budget.changed(body, 0, bytes.byteLength);
      },
      pull(controller) {
        if (!isHanded && left !== undefined) {
          isHanded = true;
          controller.enqueue(left);
          return;
        }
        controller.close();
        release();
      },
      cancel: release,
    },
    { highWaterMark: 0 },
  );
}
