/**
 * Profiles of all JavaScript threads of this process, taken together.
 *
 * Owns: the session with the inspector, and through it one with each thread. Does not own: what profiles mean (`attribution.ts`).
 * Threads that start after `attachProfiler` are not profiled: attach when the system is warm.
 */
import { Session } from 'node:inspector/promises';
import { z } from 'zod';
import type { AllocationNode, CpuProfile } from './attribution.ts';

/** Of the sampling: one a tenth of a millisecond, one a so many bytes. */
const CPU_INTERVAL_US = 100;
const ALLOCATION_INTERVAL_BYTES = 8_192;

/** What a thread is for. */
export type ThreadRole = 'host' | 'session' | 'model' | 'tool' | 'other';

/** One thread's profile. */
export interface OfThread<T> {
  readonly role: ThreadRole;
  readonly profile: T;
}

/** Profiles while it is attached. */
export interface ThreadsProfiler {
  startCpu(): Promise<void>;
  stopCpu(): Promise<readonly OfThread<CpuProfile>[]>;
  startAllocations(): Promise<void>;
  stopAllocations(): Promise<readonly OfThread<AllocationNode>[]>;
  /** Ends it; threads go on as they were. */
  detach(): void;
}

type Post = (method: string, parameters?: Readonly<Record<string, unknown>>) => Promise<unknown>;

interface InspectedThread {
  readonly role: ThreadRole;
  readonly post: Post;
}

const ENTRIES: readonly (readonly [RegExp, ThreadRole])[] = [
  [/\/shard\.worker\./, 'session'],
  [/\/model\.worker\./, 'model'],
  [/\/tool-threads\.worker\.|\/task-/, 'tool'],
];

const frameSchema = z.object({ functionName: z.string(), url: z.string() });
const cpuSchema: z.ZodType<{ profile: CpuProfile }> = z.object({
  profile: z.object({
    nodes: z.array(
      z.object({ id: z.number(), callFrame: frameSchema, children: z.array(z.number()).optional() }),
    ),
    startTime: z.number(),
    samples: z.array(z.number()),
    timeDeltas: z.array(z.number()),
  }),
});
const allocationSchema: z.ZodType<AllocationNode> = z.lazy(() =>
  z.object({ callFrame: frameSchema, selfSize: z.number(), children: z.array(allocationSchema) }),
);
const allocationsSchema: z.ZodType<{ profile: { head: AllocationNode } }> = z.object({
  profile: z.object({ head: allocationSchema }),
});
const replySchema = z.object({
  id: z.number().optional(),
  result: z.unknown(),
  error: z.object({ message: z.string() }).optional(),
});

/** Attaches to this thread, which must be the main one, and to all workers that run. */
export async function attachProfiler(): Promise<ThreadsProfiler> {
  const session = new Session();
  session.connect();
  const post = session.post.bind(session) as Post;
  const threads: readonly InspectedThread[] = [{ role: 'host', post }, ...(await attachWorkers(session, post))];
  const all = <T>(use: (thread: InspectedThread) => Promise<T>): Promise<readonly T[]> => Promise.all(threads.map(use));
  await all(async (thread) => {
    await thread.post('Profiler.enable');
    await thread.post('Profiler.setSamplingInterval', { interval: CPU_INTERVAL_US });
    await thread.post('HeapProfiler.enable');
  });
  return {
    startCpu: async () => void (await all((thread) => thread.post('Profiler.start'))),
    stopCpu: () =>
      all(async ({ role, post: ask }) => ({ role, profile: cpuSchema.parse(await ask('Profiler.stop')).profile })),
    startAllocations: async () =>
      void (await all((thread) =>
        thread.post('HeapProfiler.startSampling', {
          samplingInterval: ALLOCATION_INTERVAL_BYTES,
          includeObjectsCollectedByMajorGC: true,
          includeObjectsCollectedByMinorGC: true,
        }),
      )),
    stopAllocations: () =>
      all(async ({ role, post: ask }) => ({
        role,
        profile: allocationsSchema.parse(await ask('HeapProfiler.stopSampling')).profile.head,
      })),
    detach: () => session.disconnect(),
  };
}

async function attachWorkers(session: Session, post: Post): Promise<readonly InspectedThread[]> {
  const threads: InspectedThread[] = [];
  const settle = new Map<string, (reply: z.infer<typeof replySchema>) => void>();
  let lastId = 0;
  session.on('NodeWorker.attachedToWorker', ({ params: { sessionId, workerInfo } }) => {
    threads.push({
      role: ENTRIES.find(([entry]) => entry.test(workerInfo.url))?.[1] ?? 'other',
      post: (method, parameters = {}) => {
        lastId += 1;
        const id = lastId;
        const message = JSON.stringify({ id, method, params: parameters });
        return new Promise((resolve, reject) => {
          settle.set(`${sessionId} ${id}`, ({ result, error }) => {
            if (error === undefined) resolve(result);
            else reject(new Error(`${method}: ${error.message}`));
          });
          post('NodeWorker.sendMessageToWorker', { sessionId, message }).catch(reject);
        });
      },
    });
  });
  session.on('NodeWorker.receivedMessageFromWorker', ({ params: { sessionId, message } }) => {
    const reply = replySchema.parse(JSON.parse(message));
    const key = `${sessionId} ${reply.id}`;
    settle.get(key)?.(reply);
    settle.delete(key);
  });
  // Tells of those that run before it resolves.
  await post('NodeWorker.enable', { waitForDebuggerOnStart: false });
  return threads;
}
