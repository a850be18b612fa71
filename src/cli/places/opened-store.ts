/**
 * Opens a data directory to change the logs of its sessions without running them. The only agent of the runtime belongs
 * to no session of the store. So no turn starts, no interrupted work continues and no model is called.
 */
import { STOP_DEADLINE_MS } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { agent, type ModelProvider, open, type Runtime } from '../../index.ts';
import { commandLogger } from '../command-logger.ts';
import type { Surroundings } from '../surroundings.ts';
import type { Place } from './place.ts';

/** One tool thread and no other thread, because there is little work. */
const THREADS = { sessions: 0, models: 0, tools: 1 } as const;
const AGENT = 'command';

/** No session calls this provider. If a session called it, closing the store would end the call without a result. */
export const NO_MODEL: ModelProvider = {
  name: 'none',
  generate: (_request, { signal }) =>
    new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    }),
};

/**
 * Changes sessions in a directory, which is closed when `change` settles. `agents`: the names of the agents of the
 * store's sessions. Rejects as `open` does.
 */
export async function changeStore<T>(
  { directory, keys }: Extract<Place, { readonly kind: 'directory' }>,
  agents: ReadonlySet<string>,
  surroundings: Surroundings,
  change: (runtime: Runtime) => Promise<T>,
): Promise<T> {
  let name = AGENT;
  while (agents.has(name)) name += '-';
  const runtime = await open(directory, {
    agents: [agent({ name })],
    provider: NO_MODEL,
    threads: THREADS,
    ...defined({ encryption: keys }),
    logger: commandLogger(surroundings),
  });
  try {
    return await change(runtime);
  } finally {
    await runtime.close({ deadlineMs: STOP_DEADLINE_MS });
  }
}
