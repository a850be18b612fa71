/**
 * Entry of the cluster thread: the stay of this node in its cluster. The stay has a separate thread, because the host's
 * loop belongs to the embedder and may stand still for longer than a lease.
 */
import { systemClock } from '../base/clock.ts';
import { serveThread } from '../threads/thread.ts';
import { serveCluster } from './cluster-service.ts';
import { loadCluster } from './plan.ts';

serveCluster(serveThread({}).endpoint, {
  clock: systemClock,
  openDirectory: async (plan) => (await loadCluster(plan)).openDirectory(plan.data),
});
