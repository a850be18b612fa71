/**
 * A shard on the host thread. Such a shard needs all modules of a session thread. A runtime with session threads does
 * not need these modules on its host thread, so this file is imported only on use.
 */
import { soon } from '../../base/clock.ts';
import { defined } from '../../base/defined.ts';
import { createLocalEndpoints } from '../../threads/batched-endpoint.ts';
import { ExitLatch } from '../../threads/exit-latch.ts';
import type { ShardPorts } from '../door/build-shard.ts';
import { type ServiceSurroundings, serveShardThread } from '../door/shard-service.ts';
import type { ShardThread } from './shard-threads.ts';

/** The surroundings of a shard on the host thread. */
export interface InPlaceSurroundings extends Pick<ServiceSurroundings, 'clock' | 'random' | 'redact'> {
  readonly providers: NonNullable<ServiceSurroundings['inPlace']>['providers'];
  readonly ports: ShardPorts | undefined;
}

/**
 * Makes a shard on the host thread. The shard waits for `shard.start`. It has no thread that could end, so `exit` only
 * closes its endpoint.
 */
export function startInPlace(surroundings: InPlaceSurroundings): ShardThread {
  const { clock, random, providers, redact, ports } = surroundings;
  const [endpoint, far] = createLocalEndpoints({ soon: ports?.soon ?? soon, clock });
  return {
    endpoint,
    onExit: () => undefined,
    exit: async () => far.close(),
    serve({ runner, ask }) {
      const gate = new ExitLatch();
      serveShardThread(far, () => ({
        runner,
        inPlace: { providers, host: { ask } },
        clock,
        random,
        gate,
        ...defined({ redact, ports }),
      }));
      return () => undefined;
    },
  };
}
