/** Columns of a table: the figures that it shows, and their form. */
import { median } from './figures.ts';
import type { RoundResult, WorkloadResult } from './results-file.ts';

/** Repetitions by round of one system and one variant. */
export interface Series {
  readonly system: string;
  readonly variant: string;
  /** The repetitions of each process before its warm-up, in order. */
  readonly cold: readonly (readonly Readonly<Record<string, number>>[])[];
  /** The repetitions of each process after its warm-up. */
  readonly rounds: readonly (readonly Readonly<Record<string, number>>[])[];
  readonly loads: readonly number[];
}

/** One column. `all`: the whole table, for ratios. */
export interface Column {
  readonly title: string;
  readonly cell: (series: Series, all: readonly Series[]) => string;
}

/** A workload's rounds by system and variant, in the order of their first appearance. */
export function seriesOf({ rounds }: Pick<WorkloadResult, 'rounds'>): readonly Series[] {
  const found = new Map<string, { readonly first: RoundResult; readonly variant: string }>();
  for (const round of rounds) {
    for (const { variant } of round.rows) {
      const key = `${round.system} ${variant}`;
      if (!found.has(key)) found.set(key, { first: round, variant });
    }
  }
  return [...found.values()].map(({ first, variant }) => {
    const own = rounds.filter(({ system }) => system === first.system);
    const rows = own.flatMap((round) => round.rows.filter((row) => row.variant === variant));
    return {
      system: first.system,
      variant,
      cold: rows.map(({ cold = [] }) => cold),
      rounds: rows.map(({ repetitions }) => repetitions),
      loads: own.map(({ load }) => load),
    };
  });
}

/** The median over rounds of the median over repetitions; `undefined` if it was not measured. */
export function figure(series: Series, name: string): number | undefined {
  const medians = series.rounds
    .map((repetitions) => repetitions.flatMap((each) => each[name] ?? []))
    .filter((values) => values.length > 0)
    .map(median);
  return medians.length === 0 ? undefined : median(medians);
}

/**
 * The median over processes of a figure of one repetition before the warm-up. Repetition 0 is the first of the process,
 * 1 the second. `undefined` if the repetition was not measured.
 */
export function coldFigure(series: Series, name: string, index: number): number | undefined {
  const found = series.cold.flatMap((repetitions) => repetitions[index]?.[name] ?? []);
  return found.length === 0 ? undefined : median(found);
}

/** All values of all rounds. */
export function values(series: Series, name: string): readonly number[] {
  return series.rounds.flat().flatMap((each) => each[name] ?? []);
}

/** Median (smallest to largest repetition). */
export function spread(title: string, name: string): Column {
  return {
    title: `${title} (min to max)`,
    cell: (series) => {
      const all = values(series, name);
      if (all.length === 0) return '';
      return `${show(figure(series, name))} (${show(Math.min(...all))} to ${show(Math.max(...all))})`;
    },
  };
}

/** The median alone. */
export function one(title: string, name: string): Column {
  return { title, cell: (series) => show(figure(series, name)) };
}

/** Medians side by side. */
export function several(title: string, ...names: readonly string[]): Column {
  return {
    title,
    cell: (series) => {
      const shown = names.map((name) => show(figure(series, name)));
      return shown.every((cell) => cell === '') ? '' : shown.join(' / ');
    },
  };
}

/** The largest of all repetitions. */
export function most(title: string, name: string): Column {
  return { title, cell: (series) => show(Math.max(...values(series, name))) };
}

/** The figure as a multiple of another system's, for the same variant. */
export function ratioTo(other: string, name = 'rate'): Column {
  return {
    title: `x ${other}`,
    cell: (series, all) => {
      const reference = all.find(({ system, variant }) => system === other && variant === series.variant);
      const [own, their] = [figure(series, name), reference === undefined ? undefined : figure(reference, name)];
      return own === undefined || their === undefined ? '' : (own / their).toFixed(2);
    },
  };
}

/** The figure as a multiple of another variant's, for the same system, with enough digits for ratios near 1. */
export function ratioToVariant(other: string, name: string): Column {
  return {
    title: `x ${other}`,
    cell: (series, all) => {
      const reference = all.find(({ system, variant }) => system === series.system && variant === other);
      const [own, their] = [figure(series, name), reference === undefined ? undefined : figure(reference, name)];
      return own === undefined || their === undefined ? '' : (own / their).toFixed(3);
    },
  };
}

/** The first and the second repetition of a new process, before any warm-up. */
export function cold(title: string, name = 'rate'): Column {
  return {
    title: `${title} cold / second`,
    cell: (series) => beforeWarmUp((index) => coldFigure(series, name, index)),
  };
}

/** The same two as multiples of another system's repetitions, cold by cold and second by second. */
export function coldRatioTo(other: string, name = 'rate'): Column {
  return {
    title: `x ${other} cold / second`,
    cell: (series, all) => {
      const reference = all.find(({ system, variant }) => system === other && variant === series.variant);
      return beforeWarmUp((index) => {
        const own = coldFigure(series, name, index);
        const their = reference === undefined ? undefined : coldFigure(reference, name, index);
        return own === undefined || their === undefined ? undefined : own / their;
      });
    },
  };
}

function beforeWarmUp(value: (index: number) => number | undefined): string {
  const shown = [0, 1].map((index) => show(value(index)));
  return shown.every((cell) => cell === '') ? '' : shown.join(' / ');
}

/** The last columns of every table. */
export const COSTS: readonly Column[] = [
  one('cores in use', 'cores'),
  one('CPU us a half-step', 'cpuUs'),
  one('peak RSS MiB', 'rssMb'),
  one('loop delay p99 ms', 'loopP99'),
  most('loop delay max ms', 'loopMax'),
];

/** Load before each round. */
export const LOAD: Column = {
  title: 'load before each round',
  cell: ({ loads }) => loads.map((load) => load.toFixed(1)).join(' '),
};

/** A number, rounded to the digits that matter. */
export function show(value: number | undefined): string {
  if (value === undefined || !Number.isFinite(value)) return '';
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en-US');
  return value.toFixed(Math.abs(value) >= 10 ? 1 : 2);
}

/** A size below this many KiB counts as nothing, since a process may hold less memory afterwards than before. */
const SMALLEST_KIB = 0.1;

/** A size for people, marked if it is too small to measure. */
export function showKib(kib: number): string {
  return kib < SMALLEST_KIB ? `< ${SMALLEST_KIB}` : show(kib);
}
