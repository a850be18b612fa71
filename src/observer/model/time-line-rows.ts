/** The rows of a time line: its turns and their contents, over the chosen range. Pure. */
import { WAITING_ROWS_MAX } from '../bounds.ts';
import type { Span } from './stretches.ts';
import type { TimeLine, Turn, WaitingEntry } from './time-line.ts';
import type { Interval } from './time-scale.ts';

/** The range: the last turn, the last ten turns, or everything in memory. */
export type TimeRange = 'turn' | 'ten' | 'all';

/** One row. */
export type TimeRow =
  | {
      readonly kind: 'turn';
      readonly key: string;
      readonly turn: Turn;
      readonly waitMs: number;
      readonly workMs: number;
    }
  | { readonly kind: 'span'; readonly key: string; readonly span: Span }
  | { readonly kind: 'entry'; readonly key: string; readonly entry: WaitingEntry };

/** The rows from top to bottom. `intervals`: the busy times, from which the scale is made. */
export interface TimeRows {
  readonly rows: readonly TimeRow[];
  readonly intervals: readonly Interval[];
  /** Milliseconds in which half-steps and tools waited and worked, within the range. */
  readonly waitMs: number;
  readonly workMs: number;
}

const TURNS_OF: Readonly<Record<TimeRange, number>> = { turn: 1, ten: 10, all: Number.POSITIVE_INFINITY };

/** The rows of a range, newest turn last. `now`: epoch ms, the end of open spans. */
export function timeRows(line: TimeLine, range: TimeRange, now: number): TimeRows {
  const turns = line.turns.slice(-TURNS_OF[range]);
  const first = turns[0];
  const shown = new Set(turns.map((turn) => turn.number));
  const rows: TimeRow[] = [];
  const intervals: Interval[] = [];
  const sums = { wait: 0, work: 0 };
  const spansOf = groupByTurn(line.spans);
  const show = (span: Span): void => {
    rows.push({ kind: 'span', key: span.key, span });
    intervals.push(intervalOf(span, now));
  };
  // These spans began between turns, for example a child that a program spawned. A range shorter than `all` shows only
  // the spans that reach into the range.
  for (const span of spansOf.get(0) ?? []) {
    if (range === 'all' || first === undefined || intervalOf(span, now).to >= first.from) show(span);
  }
  for (const [number, spans] of spansOf) {
    if (number === 0 || shown.has(number)) continue;
    for (const span of spans) if (range !== 'all' && span.outcome === 'open') show(span);
  }
  for (const turn of turns) {
    const spans = spansOf.get(turn.number) ?? [];
    // Children are left out, because their work is not work of this session, and much of it is concurrent.
    const turnSums = sumOf(
      spans.filter(({ kind }) => kind !== 'child'),
      now,
    );
    sums.wait += turnSums.wait;
    sums.work += turnSums.work;
    rows.push({ kind: 'turn', key: `turn ${turn.number}`, turn, waitMs: turnSums.wait, workMs: turnSums.work });
    intervals.push({ from: turn.from, to: turn.to ?? now });
    spans.forEach(show);
  }
  for (const entry of line.waiting().slice(0, WAITING_ROWS_MAX)) {
    rows.push({ kind: 'entry', key: `entry ${entry.id}`, entry });
    intervals.push({ from: entry.at, to: now });
  }
  return { rows, intervals, waitMs: sums.wait, workMs: sums.work };
}

/** The interval of a span, from its first stretch to its last; an open span ends now. */
export function intervalOf(span: Span, now: number): Interval {
  const from = span.stretches[0]?.from ?? now;
  return { from, to: Math.max(from, span.stretches.at(-1)?.to ?? now) };
}

/** Milliseconds a span waited and worked. */
export function sumOf(spans: readonly Span[], now: number): { readonly wait: number; readonly work: number } {
  const sums = { wait: 0, work: 0, unseen: 0 };
  for (const span of spans) {
    for (const { kind, from, to } of span.stretches) sums[kind] += Math.max(0, Math.min(to ?? now, now) - from);
  }
  return sums;
}

function groupByTurn(spans: readonly Span[]): ReadonlyMap<number, readonly Span[]> {
  const groups = new Map<number, Span[]>();
  for (const span of spans) {
    const group = groups.get(span.turn);
    if (group === undefined) groups.set(span.turn, [span]);
    else group.push(span);
  }
  return groups;
}
