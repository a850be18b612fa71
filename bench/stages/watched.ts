/**
 * `watched <inline|isolated> <W2|W5> <nobody, or a kind of reader> <quick|full>`: this process is watched in one way from its start to
 * its end. Warms up, works without a profiler, profiles all its threads while it works, samples what they allocate, and prints what the
 * watching cost: microseconds of processor time a half-step, for the process, and by what a thread is for.
 */
import { anthropic } from '../../src/index.ts';
import { OF_ALL, OF_ONE, TRACED, turnsOf, type Watched, type Watcher } from '../measure/watchers.ts';
import type { Figures } from '../report/figures.ts';
import { startStage } from '../stage.ts';
import { withTroupe } from '../systems/open-system.ts';
import { HALF_STEPS_A_TURN } from '../systems/system.ts';
import type { TroupeOptions, TroupeSystem } from '../systems/troupe-system.ts';
import {
  type Allocated,
  type AllocationNode,
  allocatedIn,
  asRan,
  collectorShare,
  scaled,
  type ThreadTime,
  timeOf,
  type Window,
} from '../watching/attribution.ts';
import { attachProfiler, type ThreadRole, type ThreadsProfiler } from '../watching/profile.ts';
import { isTelling } from '../watching/telling.ts';
import { manySessions } from '../workloads.ts';

type Timed = <T>(work: () => Promise<T>) => Promise<T>;
/** One repetition. */
type Pass = (timed?: Timed) => Promise<void>;

const NS_A_US = 1_000;
/**
 * Passes: until what runs is compiled (of four times as many the ratios of W2 are the same); of which the processor time is taken; with
 * a profiler, which collects positions first; and profiled: enough that each thread's collector comes by several times.
 */
const PASSES = {
  W2: { warm: 6, timed: 4, positions: 1, profiled: 3 },
  W5: { warm: 4, timed: 6, positions: 1, profiled: 6 },
};
const SIZES = {
  W2: { full: { sessions: 1_000, turnsEach: 3 }, quick: { sessions: 300, turnsEach: 3 } },
  W5: { full: { sessions: 200, turnsEach: 3 }, quick: { sessions: 60, turnsEach: 3 } },
};

const [isolationWord, workloadWord, variant = 'nobody', scaleWord] = process.argv.slice(2);
const isolation = isolationWord === 'isolated' ? 'isolated' : 'inline';
const workload = workloadWord === 'W5' ? 'W5' : 'W2';
const scale = scaleWord === 'quick' ? 'quick' : 'full';
const size: Watched['size'] = SIZES[workload][scale];
const halfStepsAPass = turnsOf(size) * HALF_STEPS_A_TURN;
const { warm, timed: timedPasses, positions, profiled } = PASSES[workload];
const watch = { ...OF_ONE, ...OF_ALL, ...TRACED }[variant];
if (watch === undefined && variant !== 'nobody') throw new Error(`nobody watches as ${variant}`);

const figures = workload === 'W5' ? await throughHttp() : await measure({ isolation });
process.stdout.write(`${JSON.stringify(figures)}\n`);

async function throughHttp(): Promise<Figures> {
  const server = startStage('./systems/fake-server', []);
  try {
    const baseURL = `http://127.0.0.1:${Number(await server.line())}`;
    return await measure({ isolation, provider: anthropic({ apiKey: 'bench', baseURL }) });
  } finally {
    server.process.stdin?.end();
    await server.ended();
  }
}

function measure(options: TroupeOptions): Promise<Figures> {
  return withTroupe(options, async (system) => {
    const watcher = watch?.(system);
    let passes = 0;
    const pass: Pass = (timed = (work) => work()) => {
      passes += 1;
      return onePass(system, watcher, `p${passes}-`, timed);
    };
    while (passes < warm) await pass();
    const profiler = await attachProfiler();
    const ran = await ranInPasses(profiler, pass);
    const times = await timesInPasses(profiler, pass);
    const allocated = await allocatedInPass(profiler, pass);
    profiler.detach();
    const threads = profiler.roles.map((role, index) => ({
      role,
      time: asRan(inOrder(times, index), inOrder(ran.threadsUs, index)),
      allocated: inOrder(allocated, index),
    }));
    return { ...flatFigures(threads, ran.processUs), ...(await watcher?.end()) };
  });
}

/** One repetition on new sessions. `timed` is around the work and the reader's catching up, and leaves out the checks. */
async function onePass(system: TroupeSystem, watcher: Watcher | undefined, label: string, timed: Timed): Promise<void> {
  const expected = await watcher?.expect({ label, size });
  await manySessions(system, size, {
    label,
    timed: (work) =>
      timed(async () => {
        const value = await work();
        await expected?.caughtUp;
        return value;
      }),
  });
}

/** Processor time of one half-step: of the process, its helpers included, and of each thread; without profiles. */
interface Ran {
  readonly processUs: number;
  readonly threadsUs: readonly number[];
}

async function ranInPasses(profiler: ThreadsProfiler, pass: Pass): Promise<Ran> {
  let processUs = 0;
  const threadsUs = profiler.roles.map(() => 0);
  for (let index = 0; index < timedPasses; index += 1) {
    await pass(async (work) => {
      const [usedBefore, ranBefore] = [process.cpuUsage(), profiler.ranNs()];
      const value = await work();
      const [{ user, system }, ran] = [process.cpuUsage(usedBefore), profiler.ranNs()];
      processUs += user + system;
      for (const [thread, ranNs] of ran.entries()) {
        threadsUs[thread] = inOrder(threadsUs, thread) + (ranNs - inOrder(ranBefore, thread)) / NS_A_US;
      }
      return value;
    });
  }
  const halfSteps = halfStepsAPass * timedPasses;
  return { processUs: processUs / halfSteps, threadsUs: threadsUs.map((us) => us / halfSteps) };
}

/** Of each thread, where its time went, in microseconds a half-step of passes with a profiler. */
async function timesInPasses(profiler: ThreadsProfiler, pass: Pass): Promise<readonly ThreadTime[]> {
  await profiler.startCpu();
  for (let index = 0; index < positions; index += 1) await pass();
  await profiler.stopCpu();

  const windows: Window[] = [];
  await profiler.startCpu();
  while (windows.length < profiled) {
    await pass(async (work) => {
      const fromUs = nowUs();
      const value = await work();
      windows.push({ fromUs, toUs: nowUs() });
      return value;
    });
  }
  const profiles = await profiler.stopCpu();
  const halfSteps = halfStepsAPass * windows.length;
  return profiles.map((profile) => scaled(timeOf(profile, isTelling, windows), 1 / halfSteps));
}

async function allocatedInPass(profiler: ThreadsProfiler, pass: Pass): Promise<readonly Allocated[]> {
  let heads: readonly AllocationNode[] = [];
  await pass(async (work) => {
    await profiler.startAllocations();
    const value = await work();
    heads = await profiler.stopAllocations();
    return value;
  });
  return heads.map((head) => allocatedIn(head, isTelling));
}

function nowUs(): number {
  return Number(process.hrtime.bigint() / BigInt(NS_A_US));
}

/** Profilers answer for each thread, in one order. */
function inOrder<T>(list: readonly T[], index: number): T {
  const found = list[index];
  if (found === undefined) throw new Error(`no profile of thread ${index}`);
  return found;
}

interface ThreadCost {
  readonly role: ThreadRole;
  readonly time: ThreadTime;
  readonly allocated: Allocated;
}

/** By role, and for all threads: what is added up over them, a half-step. What the process used beside them are its helpers. */
function flatFigures(threads: readonly ThreadCost[], processUs: number): Figures {
  const figures: Record<string, number> = { cpuUs: processUs };
  const add = (name: string, value: number): void => {
    figures[name] = (figures[name] ?? 0) + value;
  };
  for (const { role, time, allocated } of threads) {
    const { busy: ranUs, told: toldUs, collector: collectorUs, posting: postingUs } = time;
    const toldCollectorUs = collectorShare(time, allocated);
    const costs = { ranUs, toldUs, collectorUs, postingUs, toldCollectorUs };
    for (const [name, value] of Object.entries(costs)) {
      add(name, value);
      add(`${role}.${name}`, value);
    }
  }
  return { ...figures, helpersUs: Math.max(0, processUs - (figures['ranUs'] ?? 0)) };
}
