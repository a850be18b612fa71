/** The cluster thread of a node: the requests that its host sends, and the stay that answers them. */
import type { Clock } from '../base/clock.ts';
import { errorShape } from '../base/errors.ts';
import type { Endpoint } from '../threads/endpoint.ts';
import { Lease } from './lease.ts';
import type { EnterRequest, LostNote } from './membership.ts';
import type { ClusterPlan, ShardDirectory } from './plan.ts';
import { type Entered, Stay } from './stay.ts';

/** The surroundings of a cluster thread. A simulator replaces them. */
interface ClusterSurroundings {
  readonly clock: Clock;
  readonly openDirectory: (plan: ClusterPlan) => Promise<ShardDirectory>;
}

/** Answers the requests of the host, which is at the other side of `endpoint`. */
export function serveCluster(
  endpoint: Pick<Endpoint, 'handle' | 'notify'>,
  { clock, openDirectory }: ClusterSurroundings,
): void {
  let directory: ShardDirectory | undefined;
  let stay: Stay | undefined;
  endpoint.handle('cluster.enter', async (request): Promise<Entered> => {
    const { plan, birth, wanted, memory } = request as EnterRequest;
    directory = await openDirectory(plan);
    stay = new Stay({
      directory,
      lease: new Lease(memory, clock),
      clock,
      node: plan.node,
      leaseMs: plan.leaseMs,
      lost: (owner) => endpoint.notify('cluster.lost', { owner } satisfies LostNote),
      failed: (message, error) => endpoint.notify('cluster.failed', { message, error: errorShape(error) }),
    });
    return stay.enter(birth, wanted, plan.waitMs);
  });
  endpoint.handle('cluster.leave', async (): Promise<void> => {
    try {
      await stay?.leave();
    } finally {
      await directory?.close();
    }
  });
}
