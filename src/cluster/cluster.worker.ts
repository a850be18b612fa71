/**
 * Entry of the cluster thread: the stay of this node in its cluster. The stay has a separate thread, because the host's
 * loop belongs to the embedder and may stand still for longer than a lease.
 */
import { systemClock } from '../base/clock.ts';
import { errorShape } from '../base/errors.ts';
import { serveThread } from '../threads/thread.ts';
import { Lease } from './lease.ts';
import type { EnterRequest, LostNote } from './membership.ts';
import { loadCluster, type ShardDirectory } from './plan.ts';
import { type Entered, Stay } from './stay.ts';

let directory: ShardDirectory | undefined;
let stay: Stay | undefined;

const { endpoint } = serveThread({
  'cluster.enter': async (request): Promise<Entered> => {
    const { plan, birth, wanted, memory } = request as EnterRequest;
    const { openDirectory } = await loadCluster(plan);
    directory = openDirectory(plan.data);
    stay = new Stay({
      directory,
      lease: new Lease(memory),
      clock: systemClock,
      node: plan.node,
      leaseMs: plan.leaseMs,
      lost: (owner) => endpoint.notify('cluster.lost', { owner } satisfies LostNote),
      failed: (message, error) => endpoint.notify('cluster.failed', { message, error: errorShape(error) }),
    });
    return stay.enter(birth, wanted, plan.waitMs);
  },
  'cluster.leave': async (): Promise<void> => {
    try {
      await stay?.leave();
    } finally {
      await directory?.close();
    }
  },
});
