/**
 * The part of a task pool that runs on its threads: it calls the handler and holds the line to the pool
 * (`task-pool.ts`). Worker entries import this file. The pool imports it for the names of the protocol.
 */
import { MessageChannel, parentPort } from 'node:worker_threads';
import { TroupeError } from '../base/errors.ts';
import { type EncodedError, encodeError } from './error-codec.ts';

/** The key of a thread's first message, which carries the pool's side of the line. */
export const LINE_KEY = 'troupe:line';

/**
 * The reply to the pool. A task's error is returned as data: thrown through Piscina, it would lose its class and code.
 */
export type TaskReply = { readonly value: unknown } | { readonly error: EncodedError };

/** The thread's side of the line to its pool. */
export interface TaskLine {
  /**
   * Posts a note. The note leaves the thread at once, even if the code after this call never yields. Throws for a value
   * that cannot be cloned.
   */
  post(note: unknown): void;
  onMessage(listener: (message: unknown) => void): void;
}

/**
 * Makes the default export of a pool's worker entry. `makeHandler` runs once for each thread and receives the line. The
 * handler that it returns takes a task and returns a value that can be cloned. If the handler throws, `TaskPool.run`
 * rejects with that error.
 */
export function serveTasks(
  makeHandler: (line: TaskLine) => (task: unknown) => unknown,
): (task: unknown) => Promise<TaskReply> {
  if (parentPort === null) throw new TroupeError('internal', 'a task entry was loaded outside a worker thread');
  const { port1, port2 } = new MessageChannel();
  parentPort.postMessage({ [LINE_KEY]: port2 }, [port2]);
  const handler = makeHandler({
    post: (note) => port1.postMessage(note),
    onMessage: (listener) => {
      port1.on('message', listener);
    },
  });
  return async (task) => {
    try {
      return { value: await handler(task) };
    } catch (error) {
      return { error: encodeError(error) };
    }
  };
}
