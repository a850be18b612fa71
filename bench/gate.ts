/**
 * The regression gate: rates as multiples of the kernel's in the same run, held against those of a baseline. Pure but for the reading
 * of the baseline; `gate-run.ts` measures.
 *
 * Every workload is held against the kernel, none against the hand-written loop. W2 and W3 of the loop are thousands of syncs one
 * after another and measure the disk; troupe and the kernel share flushes and are bound by the processor, so that a slow or busy
 * disk moves the loop alone. In W1 all wait for the disk, but the loop syncs on the thread it runs on, while troupe and the kernel
 * are woken by another thread: other work on the machine delays those two alike, and the loop hardly.
 */
import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { WorkloadName } from './names.ts';
import type { HeadResult, WorkloadResult } from './report/results-file.ts';
import { Measured } from './report/verdict-rules.ts';

/** Version of the baseline's shape; a reader refuses others. */
export const GATE_FORMAT = 2;
/** What is gated, in this order. */
export const GATED: readonly WorkloadName[] = ['W1', 'W2', 'W3'];
const SYSTEMS = ['inline', 'isolated'] as const;
/** The reference of all of them. */
export const REFERENCE = 'kernel';
/** What must be left of a ratio: machines differ, and other work on them may take much of what is measured. */
export const LEAST_SHARE = 0.5;
/** Bound by the disk: a disk so many times faster than the baseline's leaves the processor to wait for, and another ratio. */
const DISK_BOUND: ReadonlySet<string> = new Set(['W1']);
const FASTER_DISK = 2;

/** One rate as a multiple of the kernel's. */
export interface GateRatio {
  readonly workload: string;
  readonly system: string;
  readonly ratio: number;
  /** The kernel's rate, in the workload's unit. */
  readonly reference: number;
}

/** What a run is held against. */
export interface GateBaseline {
  readonly format: typeof GATE_FORMAT;
  /** Where and when it was written. */
  readonly head: Pick<HeadResult, 'date' | 'commit' | 'node' | 'flags' | 'machine' | 'cores' | 'load' | 'syncMs'>;
  readonly ratios: readonly GateRatio[];
}

const baselineSchema: z.ZodType<GateBaseline> = z.object({
  format: z.literal(GATE_FORMAT),
  head: z.object({
    date: z.string(),
    commit: z.string(),
    node: z.string(),
    flags: z.array(z.string()),
    machine: z.string(),
    cores: z.number(),
    load: z.number(),
    syncMs: z.number().optional(),
  }),
  ratios: z.array(
    z.object({
      workload: z.string(),
      system: z.string(),
      ratio: z.number().positive(),
      reference: z.number().positive(),
    }),
  ),
});

/** The reason why a run with these flags of Node cannot be compared with the baseline; `undefined` when it can. */
export function incomparable({ head }: GateBaseline, flags: readonly string[]): string | undefined {
  if (isDeepStrictEqual(head.flags, flags)) return undefined;
  return `the baseline was measured with \`node ${head.flags.join(' ')}\`, this run with \`node ${flags.join(' ')}\``;
}

/** One ratio of the baseline and what this run has to say on it. */
export interface GateFinding {
  readonly workload: string;
  readonly system: string;
  readonly baseline: number;
  readonly measured: number | undefined;
  /** `missing`: this run has no such ratio, which is a failure. `another-disk`: the two do not compare. */
  readonly outcome: 'held' | 'fallen' | 'missing' | 'another-disk';
}

/** The ratios of a run: medians over rounds of medians over repetitions. What it did not measure is left out. */
export function gateRatios(workloads: readonly WorkloadResult[]): readonly GateRatio[] {
  const measured = new Measured(workloads);
  return GATED.flatMap((workload) =>
    SYSTEMS.flatMap((system) => {
      const reference = measured.figure({ workload, system: REFERENCE });
      const ratio = measured.ratio({ workload, system }, { workload, system: REFERENCE });
      return reference === undefined || ratio === undefined ? [] : [{ workload, system, ratio, reference }];
    }),
  );
}

/** Every ratio of the baseline, held against a run. */
export function compareRatios(baseline: readonly GateRatio[], measured: readonly GateRatio[]): readonly GateFinding[] {
  return baseline.map((wanted) => {
    const { workload, system } = wanted;
    const found = measured.find((each) => each.workload === workload && each.system === system);
    return { workload, system, baseline: wanted.ratio, measured: found?.ratio, outcome: outcomeOf(wanted, found) };
  });
}

/** True for what fails the gate. */
export function isFailure({ outcome }: GateFinding): boolean {
  return outcome === 'fallen' || outcome === 'missing';
}

/** What failed in a run and in its repetition: a ratio that held once was measured low by chance the other time. */
export function failedTwice(first: readonly GateFinding[], second: readonly GateFinding[]): readonly GateFinding[] {
  return second.filter(
    (finding) =>
      isFailure(finding) &&
      first.some((each) => each.workload === finding.workload && each.system === finding.system && isFailure(each)),
  );
}

/** A finding as a line. */
export function findingLine({ workload, system, baseline, measured, outcome }: GateFinding): string {
  const now = measured === undefined ? 'not measured' : `${measured.toFixed(3)} x ${REFERENCE}`;
  const share = measured === undefined ? '' : ` (${((100 * measured) / baseline).toFixed(0)} %)`;
  return `${workload} ${system.padEnd(8)}  baseline ${baseline.toFixed(3)}  now ${now}${share}  ${WORDS[outcome]}`;
}

const WORDS: Readonly<Record<GateFinding['outcome'], string>> = {
  held: 'held',
  fallen: `FALLEN below ${LEAST_SHARE} of the baseline`,
  missing: 'MISSING from this run',
  'another-disk': 'not compared: this disk is more than twice as fast',
};

/** The baseline in a file; `undefined` when there is none yet. Throws for a file that holds something else. */
export function readBaseline(path: string | URL): GateBaseline | undefined {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  return parseBaseline(text);
}

/** The baseline in a text. Throws for a text that is none, or of another format. */
export function parseBaseline(text: string): GateBaseline {
  return baselineSchema.parse(JSON.parse(text));
}

function outcomeOf(wanted: GateRatio, found: GateRatio | undefined): GateFinding['outcome'] {
  if (found === undefined) return 'missing';
  if (found.ratio >= wanted.ratio * LEAST_SHARE) return 'held';
  const isFaster = found.reference > wanted.reference * FASTER_DISK;
  return DISK_BOUND.has(wanted.workload) && isFaster ? 'another-disk' : 'fallen';
}
