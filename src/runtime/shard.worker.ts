/** Entry of a session thread: one shard behind an endpoint. */
import { randomNumber, systemClock } from '../base/clock.ts';
import { errorShape } from '../base/errors.ts';
import type { ModelDelta } from '../models/provider.ts';
import { type BridgePort, wrapObject } from '../threads/comlink-bridge.ts';
import { serveThread } from '../threads/thread.ts';
import { buildShard } from './build-shard.ts';
import type { HostServices, RemoteServices, ShardPlan } from './protocol.ts';
import { serveShard } from './shard-requests.ts';

const { endpoint, data } = serveThread({});
const { plan, port } = data as { readonly plan: ShardPlan; readonly port: BridgePort };

endpoint.handle('shard.start', async () => {
  const services = wrapObject<HostServices>(port).remote as unknown as RemoteServices;
  const built = await buildShard(plan, {
    services,
    clock: systemClock,
    random: randomNumber,
    host: {
      events: (events) => endpoint.notify('events', events),
      degraded: (error) => endpoint.notify('degraded', error === undefined ? {} : { error: errorShape(error) }),
      log: (line) => endpoint.notify('log', line),
    },
  });
  endpoint.handle('tool.progress', (note) => {
    const { id, data: progress } = note as { readonly id: number; readonly data: unknown };
    built.toolProgress(id, progress);
  });
  endpoint.handle('model.delta', (note) => {
    const { id, delta } = note as { readonly id: number; readonly delta: ModelDelta };
    built.modelDelta(id, delta);
  });
  serveShard(built.shard, endpoint);
  built.shard.resumeInterrupted();
});
