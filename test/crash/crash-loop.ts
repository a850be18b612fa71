/**
 * The loop of generations. Each has its own directory, so that the checks read a bounded amount. Some run side by side
 * to use the cores. Their findings are added up.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Durability } from '../../src/journal/journal.ts';
import { compilePrograms } from './compiled-programs.ts';
import { type Ends, type GenerationOptions, type GenerationReport, noEnds, runGeneration } from './generation.ts';
import { type Counts, noCounts, type Violation } from './ledger.ts';
import { numberOf } from './protocol.ts';

/** The options of a run. */
export interface CrashOptions {
  /** Processes to kill; lives that end otherwise do not count. */
  readonly kills: number;
  readonly seed: number;
  /** Generations that run side by side. Default: one more than cores, since each waits for a disk and for its kill. */
  readonly lanes?: number;
  /** Kills of one generation. Default: a twentieth of all, 10 to 100. */
  readonly generationKills?: number;
  /** Called after each life with one line. */
  readonly progress?: (text: string) => void;
}

/** The result of a run. */
export interface CrashReport {
  readonly seed: number;
  readonly generations: number;
  readonly byDurability: Readonly<Record<Durability, number>>;
  readonly ends: Ends;
  readonly sessions: number;
  readonly messages: number;
  readonly checkpoints: number;
  readonly prepared: number;
  readonly summaries: number;
  /** Data files that were replaced by a compact copy; sessions that lost old history; scans for canaries. */
  readonly compactions: number;
  readonly removals: number;
  readonly scans: number;
  /** The tables and folders in which the scans found mortal sessions. */
  readonly places: readonly string[];
  readonly counts: Counts;
  readonly violations: readonly Violation[];
  /** The stores and the side files; removed if there is no violation. */
  readonly directory: string;
  readonly seconds: number;
}

const DURABILITIES: readonly Durability[] = ['flush', 'os', 'strict', 'flush', 'flush'];
const SHARDS: readonly number[] = [1, 2, 1, 3];
/** Every third generation, so that each durability and each number of threads gets enrichers. */
const ENRICHED_EVERY = 3;

/** Runs the loop; resolves with its findings. Rejects if a victim cannot run at all. */
export async function runCrashLoop(options: CrashOptions): Promise<CrashReport> {
  const startedAt = performance.now();
  const build = await compilePrograms(new URL('.', import.meta.url));
  try {
    const report = await runGenerations(options, build.script('workload'));
    return { ...report, seconds: (performance.now() - startedAt) / 1_000 };
  } finally {
    await build.remove();
  }
}

async function runGenerations(options: CrashOptions, script: string): Promise<Omit<CrashReport, 'seconds'>> {
  const directory = await mkdtemp(join(tmpdir(), 'troupe-crash-'));
  const plans = plansOf(options, directory, script);
  const reports: GenerationReport[] = [];
  let isOver = false;
  const lane = async (): Promise<void> => {
    for (let plan = plans.shift(); plan !== undefined && !isOver; plan = plans.shift()) {
      const report = await runGeneration({ ...plan, isOver: () => isOver }).catch((error: unknown) => {
        isOver = true;
        throw error;
      });
      reports.push(report);
      // One failed generation is enough; the directories of the others would only hide it.
      isOver ||= report.violations.length > 0;
      if (report.violations.length === 0) await rm(plan.directory, { recursive: true, force: true });
    }
  };
  const planned = plans.map(({ durability }) => durability);
  const lanes = await Promise.allSettled(Array.from({ length: options.lanes ?? availableParallelism() + 1 }, lane));
  const failed = lanes.find((each) => each.status === 'rejected');
  if (failed !== undefined) throw new Error(`the loop cannot go on; kept: ${directory}`, { cause: failed.reason });
  const report = summaryOf(reports, { seed: options.seed, directory, planned });
  if (report.violations.length === 0) await rm(directory, { recursive: true, force: true });
  return report;
}

type GenerationPlan = Omit<GenerationOptions, 'isOver'>;

function plansOf(options: CrashOptions, directory: string, script: string): GenerationPlan[] {
  const size = options.generationKills ?? Math.min(100, Math.max(10, Math.ceil(options.kills / 20)));
  const count = Math.ceil(options.kills / size);
  return Array.from({ length: count }, (_, index) => ({
    number: index + 1,
    // The course of a generation depends on the seed and its number alone, not on its lane.
    seed: numberOf(`${options.seed}`, 2 ** 32, `${index}`),
    kills: Math.min(size, options.kills - index * size),
    durability: DURABILITIES[index % DURABILITIES.length] ?? 'flush',
    shards: SHARDS[index % SHARDS.length] ?? 1,
    isEnriched: index % ENRICHED_EVERY === ENRICHED_EVERY - 1,
    directory: join(directory, `generation-${index + 1}`),
    script,
    ...(options.progress === undefined ? {} : { progress: options.progress }),
  }));
}

function summaryOf(
  reports: readonly GenerationReport[],
  run: { readonly seed: number; readonly directory: string; readonly planned: readonly Durability[] },
): Omit<CrashReport, 'seconds'> {
  const [ends, counts] = [noEnds(), noCounts()];
  const byDurability: Record<Durability, number> = { flush: 0, os: 0, strict: 0 };
  for (const durability of run.planned) byDurability[durability] += 1;
  for (const report of reports) {
    add(ends, report.ends);
    add(counts, report.counts);
  }
  const total = (of: (report: GenerationReport) => number): number => reports.reduce((sum, each) => sum + of(each), 0);
  return {
    seed: run.seed,
    directory: run.directory,
    generations: reports.length,
    byDurability,
    ends,
    counts,
    sessions: total(({ sessions }) => sessions),
    messages: total(({ messages }) => messages),
    checkpoints: total(({ checkpoints }) => checkpoints),
    prepared: total(({ prepared }) => prepared),
    summaries: total(({ summaries }) => summaries),
    compactions: total(({ compactions }) => compactions),
    removals: total(({ removals }) => removals),
    scans: total(({ scans }) => scans),
    places: [...new Set(reports.flatMap(({ places }) => [...places]))].sort(),
    violations: reports.flatMap(({ violations }) => violations),
  };
}

function add<T extends { [Key in keyof T]: number }>(sum: T, more: T): void {
  for (const key of Object.keys(more) as (keyof T)[]) sum[key] = (sum[key] + more[key]) as T[keyof T];
}
