/**
 * The spans of the time line and their stretches. A stretch is a time in which a span waited or worked; stretches
 * follow one another.
 */
import { STRETCHES_MAX } from '../bounds.ts';

/**
 * The kind of a stretch. `unseen`: the span existed, but the log does not say whether it waited or worked.
 */
export type StretchKind = 'wait' | 'work' | 'unseen';

/** One stretch; epoch ms. Without `to` it is still open. */
export interface Stretch {
  readonly kind: StretchKind;
  readonly from: number;
  to: number | undefined;
}

/** The outcome of a span; `open`: it has not ended. */
export type Outcome = 'open' | 'done' | 'failed' | 'cancelled';

/** A half-step, a tool call, or a child. */
export interface Span {
  /** Unique in the time line. */
  readonly key: string;
  readonly kind: 'half-step' | 'tool' | 'child';
  readonly label: string;
  /** The turn in which the span began; 0 outside a turn. */
  readonly turn: number;
  readonly stretches: readonly Stretch[];
  readonly outcome: Outcome;
  /** A short note, such as tokens, attempts, or how the span ended. */
  readonly note: string;
  /** The child's id; undefined for other spans. */
  readonly session: string | undefined;
}

/** A span that the time line may still change. */
export interface OpenSpan extends Span {
  readonly stretches: Stretch[];
  outcome: Outcome;
  note: string;
}
/** Ends a span. */
export function close(span: OpenSpan, at: number, outcome: Outcome): void {
  endLast(span, at);
  span.outcome = outcome;
}

/** Ends the last stretch, and removes stretches that would begin later. */
export function endLast(span: OpenSpan, at: number): void {
  while (span.stretches.length > 1 && (span.stretches.at(-1)?.from ?? at) > at) span.stretches.pop();
  const last = span.stretches.at(-1);
  if (last !== undefined) last.to = Math.max(last.from, Math.min(last.to ?? at, at));
}

/** Begins a stretch of waiting or of work. */
export function turnTo(span: OpenSpan, kind: StretchKind, at: number): void {
  if (span.stretches.at(-1)?.kind === kind) return;
  endLast(span, at);
  const last = span.stretches.at(-1);
  // The stretch is removed, because a stretch without duration would still be drawn.
  if (last !== undefined && last.to === last.from) span.stretches.pop();
  push(span, { kind, from: at, to: undefined });
}

/** Adds a stretch. Beyond the bound, the two oldest stretches become one `unseen` stretch. */
export function push(span: OpenSpan, stretch: Stretch): void {
  span.stretches.push(stretch);
  if (span.stretches.length <= STRETCHES_MAX) return;
  const [first, second] = span.stretches;
  if (first === undefined || second === undefined) return;
  span.stretches.splice(0, 2, { kind: 'unseen', from: first.from, to: second.to });
}
