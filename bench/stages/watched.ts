/**
 * `watched <inline|isolated> <W2|W5> <nobody, or a kind of reader> <quick|full>`: this process is watched in one way from its start to
 * its end. Warms up, profiles all its threads while it works, samples what they allocate, and prints what the watching cost by these
 * profiles: microseconds a half-step, for all threads, and by what a thread is for.
 */
import { anthropic } from '../../src/index.ts';
import {
  type Allocated,
  type AllocationNode,
  allocatedIn,
  collectorShare,
  onCore,
  type ThreadTime,
  timeOf,
  type Window,
} from '../attribution.ts';
import type { Figures } from '../figures.ts';
import { OF_ALL, OF_ONE, TRACED, turnsOf, type Watched, type Watcher } from '../measure/watchers.ts';
import { withTroupe } from '../open-system.ts';
import { attachProfiler, type ThreadRole, type ThreadsProfiler } from '../profile.ts';
import { startStage } from '../stage.ts';
import { HALF_STEPS_A_TURN } from '../system.ts';
import { isTelling } from '../telling.ts';
import type { TroupeOptions, TroupeSystem } from '../troupe-system.ts';
import { manySessions } from '../workloads.ts';

type Timed = <T>(work: () => Promise<T>) => Promise<T>;

const NS_A_US = 1_000n;
/**
 * Passes: before profiles, until what runs is compiled (of four times as many the ratios of W2 are the same); with a profiler
 * attached, which collects positions first; and measured.
 */
const PASSES = {
  W2: { warm: 6, profiled: 1, measured: 2 },
  W5: { warm: 4, profiled: 1, measured: 2 },
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
const { warm, profiled: warmProfiled, measured } = PASSES[workload];
const watch = { ...OF_ONE, ...OF_ALL, ...TRACED }[variant];
if (watch === undefined && variant !== 'nobody') throw new Error(`nobody watches as ${variant}`);

const figures = workload === 'W5' ? await throughHttp() : await measure({ isolation });
process.stdout.write(`${JSON.stringify(figures)}\n`);

async function throughHttp(): Promise<Figures> {
  const server = startStage('./fake-server', []);
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
    const pass = (timed: Timed = (work) => work()): Promise<void> => {
      passes += 1;
      return onePass(system, watcher, `p${passes}-`, timed);
    };
    while (passes < warm) await pass();
    const profiler = await attachProfiler();
    const profiled = await profiledFigures(profiler, pass);
    profiler.detach();
    return { ...profiled, ...(await watcher?.end()) };
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

async function profiledFigures(profiler: ThreadsProfiler, pass: (timed?: Timed) => Promise<void>): Promise<Figures> {
  await profiler.startCpu();
  for (let index = 0; index < warmProfiled; index += 1) await pass();
  await profiler.stopCpu();

  const windows: Window[] = [];
  const cores = profiler.roles.map(() => ({ ran: 0, waited: 0 }));
  await profiler.startCpu();
  while (windows.length < measured) {
    await pass(async (work) => {
      const before = profiler.coreTimes();
      const fromUs = nowUs();
      const value = await work();
      windows.push({ fromUs, toUs: nowUs() });
      for (const [index, { ran, waited }] of profiler.coreTimes().entries()) {
        const [sum, since] = [cores[index], before[index]];
        if (sum === undefined || since === undefined) continue;
        sum.ran += ran - since.ran;
        sum.waited += waited - since.waited;
      }
      return value;
    });
  }
  const profiles = await profiler.stopCpu();
  const allocated = await allocatedInPass(profiler, pass);
  return flatFigures(
    profiler.roles.map((role, index) => ({
      role,
      time: onCore(timeOf(inOrder(profiles, index), isTelling, windows), inOrder(cores, index)),
      allocated: inOrder(allocated, index),
    })),
    halfStepsAPass * windows.length,
  );
}

async function allocatedInPass(
  profiler: ThreadsProfiler,
  pass: (timed?: Timed) => Promise<void>,
): Promise<readonly Allocated[]> {
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
  return Number(process.hrtime.bigint() / NS_A_US);
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

/** By role, and for all: what is added up over threads, a half-step. */
function flatFigures(threads: readonly ThreadCost[], halfSteps: number): Figures {
  const figures: Record<string, number> = {};
  const add = (name: string, value: number): void => {
    figures[name] = (figures[name] ?? 0) + value / halfSteps;
  };
  for (const { role, time, allocated } of threads) {
    const { busy: busyUs, told: toldUs, collector: collectorUs, cloning: cloningUs } = time;
    const costs = { busyUs, toldUs, collectorUs, cloningUs, toldCollectorUs: collectorShare(time, allocated) };
    for (const [name, value] of Object.entries(costs)) {
      add(name, value);
      add(`${role}.${name}`, value);
    }
  }
  return figures;
}
