/**
 * The shape of `results.json`: every repetition of every round, and the verdicts. `readResults` reads it, for plots and
 * for comparisons with an earlier run.
 */
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { type FanOutResult, fanOutSchema } from '../html/fan-out-result.ts';

/** Version of the shape; a reader rejects others. */
export const RESULTS_FORMAT = 2;

/**
 * Numbers by name: `rate` in the workload's unit, times in ms (`p50`, `wallMs`), `cpuUs` in microseconds a half-step,
 * ...
 */
const figuresSchema: z.ZodType<Readonly<Record<string, number>>> = z.record(z.string(), z.number());

const rowSchema: z.ZodType<RowResult> = z.object({
  variant: z.string(),
  cold: z.array(figuresSchema).optional(),
  repetitions: z.array(figuresSchema),
});

/** Repetitions of one variant of a workload in one process; `variant` is `''` if a workload has only one. */
export interface RowResult {
  readonly variant: string;
  /** The repetitions that the process made before its warm-up, in order; missing if it made none. */
  readonly cold?: readonly Readonly<Record<string, number>>[] | undefined;
  readonly repetitions: readonly Readonly<Record<string, number>>[];
}

/** One process: a system in one round. */
export interface RoundResult {
  readonly system: string;
  /** The number of the round, from 0. */
  readonly round: number;
  /** Runnable tasks of the last minute, before it started. */
  readonly load: number;
  readonly rows: readonly RowResult[];
}

const roundSchema: z.ZodType<RoundResult> = z.object({
  system: z.string(),
  round: z.number().int().min(0),
  load: z.number(),
  rows: z.array(rowSchema),
});

/** All rounds of one workload, in the order they were run. */
export interface WorkloadResult {
  readonly workload: string;
  readonly title: string;
  readonly unit: string;
  readonly rounds: readonly RoundResult[];
}

const workloadSchema: z.ZodType<WorkloadResult> = z.object({
  workload: z.string(),
  title: z.string(),
  unit: z.string(),
  rounds: z.array(roundSchema),
});

/** One target and its measured value. `distance` is measured / wanted such that 1 or more holds. */
export interface VerdictResult {
  readonly id: string;
  readonly target: string;
  readonly measured: string;
  /** `open`: not measured in this run; `measured` has the command that measures it, or says that there is none. */
  readonly outcome: 'holds' | 'fails' | 'open';
  readonly distance?: number | undefined;
}

const verdictSchema: z.ZodType<VerdictResult> = z.object({
  id: z.string(),
  target: z.string(),
  measured: z.string(),
  outcome: z.enum(['holds', 'fails', 'open']),
  distance: z.number().optional(),
});

/** The circumstances of a run. */
export interface HeadResult {
  /** ISO 8601. */
  readonly date: string;
  readonly commit: string;
  readonly node: string;
  /** Flags of every measured process. */
  readonly flags: readonly string[];
  readonly machine: string;
  readonly cores: number;
  readonly memoryGib: number;
  readonly load: number;
  /**
   * Median time in ms of one append of 4 KiB and its `fdatasync` in the directory of the stores; missing in older
   * files.
   */
  readonly syncMs?: number | undefined;
  readonly durability: string;
  readonly transport: string;
  readonly seed: number;
  readonly command: string;
  /** Remarks, such as systems that were left out, with the reason. */
  readonly notes: readonly string[];
}

const headSchema: z.ZodType<HeadResult> = z.object({
  date: z.string(),
  commit: z.string(),
  node: z.string(),
  flags: z.array(z.string()),
  machine: z.string(),
  cores: z.number(),
  memoryGib: z.number(),
  load: z.number(),
  syncMs: z.number().optional(),
  durability: z.string(),
  transport: z.string(),
  seed: z.number(),
  command: z.string(),
  notes: z.array(z.string()),
});

/** The whole file. */
export interface ResultsFile {
  readonly format: typeof RESULTS_FORMAT;
  readonly head: HeadResult;
  readonly workloads: readonly WorkloadResult[];
  readonly verdicts: readonly VerdictResult[];
  /** Drawn in `report.html`; runs that write no report have none. */
  readonly fanOut?: FanOutResult | undefined;
}

const fileSchema: z.ZodType<ResultsFile> = z.object({
  format: z.literal(RESULTS_FORMAT),
  head: headSchema,
  workloads: z.array(workloadSchema),
  verdicts: z.array(verdictSchema),
  fanOut: fanOutSchema.optional(),
});

/** Parses the rows that a measuring process prints. Throws for other text. */
export function parseRows(text: string): readonly RowResult[] {
  return z.array(rowSchema).parse(JSON.parse(text));
}

/** Parses results. Throws for other text, and for another format. */
export function parseResults(text: string): ResultsFile {
  return fileSchema.parse(JSON.parse(text));
}

/** Reads the results of a file. Throws like `parseResults`, and if there is no such file. */
export function readResults(path: string | URL): ResultsFile {
  return parseResults(readFileSync(path, 'utf8'));
}
