/** The cluster thread of a node: answers the requests of the host thread, with the node's stay (`stay.ts`). */
import type { Clock } from '../base/clock.ts';
import { errorShape } from '../base/errors.ts';
import type { Endpoint } from '../threads/endpoint.ts';
import { Lease } from './lease.ts';
import type { EnterRequest, GiveNote, LostNote, MapNote, ReleaseRequest } from './membership.ts';
import type { ClusterPlan, ShardDirectory } from './plan.ts';
import { type Entered, Stay } from './stay.ts';

/** The surroundings of a cluster thread. A simulator replaces them. */
interface ClusterSurroundings {
  readonly clock: Clock;
  readonly openDirectory: (plan: ClusterPlan) => Promise<ShardDirectory>;
}

/** Answers the requests of the host thread, which is at the other side of `endpoint`. */
export function serveCluster(
  endpoint: Pick<Endpoint, 'handle' | 'notify'>,
  { clock, openDirectory }: ClusterSurroundings,
): void {
  let directory: ShardDirectory | undefined;
  let stay: Stay | undefined;
  endpoint.handle('cluster.enter', async (request): Promise<Entered> => {
    const { plan, birth, wanted, memory, address } = request as EnterRequest;
    directory = await openDirectory(plan);
    stay = new Stay({
      directory,
      lease: new Lease(memory, clock),
      clock,
      node: plan.node,
      leaseMs: plan.leaseMs,
      address,
      seen: (map) => endpoint.notify('cluster.map', { map } satisfies MapNote),
      give: (shard) => endpoint.notify('cluster.give', { shard } satisfies GiveNote),
      lost: (owner) => endpoint.notify('cluster.lost', { owner } satisfies LostNote),
      failed: (message, error) => endpoint.notify('cluster.failed', { message, error: errorShape(error) }),
    });
    const { line, waitMs } = plan;
    return stay.enter(birth, wanted, line === undefined ? { as: 'standby', waitMs } : { as: 'member' });
  });
  endpoint.handle('cluster.release', (request) => stay?.release((request as ReleaseRequest).shard));
  endpoint.handle('cluster.look', () => stay?.look());
  endpoint.handle('cluster.retire', () => stay?.retire());
  endpoint.handle('cluster.leave', async (): Promise<void> => {
    try {
      await stay?.leave();
    } finally {
      await directory?.close();
    }
  });
}
