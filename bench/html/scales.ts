/** Axes and labels: logarithmic domains, their ticks, labels that do not overlap, and the form of numbers. */
import { show } from '../report/columns.ts';

/** The number of ticks for logarithmic axes with explicit ticks. With a finite number the library leaves labels out. */
export const EVERY_LABEL: { readonly ticks: number } = { ticks: Number.POSITIVE_INFINITY };
/** Pixels between the middles of two labels. */
const LABEL_GAP = 13;
/** With more decades the ticks are powers of ten alone. */
const MANY_DECADES = 2;

/**
 * A domain from the power of ten at or below the smallest value to a little above the largest, with room for labels.
 */
export function logDomain(values: readonly number[]): readonly [number, number] {
  return [10 ** Math.floor(Math.log10(Math.min(...values))), Math.max(...values) * 1.15];
}

/** A domain that begins at the next lower 1, 2 or 5 times a power of ten, for marks whose length has no meaning. */
export function closeLogDomain(values: readonly number[]): readonly [number, number] {
  const [least, most] = logDomain(values);
  const start = [5, 2, 1].map((step) => step * least).find((value) => value <= Math.min(...values));
  return [start ?? least, most];
}

/** A domain from zero to a little above the largest value. */
export function linearDomain(values: readonly number[]): readonly [number, number] {
  return [0, Math.max(...values) * 1.1];
}

/** Powers of ten in a domain; in a short domain also twice and five times these. */
export function logTicks([least, most]: readonly [number, number]): number[] {
  const [first, last] = [Math.floor(Math.log10(least)), Math.ceil(Math.log10(most))];
  const steps = last - first > MANY_DECADES ? [1] : [1, 2, 5];
  return Array.from({ length: last - first + 1 }, (_, index) => 10 ** (first + index))
    .flatMap((power) => steps.map((step) => step * power))
    .filter((tick) => tick >= least * 0.999 && tick <= most);
}

/** A number on an axis. */
export function tick(value: number): string {
  return value.toLocaleString('en-US', { maximumSignificantDigits: 3 });
}

/** The short form of a number for narrow space: `10k`. */
export function shortTick(value: number): string {
  return value >= 10_000 ? `${tick(value / 1_000)}k` : tick(value);
}

/** A figure beside its mark. */
export function label(value: number): string {
  return show(value);
}

/** An axis on which values stand. */
export interface Axis {
  readonly domain: readonly [number, number];
  readonly isLog: boolean;
  /** Pixels from one end to the other. */
  readonly length: number;
}

/** Computes positions of labels in the units of the axis: each near its value, and no label over another. */
export function spreadLabels(values: readonly number[], { domain, isLog, length }: Axis): readonly number[] {
  const scale = isLog ? Math.log10 : (value: number): number => value;
  const [low, high] = [scale(domain[0]), scale(domain[1])];
  const inPixels = values.map((value, index) => ({ index, at: ((scale(value) - low) / (high - low)) * length }));
  const sorted = inPixels.toSorted((a, b) => a.at - b.at);
  for (const [place, each] of sorted.entries()) {
    const below = sorted[place - 1];
    if (below !== undefined) each.at = Math.max(each.at, below.at + LABEL_GAP);
  }
  // Labels that were pushed above the top are pushed down again, with their neighbours.
  for (const [place, each] of sorted.toReversed().entries()) {
    const above = place === 0 ? undefined : sorted[sorted.length - place];
    each.at = Math.min(each.at, above === undefined ? length : above.at - LABEL_GAP);
  }
  const places: number[] = [];
  for (const { index, at } of sorted) {
    const value = low + (at / length) * (high - low);
    places[index] = isLog ? 10 ** value : value;
  }
  return places;
}
