/** A shard's own side of the line to its host: started by `shard.start`, then answering the whole protocol. */
import { errorShape } from '../../base/errors.ts';
import type { ModelDelta } from '../../models/provider.ts';
import type { Endpoint } from '../../threads/endpoint.ts';
import type { ShardPlan, ShardStart } from '../protocol/protocol.ts';
import { tellPacked } from '../shard/event-gathering.ts';
import { buildShard, type ShardSurroundings } from './build-shard.ts';
import { serveShard } from './shard-requests.ts';

/**
 * Answers `shard.start` on `endpoint` by building the shard of `plan`, which then goes on with what was interrupted. Runs on
 * the shard's thread.
 */
export function serveShardThread(
  endpoint: Endpoint,
  plan: ShardPlan,
  surroundings: Omit<ShardSurroundings, 'host' | 'provider' | 'isolated'>,
): void {
  endpoint.handle('shard.start', async (start) => {
    const { gated, isolated } = start as ShardStart;
    const built = await buildShard(plan, {
      ...surroundings,
      isolated,
      host: {
        ...tellPacked(endpoint),
        settled: (follow, state) => endpoint.notify('receipt.settled', { follow, state }),
        said: (note) => endpoint.notify('history.said', note),
        degraded: (error) => endpoint.notify('degraded', error === undefined ? {} : { error: errorShape(error) }),
        log: (line) => endpoint.notify('log', line),
      },
    });
    endpoint.handle('tool.progress', (note) => {
      const { id, data } = note as { readonly id: number; readonly data: unknown };
      built.toolProgress(id, data);
    });
    endpoint.handle('model.delta', (note) => {
      const { id, delta } = note as { readonly id: number; readonly delta: ModelDelta };
      built.modelDelta(id, delta);
    });
    serveShard(built.shard, endpoint);
    // Before anything goes on: what is held must not pass listeners that are still there.
    for (const session of gated) built.shard.audience.gate(session, true);
    built.shard.life.resumeInterrupted();
  });
}
