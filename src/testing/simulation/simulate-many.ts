/** Runs many seeds on several threads and sums up their results. */
import { startThread } from '../../threads/thread.ts';
import { workerUrl } from '../../threads/worker-url.ts';
import { FAULT_KINDS, type FaultKind } from './faults.ts';
import type { SimulationResult } from './simulation-result.ts';

/** The seeds to run, and how to run them. */
export interface ManyOptions {
  /** First seed. */
  readonly from: number;
  /** Number of seeds. */
  readonly seeds: number;
  /** Threads, from 1. */
  readonly threads: number;
  /** Called after each seed, in no particular order. */
  readonly onResult?: (result: SimulationResult) => void;
  /** Once this number of seeds has failed, no further seed is started; default 10. */
  readonly failuresMax?: number;
}

/** The sums over all seeds. */
export interface SimulationTotals {
  seeds: number;
  /** Virtual hours. */
  simulatedHours: number;
  lives: number;
  /** Number of tasks: timers, messages between threads, completions. */
  tasks: number;
  messages: number;
  modelCalls: number;
  toolRuns: number;
  readonly faults: Record<FaultKind, number>;
  /** Results with violations. */
  readonly failures: SimulationResult[];
}

const FAILURES_MAX = 10;

/**
 * Runs seeds `from` to `from + seeds - 1`. Rejects when a thread dies or a seed does not end. The error says which
 * seed.
 */
export async function simulateMany(options: ManyOptions): Promise<SimulationTotals> {
  const totals: SimulationTotals = {
    seeds: 0,
    simulatedHours: 0,
    lives: 0,
    tasks: 0,
    messages: 0,
    modelCalls: 0,
    toolRuns: 0,
    faults: Object.fromEntries(FAULT_KINDS.map((kind) => [kind, 0])) as Record<FaultKind, number>,
    failures: [],
  };
  let next = options.from;
  const end = options.from + options.seeds;
  const work = async (): Promise<void> => {
    const thread = startThread(workerUrl('./simulation.worker', import.meta.url), { name: 'troupe simulation' });
    let seed = next;
    const died = new Promise<never>((_resolve, reject) => {
      thread.onExit(({ exitCode, error }) => {
        reject(new Error(`the thread that simulated seed ${seed} ended with code ${exitCode}`, { cause: error }));
      });
    });
    died.catch(() => undefined);
    try {
      while (next < end && totals.failures.length < (options.failuresMax ?? FAILURES_MAX)) {
        seed = next;
        next += 1;
        const answered = thread.endpoint.call('simulate', seed);
        answered.catch(() => undefined);
        const result = (await inTime(Promise.race([died, answered]), seed)) as SimulationResult;
        add(totals, result);
        options.onResult?.(result);
      }
    } finally {
      await thread.terminate();
    }
  };
  await Promise.all(Array.from({ length: Math.min(options.threads, options.seeds) }, work));
  return totals;
}

const HOUR_MS = 3_600_000;
/** A run that takes more real milliseconds counts as endless. A run normally takes a second or less. */
const HANG_MS = 180_000;

/** Rejects when the run does not end. The error says which seed. */
async function inTime<Value>(run: Promise<Value>, seed: number): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`seed ${seed} does not end: it still occupies its thread`)), HANG_MS);
  });
  try {
    return await Promise.race([run, late]);
  } finally {
    clearTimeout(timer);
  }
}

function add(totals: SimulationTotals, result: SimulationResult): void {
  totals.seeds += 1;
  totals.simulatedHours += result.simulatedMs / HOUR_MS;
  totals.lives += result.lives;
  totals.tasks += result.tasks;
  totals.messages += result.messages;
  totals.modelCalls += result.modelCalls;
  totals.toolRuns += result.toolRuns;
  for (const [kind, count] of Object.entries(result.faults)) totals.faults[kind as FaultKind] += count;
  if (result.violations.length > 0) totals.failures.push(result);
}
