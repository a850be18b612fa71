/** Requests of a shard to its host. Runs on the shard's thread. */
import { defined } from '../../base/defined.ts';
import type { Usage } from '../../base/messages.ts';
import { checkResponse } from '../../models/anthropic/response-check.ts';
import type { GenerateContext, ModelDelta, ModelProvider, ModelResponse } from '../../models/provider.ts';
import type { Endpoint } from '../../threads/endpoint.ts';
import type { HostCaller } from '../protocol/host-methods.ts';
import type { ShardHost } from '../shard/shard-parts.ts';

/** Sends requests to the host over the endpoint that serves the shard. */
export function hostOver(endpoint: Endpoint): HostCaller {
  return { ask: (method, request) => endpoint.call(method, request) as Promise<never> };
}

/** The embedder's functions and the services of the host, as the shard calls them. */
export function hostCalls({
  ask,
}: HostCaller): Pick<
  ShardHost,
  'evaluateSystem' | 'consult' | 'upgrade' | 'lookUp' | 'eraseIndex' | 'beginCompaction' | 'endCompaction'
> {
  return {
    evaluateSystem: (agent, session) => ask('host.evaluateSystem', { agent, session }),
    consult: (question) => ask('host.consult', question),
    upgrade: (question) => ask('host.upgrade', question),
    lookUp: (question) => ask('host.lookUp', question),
    eraseIndex: async (sessions) => {
      await ask('host.eraseIndex', { sessions });
    },
    beginCompaction: async () => {
      await ask('host.beginCompaction', null);
    },
    endCompaction: async () => {
      await ask('host.endCompaction', null);
    },
  };
}

/**
 * Providers that are values on the host thread, by key and name, called as if they were local. The endpoint delivers
 * all deltas before the answer (T2 of `batched-endpoint.ts`).
 */
export function hostProviders(endpoint: Endpoint): (key: string, name: string) => ModelProvider {
  const { ask } = hostOver(endpoint);
  const calls = new Map<number, Pick<GenerateContext, 'onDelta' | 'onUsage'>>();
  let lastId = 0;
  endpoint.handle('model.delta', (note) => {
    const { id, delta } = note as { readonly id: number; readonly delta: ModelDelta };
    calls.get(id)?.onDelta(delta);
  });
  endpoint.handle('model.usage', (note) => {
    const { id, usage } = note as { readonly id: number; readonly usage: Usage };
    calls.get(id)?.onUsage?.(usage);
  });
  return (key, name) => ({
    name,
    async generate(request, { session, signal, onDelta, onUsage }): Promise<ModelResponse> {
      lastId += 1;
      const id = lastId;
      const onAbort = (): void => endpoint.notify('host.abortModel', { id });
      calls.set(id, { onDelta, ...defined({ onUsage }) });
      signal.addEventListener('abort', onAbort, { once: true });
      try {
        return checkResponse(await ask('host.generate', { id, provider: key, session, request }));
      } finally {
        calls.delete(id);
        signal.removeEventListener('abort', onAbort);
      }
    },
  });
}
