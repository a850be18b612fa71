/** Columns of a table: what of the figures is shown, and how. */
import { median } from './figures.ts';
import type { RoundResult, WorkloadResult } from './results-file.ts';

/** Repetitions by round of one system and one variant. */
export interface Series {
  readonly system: string;
  readonly variant: string;
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
    return {
      system: first.system,
      variant,
      rounds: own.flatMap(({ rows }) =>
        rows.filter((row) => row.variant === variant).map(({ repetitions }) => repetitions),
      ),
      loads: own.map(({ load }) => load),
    };
  });
}

/** The median over rounds of the median over repetitions; `undefined` when nobody measured it. */
export function figure(series: Series, name: string): number | undefined {
  const medians = series.rounds
    .map((repetitions) => repetitions.flatMap((each) => each[name] ?? []))
    .filter((values) => values.length > 0)
    .map(median);
  return medians.length === 0 ? undefined : median(medians);
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

/** How many times another system's figure, of the same variant. */
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

/** How many times the figure of another variant, of the same system; with the digits that tell ratios near 1 apart. */
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

/** What every table ends with. */
export const COSTS: readonly Column[] = [
  one('cores', 'cores'),
  one('CPU us a half-step', 'cpuUs'),
  one('RSS MB', 'rssMb'),
  one('loop delay p99 ms', 'loopP99'),
  most('max', 'loopMax'),
];

/** Load before each round. */
export const LOAD: Column = {
  title: 'load',
  cell: ({ loads }) => loads.map((load) => load.toFixed(1)).join(' '),
};

/** A number with as many digits as mean something. */
export function show(value: number | undefined): string {
  if (value === undefined || !Number.isFinite(value)) return '';
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en-US');
  return value.toFixed(Math.abs(value) >= 10 ? 1 : 2);
}

/** KiB below which a size is not told from nothing: a process may hold less afterwards than before. */
const SMALLEST_KIB = 0.1;

/** A size for people; one that is too small to measure says so. */
export function showKib(kib: number): string {
  return kib < SMALLEST_KIB ? `< ${SMALLEST_KIB}` : show(kib);
}
