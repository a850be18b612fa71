/** Medians, quantiles, and the form of every measurement. */

/** The figures of one repetition by name: rates per second, times in ms, sizes in the unit of the name. */
export type Figures = Readonly<Record<string, number>>;

/** Repetitions of one variant of a workload (`''` if there is only one), in one process. */
export interface Row {
  readonly variant: string;
  /** The repetitions that the process made before its warm-up, in order; missing if it made none. */
  readonly cold?: readonly Figures[];
  /** The repetitions after the warm-up. */
  readonly repetitions: readonly Figures[];
}

/** The median of some numbers, or the mean of the two middle ones; NaN without numbers. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  const upper = sorted[Math.floor(middle)] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

/** The value below which a share of the sorted values lies; 0 without values. */
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
