/**
 * The thread of a shard: a worker thread, or the host thread (`shard-in-place.ts`). Both answer on an endpoint, and
 * `shard.start` gives both the plan of their shard.
 */
import { SESSION_THREAD_YOUNG_HEAP_MB } from '../../base/bounds.ts';
import { systemCodeOf } from '../../base/errors.ts';
import type { SessionKey } from '../../journal/position.ts';
import { createBridgePorts, exposeObject } from '../../threads/comlink-bridge.ts';
import { ExitLatch } from '../../threads/exit-latch.ts';
import { startThread, type Thread, type ThreadLimits } from '../../threads/thread.ts';
import { checkEntry, workerUrl } from '../../threads/worker-url.ts';
import { SessionAtWork } from '../shard/session-at-work.ts';
import type { HostServer } from './host-services.ts';

/** A thread on which a shard answers `shard.start` and then all methods of the protocol. */
export interface ShardThread extends Pick<Thread, 'endpoint' | 'exit'> {
  /** Runs `listener` once when the thread has ended. */
  onExit(listener: (end: ShardThreadEnd) => void): void;
  /** Connects the shard to its host, before `shard.start`; returns a function that ends the connection. */
  serve(services: Pick<HostServer, 'runner' | 'ask'>): () => void;
}

/** The end of a shard's thread. */
export interface ShardThreadEnd {
  /** The session on which the thread ran out of memory; 0: on no session. Missing: the thread ended otherwise. */
  readonly outOfMemory?: SessionKey;
}

/** The worker thread of a shard. */
export interface ShardWorker extends ShardThread, Pick<Thread, 'ref' | 'unref'> {}

/** The options of a shard's worker thread. */
export interface ShardWorkerOptions {
  /** The shard's index, for the name of the thread. */
  readonly index: number;
  /** True if the shard has a directory: the thread loads the database while it waits for its plan. */
  readonly usesStore: boolean;
  /** The memory limits of the thread. */
  readonly limits?: ThreadLimits;
}

/**
 * Starts the worker thread of a shard. The thread waits for `shard.start`. Throws `ConfigError` if its file is missing.
 */
export function startWorker({ index, usesStore, limits }: ShardWorkerOptions): ShardWorker {
  const entry = workerUrl('../door/shard.worker', import.meta.url);
  checkEntry(entry);
  const ports = createBridgePorts();
  const gate = new ExitLatch();
  const sessionAtWork = new SessionAtWork();
  const { endpoint, onExit, exit, ref, unref } = startThread(entry, {
    name: `troupe sessions ${index}`,
    workerData: { port: ports.wrapped, gate: gate.memory, sessionAtWork: sessionAtWork.memory, usesStore },
    gate,
    transfer: [ports.wrapped],
    resourceLimits: { youngHeapMb: SESSION_THREAD_YOUNG_HEAP_MB, ...limits },
  });
  const onEnd = (listener: (end: ShardThreadEnd) => void): void =>
    onExit(({ error }) =>
      listener(systemCodeOf(error) === 'ERR_WORKER_OUT_OF_MEMORY' ? { outOfMemory: sessionAtWork.key } : {}),
    );
  return { endpoint, onExit: onEnd, exit, ref, unref, serve: ({ runner }) => exposeObject(runner, ports.exposed) };
}
