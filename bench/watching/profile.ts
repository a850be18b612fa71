/**
 * Profiles of all JavaScript threads of this process, taken together.
 *
 * Owns: the session with the inspector, and through it one with each thread. Does not own: what profiles mean (`attribution.ts`).
 * Threads that start after `attachProfiler` are not profiled: attach when the system is warm.
 */
import { readFileSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { z } from 'zod';
import type { AllocationNode, CpuProfile } from './attribution.ts';

/** Of the sampling: one a tenth of a millisecond, one a so many bytes. */
const CPU_INTERVAL_US = 100;
const ALLOCATION_INTERVAL_BYTES = 8_192;

/** What a thread is for. */
export type ThreadRole = 'host' | 'session' | 'model' | 'tool' | 'other';

/** Profiles while it is attached. Every answer has one element a thread, in the order of `roles`. */
export interface ThreadsProfiler {
  readonly roles: readonly ThreadRole[];
  startCpu(): Promise<void>;
  stopCpu(): Promise<readonly CpuProfile[]>;
  startAllocations(): Promise<void>;
  /** The root of each thread's allocations. */
  stopAllocations(): Promise<readonly AllocationNode[]>;
  /** How long each thread was on a core since it started, in nanoseconds, as the kernel says; zeros of a kernel that does not say. */
  ranNs(): readonly number[];
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
  [/\/tool-threads\.worker\.|\/piscina\//, 'tool'],
];

const frameSchema = z.object({ functionName: z.string(), url: z.string() });
const cpuSchema: z.ZodType<{ profile: CpuProfile }> = z.object({
  profile: z.object({
    nodes: z.array(z.object({ id: z.number(), callFrame: frameSchema, children: z.array(z.number()).optional() })),
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
const evaluatedSchema = z.object({ result: z.object({ value: z.string() }) });
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
  const tasks = await all(taskOf);
  return {
    roles: threads.map(({ role }) => role),
    startCpu: async () => void (await all((thread) => thread.post('Profiler.start'))),
    stopCpu: () => all(async (thread) => cpuSchema.parse(await thread.post('Profiler.stop')).profile),
    startAllocations: async () => {
      const parameters = {
        samplingInterval: ALLOCATION_INTERVAL_BYTES,
        includeObjectsCollectedByMajorGC: true,
        includeObjectsCollectedByMinorGC: true,
      };
      await all((thread) => thread.post('HeapProfiler.startSampling', parameters));
    },
    stopAllocations: () =>
      all(async (thread) => allocationsSchema.parse(await thread.post('HeapProfiler.stopSampling')).profile.head),
    ranNs: () => tasks.map(ranNsOf),
    detach: () => session.disconnect(),
  };
}

/** The thread as the kernel names it, `1234/task/1240`: asked on the thread itself, as nobody else can tell. */
async function taskOf({ post }: InspectedThread): Promise<string | undefined> {
  const expression = `process.getBuiltinModule('node:fs').readlinkSync('/proc/thread-self')`;
  const answer = evaluatedSchema.safeParse(await post('Runtime.evaluate', { expression }));
  return answer.data?.result.value;
}

/** Source: the kernel's `/proc/<pid>/task/<tid>/schedstat`, whose first number is time on a core. */
function ranNsOf(task: string | undefined): number {
  if (task === undefined) return 0;
  const [ran = 0] = readFileSync(`/proc/${task}/schedstat`, 'utf8').split(' ').map(Number);
  return ran;
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
