/** Maps times to positions on a line. Long quiet times between work take little room: they are folded. Pure. */

/** An interval from `from` to `to`, epoch ms. */
export interface Interval {
  readonly from: number;
  readonly to: number;
}

/** One block of work on the line. `start` and `width` are fractions of the line's width. */
interface Block extends Interval {
  readonly start: number;
  readonly width: number;
}

/** A mark on the line. `isBreak`: a quiet time was folded directly before the mark. */
export interface Tick {
  readonly place: number;
  readonly label: string;
  readonly isBreak: boolean;
}

/** A scale: the position of a time from 0 to 1, and the marks. */
export interface TimeScale {
  readonly place: (at: number) => number;
  readonly ticks: readonly Tick[];
}

/** A quiet time is folded if it is longer than this fraction of all the work and longer than `QUIET_MS_MIN`. */
const QUIET_PART = 0.08;
const QUIET_MS_MIN = 500;
/** Width of a folded quiet time, as a fraction of the line's width. */
const FOLD_WIDTH = 0.015;
/** Maximum number of separate blocks. With more blocks, the folds between them would fill the whole line. */
const BLOCKS_MAX = 24;
/** Default minimum distance of two marks, as a fraction of the line's width, so that their labels fit. */
const TICK_DISTANCE = 0.09;

/**
 * Creates the scale of these intervals. They may overlap and come in any order. `clock` formats a time as the time of
 * day. `tickDistance` is the minimum distance of two marks, as a fraction of the line's width.
 */
export function timeScale(
  intervals: readonly Interval[],
  clock: (at: number) => string,
  tickDistance: number = TICK_DISTANCE,
): TimeScale {
  const blocks = layOut(foldQuiet(merge(intervals)));
  if (blocks.length === 0) return { place: () => 0, ticks: [] };
  return { place: (at) => placeOf(at, blocks), ticks: ticksOf(blocks, clock, tickDistance) };
}

/** Formats milliseconds for a time line. */
export function durationText(ms: number): string {
  if (ms < 1) return '0 ms';
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${trimmed(ms / 1_000)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.floor((ms % 60_000) / 1_000)} s`;
  return `${Math.floor(ms / 3_600_000)} h ${Math.floor((ms % 3_600_000) / 60_000)} min`;
}

function trimmed(value: number): string {
  return value.toFixed(value < 10 ? 2 : 1).replace(/\.?0+$/u, '');
}

function merge(intervals: readonly Interval[]): readonly Interval[] {
  const merged: { from: number; to: number }[] = [];
  for (const { from, to } of [...intervals].sort((a, b) => a.from - b.from)) {
    const last = merged.at(-1);
    if (last !== undefined && from <= last.to) last.to = Math.max(last.to, to);
    else merged.push({ from, to: Math.max(from, to) });
  }
  return merged;
}

/**
 * Joins intervals that only a short quiet time separates. If more than `BLOCKS_MAX` blocks remain, also joins across
 * longer quiet times, the shortest first.
 */
function foldQuiet(merged: readonly Interval[]): readonly Interval[] {
  const busy = merged.reduce((sum, { from, to }) => sum + (to - from), 0);
  const gaps = merged.slice(1).map((interval, index) => interval.from - (merged[index]?.to ?? interval.from));
  const longest = [...gaps].sort((a, b) => b - a)[BLOCKS_MAX - 1] ?? 0;
  const quiet = Math.max(QUIET_MS_MIN, busy * QUIET_PART, longest);
  const blocks: { from: number; to: number }[] = [];
  for (const [index, { from, to }] of merged.entries()) {
    const last = blocks.at(-1);
    if (last !== undefined && (gaps[index - 1] ?? 0) <= quiet) last.to = to;
    else blocks.push({ from, to });
  }
  return blocks;
}

function layOut(intervals: readonly Interval[]): readonly Block[] {
  const busy = intervals.reduce((sum, { from, to }) => sum + (to - from), 0);
  const room = 1 - FOLD_WIDTH * Math.max(0, intervals.length - 1);
  let start = 0;
  return intervals.map(({ from, to }) => {
    const width = busy === 0 ? room / intervals.length : ((to - from) / busy) * room;
    const block = { from, to, start, width };
    start += width + FOLD_WIDTH;
    return block;
  });
}

function placeOf(at: number, blocks: readonly Block[]): number {
  for (const { from, to, start, width } of blocks) {
    if (at < from) return Math.max(0, start - FOLD_WIDTH / 2);
    if (at <= to) return start + (to === from ? 0 : ((at - from) / (to - from)) * width);
  }
  return 1;
}

function ticksOf(blocks: readonly Block[], clock: (at: number) => string, distance: number): readonly Tick[] {
  const busy = blocks.reduce((sum, { from, to }) => sum + (to - from), 0);
  const step = niceStep(busy * Math.max(0.2, distance));
  const ticks: Tick[] = [];
  const add = (place: number, label: string, isBreak: boolean): void => {
    const last = ticks.at(-1);
    if (last !== undefined && place - last.place < distance) return;
    // The last label must not extend beyond the end of the line.
    if (place > 0 && place > 1 - distance / 2) return;
    ticks.push({ place, label, isBreak });
  };
  for (const [index, { from, to, start, width }] of blocks.entries()) {
    add(start, clock(from), index > 0);
    for (let offset = step; offset < to - from; offset += step) {
      add(start + (offset / (to - from)) * width, `+${durationText(offset)}`, false);
    }
  }
  return ticks;
}

/** The step between two marks: 1, 2 or 5 times a power of ten, at least `ms`. */
function niceStep(ms: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, ms)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= ms) ?? power * 10;
}
