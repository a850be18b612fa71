/** Where a shard runs: on a worker thread, or on the host thread. Both answer on an endpoint; both are started by `shard.start`. */
import { SESSION_THREAD_YOUNG_HEAP_MB } from '../../base/bounds.ts';
import { systemCodeOf } from '../../base/errors.ts';
import type { SessionKey } from '../../journal/position.ts';
import { createLocalEndpoints } from '../../threads/batched-endpoint.ts';
import { createBridgePorts, exposeObject } from '../../threads/comlink-bridge.ts';
import { EndGate } from '../../threads/end-gate.ts';
import { startThread, type Thread, type ThreadLimits } from '../../threads/thread.ts';
import { workerUrl } from '../../threads/worker-url.ts';
import type { ShardPorts } from '../door/build-shard.ts';
import { type ServiceSurroundings, serveShardThread } from '../door/shard-service.ts';
import type { ShardPlan } from '../protocol/protocol.ts';
import { SessionInHand } from '../shard/session-in-hand.ts';
import type { HostServer } from './host-services.ts';

/** A thread on which a shard answers `shard.start` and then all methods of the protocol. */
export interface ShardThread extends Pick<Thread, 'endpoint' | 'exit'> {
  /** Runs `listener` once when the thread has ended. */
  onExit(listener: (end: ShardThreadEnd) => void): void;
  /** Lets the shard reach its host, before `shard.start`; returns what ends that. */
  serve(services: Pick<HostServer, 'runner' | 'ask'>): () => void;
}

/** How a shard's thread ended. */
export interface ShardThreadEnd {
  /** It ran out of memory while it worked on this session; 0: on none. Missing: it ended otherwise. */
  readonly outOfMemory?: SessionKey;
}

/** Starts a shard on a worker thread. `limits`: of its memory. */
export function startWorker(plan: ShardPlan, limits: ThreadLimits = {}): ShardThread {
  const ports = createBridgePorts();
  const gate = new EndGate();
  const inHand = new SessionInHand();
  const { endpoint, onExit, exit } = startThread(workerUrl('../door/shard.worker', import.meta.url), {
    name: `troupe sessions ${plan.index}`,
    workerData: { plan, port: ports.wrapped, gate: gate.memory, inHand: inHand.memory },
    gate,
    transfer: [ports.wrapped],
    resourceLimits: { youngHeapMb: SESSION_THREAD_YOUNG_HEAP_MB, ...limits },
  });
  const onEnd = (listener: (end: ShardThreadEnd) => void): void =>
    onExit(({ error }) =>
      listener(systemCodeOf(error) === 'ERR_WORKER_OUT_OF_MEMORY' ? { outOfMemory: inHand.key } : {}),
    );
  return { endpoint, onExit: onEnd, exit, serve: ({ runner }) => exposeObject(runner, ports.exposed) };
}

/** What a shard on the host thread is started with. */
export interface InPlaceSurroundings extends Pick<ServiceSurroundings, 'clock' | 'random'> {
  readonly provider: NonNullable<ServiceSurroundings['inPlace']>['provider'];
  readonly ports: ShardPorts | undefined;
}

/** Starts a shard on the host thread. It ends with the process; `exit` ends its endpoint. */
export function startInPlace(plan: ShardPlan, surroundings: InPlaceSurroundings): ShardThread {
  const { clock, random, provider, ports } = surroundings;
  const [endpoint, far] = createLocalEndpoints(ports?.soon);
  return {
    endpoint,
    onExit: () => undefined,
    exit: async () => far.close(),
    serve({ runner, ask }) {
      const gate = new EndGate();
      serveShardThread(far, plan, {
        runner,
        inPlace: { provider, host: { ask } },
        clock,
        random,
        gate,
        ...(ports === undefined ? {} : { ports }),
      });
      return () => undefined;
    },
  };
}
