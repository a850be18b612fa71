/**
 * Serves calls, cancels and forgets on a model thread, and passes them to the in-place pool. Owns no policy:
 * `threaded-pool.ts` decides which sessions use this thread, and handles the end of the thread.
 */
import type { Endpoint } from '../../threads/endpoint.ts';
import type { ModelCall, ModelCompletion, ModelPool, ModelPoolListener } from '../pool.ts';
import { deltaNotes } from './delta-notes.ts';

/** A provider with the pool over it. */
export interface ServedModels {
  readonly name: string;
  readonly pool: ModelPool;
}

/**
 * Answers the requests to a model thread on `endpoint`. `make` builds provider and pool. Every message waits until both
 * are built, so that calls, cancels and forgets keep their order. If `make` fails, each request rejects with the error
 * of `make`. Runs on the model thread.
 */
export function serveModelCalls(
  endpoint: Endpoint,
  make: (listener: ModelPoolListener) => Promise<ServedModels>,
): void {
  /** The functions that answer the request for each call with its completion, by the id of the call. */
  const waiting = new Map<number, (completion: ModelCompletion) => void>();
  const made = make({
    completed(completions) {
      for (const completion of completions) {
        waiting.get(completion.id)?.(completion);
        waiting.delete(completion.id);
      }
    },
    delta: deltaNotes(endpoint),
  });
  let ready: ModelPool | undefined;
  // This handler is attached before any message waits, so that messages keep their order. The empty rejection handler
  // keeps a rejection before the first request from ending the thread.
  made.then(
    ({ pool }) => {
      ready = pool;
    },
    () => undefined,
  );
  const withPool = (use: (pool: ModelPool) => void, failed?: (error: unknown) => void): void => {
    if (ready !== undefined) use(ready);
    else made.then(({ pool }) => use(pool), failed ?? (() => undefined));
  };
  endpoint.handle('ready', async () => (await made).name);
  endpoint.handle('call', (payload) => {
    const call = payload as ModelCall;
    return new Promise((resolve, reject) => {
      waiting.set(call.id, resolve);
      withPool(
        (pool) => pool.call(call),
        (error) => {
          waiting.delete(call.id);
          reject(error);
        },
      );
    });
  });
  endpoint.handle('wantsDeltas', (payload) => {
    const { id, isWanted, fromStart } = payload as {
      readonly id: number;
      readonly isWanted: boolean;
      readonly fromStart: boolean;
    };
    withPool((pool) => pool.wantsDeltas(id, isWanted, fromStart));
  });
  endpoint.handle('cancel', (id) => withPool((pool) => pool.cancel(id as number)));
  endpoint.handle('forget', (session) => withPool((pool) => pool.forget(session as string)));
}
