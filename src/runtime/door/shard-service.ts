/**
 * A shard's side of the connection to its host. `shard.start` starts the shard. Then the shard answers the whole
 * protocol.
 */
import { errorShape } from '../../base/errors.ts';
import { valueProvider } from '../../models/own-provider.ts';
import type { ModelProvider } from '../../models/provider.ts';
import type { Endpoint } from '../../threads/endpoint.ts';
import type { HostCaller } from '../protocol/host-methods.ts';
import type { ShardPlan, ShardStart } from '../protocol/protocol.ts';
import { publishInPlace, publishPacked } from '../shard/event-notes.ts';
import { buildShard, type ShardSurroundings } from './build-shard.ts';
import { hostCalls, hostOver, hostProviders } from './host-calls.ts';
import { serveShard } from './shard-requests.ts';

/** The surroundings of a shard that answers on an endpoint. */
export interface ServiceSurroundings extends Omit<ShardSurroundings, 'host' | 'hostProvider' | 'isolated' | 'learned'> {
  /** Present if the shard runs on the host thread. */
  readonly inPlace?: {
    /** The embedder's provider values by key, called directly. */
    readonly providers: ReadonlyMap<string, ModelProvider>;
    /**
     * The host's functions, called directly: over a local endpoint a turn with two guardrails and a system function
     * takes a quarter more time.
     */
    readonly host: HostCaller;
  };
}

/**
 * Answers `shard.start` on `endpoint`: builds the shard of the request's plan, and resumes the interrupted sessions.
 * `surroundingsOf` is called with this plan. Runs on the shard's thread, which may be the host thread.
 */
export function serveShardThread(endpoint: Endpoint, surroundingsOf: (plan: ShardPlan) => ServiceSurroundings): void {
  const overEndpoint = hostProviders(endpoint);
  endpoint.handle('shard.start', async (start) => {
    const { plan, gated, isolated, learned } = start as ShardStart;
    const surroundings = surroundingsOf(plan);
    const { inPlace } = surroundings;
    const built = await buildShard(plan, {
      ...surroundings,
      isolated,
      learned,
      hostProvider: (key, name) => {
        const value = inPlace?.providers.get(key);
        return value === undefined ? overEndpoint(key, name) : valueProvider(value);
      },
      host: {
        ...(inPlace === undefined ? publishPacked(endpoint) : publishInPlace(endpoint)),
        ...hostCalls(inPlace?.host ?? hostOver(endpoint)),
        settled: (follow, state) => endpoint.notify('receipt.settled', { follow, state }),
        said: (note) => endpoint.notify('history.said', note),
        noticed: (note) => endpoint.notify('noticed', note),
        degraded: (error) => endpoint.notify('degraded', error === undefined ? {} : { error: errorShape(error) }),
        log: (line) => endpoint.notify('log', line),
      },
    });
    endpoint.handle('tool.progress', (note) => {
      const { id, data } = note as { readonly id: number; readonly data: unknown };
      built.toolProgress(id, data);
    });
    serveShard(built.shard, endpoint, inPlace !== undefined);
    // Gates are set before any session continues. Otherwise a held message could pass listeners that exist on the host.
    for (const session of gated) built.shard.subscribers.gate(session, true);
    built.shard.life.resumeInterrupted();
  });
}
