/**
 * A model thread: the provider, and the pool that calls it in place. Owns no policy: which sessions come here, what becomes
 * of the thread, is the business of `threaded-pool.ts`.
 */
import { systemClock } from '../base/clock.ts';
import { serveThread } from '../threads/thread.ts';
import { createInPlacePool } from './in-place-pool.ts';
import type { ModelCall, ModelCompletion, ModelPool } from './pool.ts';
import type { ProviderData } from './provider.ts';
import { resolveProvider } from './resolve.ts';

/** Who waits for which call's completion. */
const waiting = new Map<number, (completion: ModelCompletion) => void>();

const { endpoint, data } = serveThread({
  ready: async () => (await made).name,
  call: (payload) => {
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
  },
  wantsDeltas: (payload) => {
    const { id, isWanted } = payload as { readonly id: number; readonly isWanted: boolean };
    withPool((pool) => pool.wantsDeltas(id, isWanted));
  },
  cancel: (id) => withPool((pool) => pool.cancel(id as number)),
  forget: (session) => withPool((pool) => pool.forget(session as string)),
});

const made: Promise<{ readonly name: string; readonly pool: ModelPool }> = resolveProvider(data as ProviderData).then(
  (provider) => ({ name: provider.name, pool: createInPlacePool(provider, { completed, delta }, systemClock) }),
);
// Whoever asks is told; nobody having asked yet must not end the thread.
made.catch(() => undefined);

/** Every word waits for the provider alike, so that calls, cancels and forgets keep their order. */
function withPool(use: (pool: ModelPool) => void, failed?: (error: unknown) => void): void {
  made.then(({ pool }) => use(pool), failed ?? (() => undefined));
}

function completed(completions: readonly ModelCompletion[]): void {
  for (const completion of completions) {
    waiting.get(completion.id)?.(completion);
    waiting.delete(completion.id);
  }
}

function delta(id: number, session: string, piece: unknown): void {
  endpoint.notify('delta', { id, session, delta: piece });
}
