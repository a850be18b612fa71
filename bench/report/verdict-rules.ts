/** Compares figures with bounds. */
import { figure, type Series, seriesOf, show, values } from './columns.ts';
import type { VerdictResult, WorkloadResult } from './results-file.ts';

/** The place of a figure: its system, workload and variant. */
export interface Place {
  readonly workload: string;
  readonly system: string;
  readonly variant?: string;
}

/** The bound of a figure: `least` or `most`, in `unit`. */
export interface Bound {
  readonly id: string;
  readonly target: string;
  readonly least?: number;
  readonly most?: number;
  readonly unit: string;
}

/** Looks up figures of one run. */
export class Measured {
  readonly #workloads: readonly WorkloadResult[];

  constructor(workloads: readonly WorkloadResult[]) {
    this.#workloads = workloads;
  }

  /** The median of a figure; `undefined` when this run did not measure it. */
  figure(place: Place, name = 'rate'): number | undefined {
    const series = this.#find(place);
    return series === undefined ? undefined : figure(series, name);
  }

  /** The largest of a figure over all repetitions. */
  largest(place: Place, name: string): number | undefined {
    const series = this.#find(place);
    const all = series === undefined ? [] : values(series, name);
    return all.length === 0 ? undefined : Math.max(...all);
  }

  /** The smallest and the largest of a figure over all repetitions, as a text; '' when this run did not measure it. */
  range(place: Place, name: string): string {
    const series = this.#find(place);
    const all = series === undefined ? [] : values(series, name);
    return all.length === 0 ? '' : `${show(Math.min(...all))} to ${show(Math.max(...all))}`;
  }

  /** One figure as a multiple of another. */
  ratio(own: Place, other: Place, name = 'rate'): number | undefined {
    const [mine, theirs] = [this.figure(own, name), this.figure(other, name)];
    return mine === undefined || theirs === undefined ? undefined : mine / theirs;
  }

  #find({ workload, system, variant = '' }: Place): Series | undefined {
    const result = this.#workloads.find((each) => each.workload === workload);
    if (result === undefined) return undefined;
    return seriesOf(result).find((series) => series.system === system && series.variant === variant);
  }
}

/** The verdict on a value; `open` if there is no value. The distance is 1 at the bound, and more on the good side. */
export function judge({ id, target, least, most, unit }: Bound, value: number | undefined): VerdictResult {
  if (value === undefined || Number.isNaN(value)) return open(id, target, 'not measured in this run');
  const distance = least === undefined ? (most ?? 0) / value : value / least;
  const holds = (least === undefined || value >= least) && (most === undefined || value <= most);
  // A value of zero or less has no distance, because the distance divides by the value.
  const isMeaningful = Number.isFinite(distance) && distance >= 0;
  return {
    id,
    target,
    measured: `${show(value)} ${unit}`,
    outcome: holds ? 'holds' : 'fails',
    ...(isMeaningful ? { distance } : {}),
  };
}

/** A target that this run did not decide, with the reason. */
export function open(id: string, target: string, why: string): VerdictResult {
  return { id, target, measured: why, outcome: 'open' };
}
