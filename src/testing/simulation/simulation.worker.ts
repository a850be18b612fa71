/** Entry of a thread that simulates one seed after the other. */
import { serveThread } from '../../threads/thread.ts';
import { simulate } from './simulate.ts';

serveThread({
  simulate: (seed) => simulate({ seed: seed as number }),
});
