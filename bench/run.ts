/**
 * One measurement in a process of its own, so that memory and compiled code are of this system and this workload alone:
 * `run <system> <workload> full|quick|long <folder of the loop's driver>`. Warms up on another directory, measures, checks,
 * prints one line of JSON. `long` is for profiles: so much of W1 and W2 that the start does not show.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { openKernel } from './kernel-system.ts';
import { openLoop } from './loop/durable-loop.ts';
import type { DrainSystem } from './system.ts';
import { openTroupe } from './troupe-system.ts';
import {
  FULL_SIZE,
  LONG_SIZE,
  longSession,
  type Measurement,
  manySessions,
  oneFamily,
  oneSession,
  QUICK_SIZE,
  WARM_UP_SIZE,
  type WorkloadName,
  type WorkSize,
} from './workloads.ts';

/** Who is measured. */
export type SystemName = 'inline' | 'isolated' | 'loop' | 'kernel';

/** A measurement with what it cost. */
export interface RunResult extends Measurement {
  /** Largest resident set of the process, MB, warm-up included. */
  readonly rssMb: number;
  /** CPU seconds of all threads, per second. */
  readonly cores: number;
  /** Delay of this process's main loop, ms; sampled every ms, the sampling itself included. */
  readonly loopP99: number;
  readonly loopMax: number;
}

/** Tokens shown to the model in W9, so that its requests are of equal size. */
const LONG_TOKEN_BUDGET = 4_000;
const NS_A_MS = 1_000_000;

const SIZES: Readonly<Record<string, WorkSize>> = { full: FULL_SIZE, quick: QUICK_SIZE, long: LONG_SIZE };

const [system = '', workload = '', scale = 'full', loopFolder = ''] = process.argv.slice(2);
const result = await run(system as SystemName, workload as WorkloadName, SIZES[scale] ?? FULL_SIZE);
process.stdout.write(`${JSON.stringify(result)}\n`);

async function run(name: SystemName, work: WorkloadName, size: WorkSize): Promise<RunResult> {
  await within(name, work, (warm) => measure(warm, work, WARM_UP_SIZE));
  return within(name, work, async (measured) => {
    const delays = monitorEventLoopDelay({ resolution: 1 });
    delays.enable();
    const [cpu, startedAt] = [process.cpuUsage(), performance.now()];
    const measurement = await measure(measured, work, size);
    const { user, system: kernel } = process.cpuUsage(cpu);
    const wallMs = performance.now() - startedAt;
    delays.disable();
    return {
      ...measurement,
      rssMb: process.resourceUsage().maxRSS / 1_024,
      cores: (user + kernel) / 1_000 / wallMs,
      loopP99: delays.percentile(99) / NS_A_MS,
      loopMax: delays.max / NS_A_MS,
    };
  });
}

async function within<T>(name: SystemName, work: WorkloadName, use: (system: DrainSystem) => Promise<T>): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), 'troupe-bench-'));
  try {
    const opened = await openSystem(name, work, directory);
    try {
      return await use(opened);
    } finally {
      await opened.close();
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function openSystem(name: SystemName, work: WorkloadName, directory: string): Promise<DrainSystem> {
  if (name === 'loop') return openLoop(directory, loopFolder);
  if (name === 'kernel') return openKernel(directory);
  return openTroupe(directory, { isolation: name, ...(work === 'W9' ? { tokenBudget: LONG_TOKEN_BUDGET } : {}) });
}

function measure(system: DrainSystem, work: WorkloadName, size: WorkSize): Promise<Measurement> {
  switch (work) {
    case 'W1':
      return oneSession(system, size);
    case 'W2':
      return manySessions(system, size);
    case 'W3':
      return oneFamily(system, size.children);
    case 'W9':
      return longSession(system);
    case 'family':
      return oneFamily(system, size.family);
  }
}
