/** Medians, quantiles, and the form of every measurement. */

/** The figures of one repetition by name: rates per second, times in ms, sizes in the unit of the name. */
export type Figures = Readonly<Record<string, number>>;

/** Repetitions of one variant of a workload (`''` where there is but one), in one process. */
export interface Row {
  readonly variant: string;
  /** The repetitions that the process made first, in order, before its warm-up; missing where none was made. */
  readonly cold?: readonly Figures[];
  /** The repetitions after the warm-up. */
  readonly repetitions: readonly Figures[];
}

/** The middle of some numbers; the mean of the two middle ones; NaN of none. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  const upper = sorted[Math.floor(middle)] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

/** The value below which a share of the sorted values lies; 0 of none. */
export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
}

/** Median and 99th percentile. */
export function latencies(times: readonly number[]): { readonly p50: number; readonly p99: number } {
  const sorted = [...times].sort((a, b) => a - b);
  return { p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99) };
}

export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/** 0 to `count` - 1. */
export function numbers(count: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => index);
}
