/** The heap of the test's process after garbage collection. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Bytes in use after a full collection. Memory of buffers is not counted. */
export function heapBytes(): number {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect !== 'function') throw new Error('the heap cannot be collected on request');
  for (let round = 0; round < 3; round += 1) collect();
  return process.memoryUsage().heapUsed;
}
