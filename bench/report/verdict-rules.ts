/** Reads figures of a run and compares them with targets. */

import { figure, type Series, seriesOf, show, values } from './columns.ts';
import type { VerdictResult, WorkloadResult } from './results-file.ts';

/** Repetitions that a target wants; a verdict on fewer says so. */
export const REPETITIONS_LEAST = 3;
/** The place of a figure: its system, workload and variant. */
export interface Place {
  readonly workload: string;
  readonly system: string;
  readonly variant?: string;
}

/** A figure that a target names: its median, or the largest of all repetitions. */
export interface Quantity {
  readonly place: Place;
  readonly name: string;
  readonly isLargest?: boolean;
}

/** One target. It has one bound: `least` or `most`, in `unit`. */
export interface Target {
  readonly id: string;
  readonly target: string;
  readonly least?: number;
  readonly most?: number;
  readonly unit: string;
  /** The command that measures the target; missing if none does. */
  readonly command?: string;
  /** The figure of this benchmark; missing if it has none, or none that counts under the conditions of the run. */
  readonly figure?: Quantity;
  /** The figure that `figure` is divided by. */
  readonly per?: Quantity;
  /** Converts the figure to `unit`; default 1. */
  readonly factor?: number;
  /** Decimals of the measured value; if missing, as many as its size suggests. */
  readonly digits?: number;
  /** A remark on the measured value; `''` for none. */
  readonly remark?: (measured: Measured) => string;
  /** The reason why the target fails whatever the value is; `undefined` if there is none. */
  readonly failure?: (measured: Measured) => string | undefined;
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

  /** The value of a quantity; `undefined` when this run did not measure it. */
  value({ place, name, isLargest = false }: Quantity): number | undefined {
    return isLargest ? this.largest(place, name) : this.figure(place, name);
  }

  /** The repetitions that measured a figure, over all rounds. */
  repetitions(place: Place, name: string): number {
    const series = this.#find(place);
    return series === undefined ? 0 : values(series, name).length;
  }

  #find({ workload, system, variant = '' }: Place): Series | undefined {
    const result = this.#workloads.find((each) => each.workload === workload);
    if (result === undefined) return undefined;
    return seriesOf(result).find((series) => series.system === system && series.variant === variant);
  }
}

/**
 * The verdict on a target; `open` if this run did not measure it. The distance is 1 at the bound, and more on the good
 * side.
 */
export function judge(target: Target, measured: Measured): VerdictResult {
  const { id, least, most, unit, failure } = target;
  const reason = failure?.(measured);
  if (reason !== undefined) return { id, target: target.target, measured: reason, outcome: 'fails' };
  const value = measuredValue(target, measured);
  if (value === undefined || Number.isNaN(value)) return open(target);
  const distance = least === undefined ? (most ?? 0) / value : value / least;
  const holds = (least === undefined || value >= least) && (most === undefined || value <= most);
  const remarks = remarksOn(target, measured);
  // A value of zero or less has no distance, because the distance divides by the value.
  const isMeaningful = Number.isFinite(distance) && distance >= 0;
  return {
    id,
    target: target.target,
    measured: `${shown(value, target.digits)} ${unit}${remarks.length === 0 ? '' : ` (${remarks.join('; ')})`}`,
    outcome: holds ? 'holds' : 'fails',
    ...(isMeaningful ? { distance } : {}),
  };
}

/** The verdict on a target that this run did not measure: the command that measures it, if there is one. */
function open({ id, target, command }: Target): VerdictResult {
  const measured = command === undefined ? 'no command measures it yet' : `not in this run: \`${command}\``;
  return { id, target, measured, outcome: 'open' };
}

function measuredValue({ figure: quantity, per, factor = 1 }: Target, measured: Measured): number | undefined {
  if (quantity === undefined) return undefined;
  const [own, other] = [measured.value(quantity), per === undefined ? 1 : measured.value(per)];
  return own === undefined || other === undefined ? undefined : (own / other) * factor;
}

function remarksOn({ figure: quantity, per, remark }: Target, measured: Measured): readonly string[] {
  const counts = [quantity, per].flatMap((each) =>
    each === undefined ? [] : [measured.repetitions(each.place, each.name)],
  );
  const least = Math.min(...counts);
  const few = least < REPETITIONS_LEAST ? `only ${least} ${least === 1 ? 'repetition' : 'repetitions'}` : '';
  return [remark?.(measured) ?? '', few].filter((text) => text !== '');
}

function shown(value: number, digits: number | undefined): string {
  return digits === undefined ? show(value) : value.toFixed(digits);
}
