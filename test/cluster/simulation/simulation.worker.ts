/** Entry of a thread that simulates one cluster after the other. */
import { serveThread } from '../../../src/threads/thread.ts';
import { simulateCluster } from './cluster-simulation.ts';

serveThread({
  simulate: (seed) => simulateCluster({ seed: seed as number }),
});
