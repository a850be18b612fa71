/**
 * A pool thread's own side: its handler, and the line to the pool. Loaded by worker entries and, for the words of the
 * protocol, by the pool.
 */
import { MessageChannel, parentPort } from 'node:worker_threads';
import { TroupeError } from '../base/errors.ts';
import { type EncodedError, encodeError } from './error-codec.ts';

/** The key of a thread's first message, which carries the pool's end of the line. */
export const LINE_KEY = 'troupe:line';

/** What crosses back: never a throw, as Piscina's errors lose class and code. */
export type TaskReply = { readonly value: unknown } | { readonly error: EncodedError };

/** The thread's side of the line to its pool. */
export interface TaskLine {
  /** Leaves the thread at once, also when the code after it spins. Throws for what cannot be cloned. */
  post(note: unknown): void;
  onMessage(listener: (message: unknown) => void): void;
}

/**
 * The default export of a pool's worker entry. `makeHandler` runs once a thread and is given the line; its handler takes a
 * task and returns what can be cloned. What it throws comes out of `TaskPool.run`.
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
