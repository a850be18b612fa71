/** Entry of a model thread: builds the provider and the pool that calls it in place. */
import { systemClock } from '../../base/clock.ts';
import { serveThread } from '../../threads/thread.ts';
import type { ProviderData } from '../provider.ts';
import { resolveProvider } from '../resolve.ts';
import { createInPlacePool } from './in-place-pool.ts';
import { serveModelCalls } from './model-service.ts';

const { endpoint, data } = serveThread({});
serveModelCalls(endpoint, async (listener) => {
  const provider = await resolveProvider(data as ProviderData);
  return { name: provider.name, pool: createInPlacePool(provider, listener, systemClock) };
});
