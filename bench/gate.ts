/**
 * The regression gate compares a run with a baseline: rates and processor times of troupe as multiples of the kernel's
 * in the same run. This file is pure except for reading the baseline; `gate-run.ts` measures.
 *
 * Processor time is what a change of troupe costs, and other work on the machine hardly moves it. Rates move with the
 * other work and with the disk: the same commit had half of its rate an hour later. So a small share of a rate holds.
 * That still finds a wait that was added to every turn, which costs no processor time.
 *
 * The kernel is the reference of every workload, not the hand-written loop. In W2 and W3 the loop makes thousands of
 * syncs one after another, so it measures the disk. troupe and the kernel share flushes and are bound by the processor,
 * so a slow or busy disk moves the loop alone. In W1 all of them wait for the disk, but the loop syncs on its own
 * thread. troupe and the kernel are woken by another thread, so other work on the machine delays both alike, and hardly
 * the loop.
 *
 * There is a baseline for each kind of processor. The kernel is a small program that stays in the caches, and troupe is
 * a large one. So the same commit has different ratios on different processors: W2 inline 0.16 on one, 0.09 on another.
 */
import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { WorkloadName } from './names.ts';
import type { HeadResult, WorkloadResult } from './report/results-file.ts';
import { Measured } from './report/verdict-rules.ts';

/** Version of the baseline's shape; a reader rejects others. */
export const GATE_FORMAT = 4;
/** The gated workloads, in order. */
export const GATED: readonly WorkloadName[] = ['W1', 'W2', 'W3'];
const SYSTEMS = ['inline', 'isolated'] as const;
/** The reference of all gated workloads. */
export const REFERENCE = 'kernel';
/** `work`: half-steps for each second of processor time. `rate`: work for each second that passes. */
export type GateFigure = 'work' | 'rate';
const FIGURES: readonly GateFigure[] = ['work', 'rate'];
/** Smallest share of a baseline ratio that holds. */
export const LEAST_SHARE: Readonly<Record<GateFigure, number>> = { work: 0.5, rate: 0.25 };
/** The part of these shares that holds on a kind of processor without a separate baseline. */
export const OTHER_PROCESSOR = 0.6;
/**
 * Workloads whose rate is bound by the disk. On a disk that is this many times faster the processor bounds them, and
 * their ratio differs.
 */
const DISK_BOUND: ReadonlySet<string> = new Set(['W1']);
const FASTER_DISK = 2;
const US_A_SECOND = 1_000_000;

/** One figure as a multiple of the kernel's. */
export interface GateRatio {
  readonly workload: string;
  readonly system: string;
  readonly figure: GateFigure;
  readonly ratio: number;
  /** The kernel's figure. Rates are in the workload's unit. */
  readonly reference: number;
}

/** The ratios that a run on one kind of processor is compared with. */
export interface GateBaseline {
  /** The circumstances of the measurement. */
  readonly head: Pick<HeadResult, 'date' | 'commit' | 'node' | 'flags' | 'machine' | 'cores' | 'load' | 'syncMs'>;
  readonly ratios: readonly GateRatio[];
}

/** The baselines of all kinds of processors, as the file holds them. */
export interface GateBaselines {
  readonly format: typeof GATE_FORMAT;
  /** At least one. The names of their processors differ. */
  readonly baselines: readonly GateBaseline[];
}

const baselineSchema: z.ZodType<GateBaseline> = z.object({
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
      figure: z.enum(FIGURES),
      ratio: z.number().positive(),
      reference: z.number().positive(),
    }),
  ),
});

const baselinesSchema: z.ZodType<GateBaselines> = z.object({
  format: z.literal(GATE_FORMAT),
  baselines: z.array(baselineSchema).min(1),
});

/** The baseline for a kind of processor; for an unknown kind the one with the lowest sum of ratios. */
export function baselineFor({ baselines }: GateBaselines, machine: string): GateBaseline {
  const sumOf = ({ ratios }: GateBaseline): number => ratios.reduce((sum, { ratio }) => sum + ratio, 0);
  const lowest = baselines.reduce((low, each) => (sumOf(each) < sumOf(low) ? each : low));
  return baselines.find(({ head }) => head.machine === machine) ?? lowest;
}

/** The smallest share of a figure's baseline that holds on a kind of processor. */
export function leastShare(figure: GateFigure, { head }: GateBaseline, machine: string): number {
  return LEAST_SHARE[figure] * (head.machine === machine ? 1 : OTHER_PROCESSOR);
}

/** The baselines with one that was measured again, or for the first time on its kind of processor. */
export function withBaseline(known: GateBaselines | undefined, measured: GateBaseline): GateBaselines {
  const others = (known?.baselines ?? []).filter(({ head }) => head.machine !== measured.head.machine);
  return { format: GATE_FORMAT, baselines: [...others, measured] };
}

/** The reason why a run with these flags of Node cannot be compared with the baseline; `undefined` when it can. */
export function incomparable({ head }: GateBaseline, flags: readonly string[]): string | undefined {
  if (isDeepStrictEqual(head.flags, flags)) return undefined;
  return `the baseline was measured with \`node ${head.flags.join(' ')}\`, this run with \`node ${flags.join(' ')}\``;
}

/** One ratio of the baseline beside that of this run. */
export interface GateFinding {
  readonly workload: string;
  readonly system: string;
  readonly figure: GateFigure;
  readonly baseline: number;
  readonly measured: number | undefined;
  /** The smallest share of the baseline that holds. */
  readonly leastShare: number;
  /** `missing`: this run has no such ratio, which is a failure. `another-disk`: the two ratios cannot be compared. */
  readonly outcome: 'held' | 'fallen' | 'missing' | 'another-disk';
}

/**
 * The ratios of a run: medians over rounds of medians over repetitions. Workloads that the run did not measure are left
 * out.
 */
export function gateRatios(workloads: readonly WorkloadResult[]): readonly GateRatio[] {
  const measured = new Measured(workloads);
  return GATED.flatMap((workload) =>
    SYSTEMS.flatMap((system) =>
      FIGURES.flatMap((figure) => {
        const own = figureOf(measured, workload, system, figure);
        const reference = figureOf(measured, workload, REFERENCE, figure);
        if (own === undefined || reference === undefined) return [];
        return [{ workload, system, figure, ratio: own / reference, reference }];
      }),
    ),
  );
}

function figureOf(measured: Measured, workload: string, system: string, figure: GateFigure): number | undefined {
  if (figure === 'rate') return measured.figure({ workload, system });
  const cpuUs = measured.figure({ workload, system }, 'cpuUs');
  return cpuUs === undefined ? undefined : US_A_SECOND / cpuUs;
}

/** Compares every ratio of the baseline with a run on a kind of processor. */
export function compareRatios(
  baseline: GateBaseline,
  machine: string,
  measured: readonly GateRatio[],
): readonly GateFinding[] {
  return baseline.ratios.map((wanted) => {
    const { workload, system, figure } = wanted;
    const found = measured.find((each) => isSame(each, wanted));
    const least = leastShare(figure, baseline, machine);
    const outcome = outcomeOf(wanted, found, least);
    return { workload, system, figure, baseline: wanted.ratio, measured: found?.ratio, leastShare: least, outcome };
  });
}

/** True if the finding fails the gate. */
export function isFailure({ outcome }: GateFinding): boolean {
  return outcome === 'fallen' || outcome === 'missing';
}

/** Findings that failed in both runs. A ratio that passed in one run was low by chance in the other. */
export function failedTwice(first: readonly GateFinding[], second: readonly GateFinding[]): readonly GateFinding[] {
  return second.filter(
    (finding) => isFailure(finding) && first.some((each) => isSame(each, finding) && isFailure(each)),
  );
}

/** A finding as a line. */
export function findingLine(finding: GateFinding): string {
  const { workload, system, figure, baseline, measured } = finding;
  const now = measured === undefined ? 'not measured' : `${measured.toFixed(3)} x ${REFERENCE}`;
  const share = measured === undefined ? '' : ` (${((100 * measured) / baseline).toFixed(0)} %)`;
  const place = `${workload} ${system.padEnd(8)} ${figure}`;
  return `${place}  baseline ${baseline.toFixed(3)}  now ${now}${share}  ${outcomeWords(finding)}`;
}

function outcomeWords({ outcome, leastShare }: GateFinding): string {
  switch (outcome) {
    case 'held':
      return 'held';
    case 'fallen':
      return `FALLEN below ${leastShare} of the baseline`;
    case 'missing':
      return 'MISSING from this run';
    case 'another-disk':
      return 'not compared, because this disk is more than twice as fast';
  }
}

/** Reads the baselines of a file; `undefined` if there is no file. Throws for a file with other content. */
export function readBaselines(path: string | URL): GateBaselines | undefined {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  return parseBaselines(text);
}

/** Parses baselines. Throws for other text, and for another format. */
export function parseBaselines(text: string): GateBaselines {
  return baselinesSchema.parse(JSON.parse(text));
}

function outcomeOf(wanted: GateRatio, found: GateRatio | undefined, least: number): GateFinding['outcome'] {
  if (found === undefined) return 'missing';
  if (found.ratio >= wanted.ratio * least) return 'held';
  const isDiskBound = wanted.figure === 'rate' && DISK_BOUND.has(wanted.workload);
  return isDiskBound && found.reference > wanted.reference * FASTER_DISK ? 'another-disk' : 'fallen';
}

type Place = Pick<GateRatio, 'workload' | 'system' | 'figure'>;

function isSame(one: Place, other: Place): boolean {
  return one.workload === other.workload && one.system === other.system && one.figure === other.figure;
}
