/** Spans of the time line, and how their stretches follow each other. */
import { STRETCHES_MAX } from '../bounds.ts';

/** `unseen`: it was there, and whether it waited or worked is not told by the log. */
export type StretchKind = 'wait' | 'work' | 'unseen';

/** One stretch; epoch ms. Without `to` it goes on. */
export interface Stretch {
  readonly kind: StretchKind;
  readonly from: number;
  to: number | undefined;
}

/** How a span ended, or that it goes on. */
export type Outcome = 'open' | 'done' | 'failed' | 'cancelled';

/** A half-step, a tool call, or a child. */
export interface Span {
  /** Unique in the time line. */
  readonly key: string;
  readonly kind: 'half-step' | 'tool' | 'child';
  readonly label: string;
  /** The turn it began in; 0 outside of one. */
  readonly turn: number;
  readonly stretches: readonly Stretch[];
  readonly outcome: Outcome;
  /** More, in a few words: tokens, attempts, how it ended. */
  readonly note: string;
  /** A child's id. */
  readonly session: string | undefined;
}

/** A span as the time line writes it. */
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

/** Ends the last stretch; one that was to begin later than that has not been. */
export function endLast(span: OpenSpan, at: number): void {
  while (span.stretches.length > 1 && (span.stretches.at(-1)?.from ?? at) > at) span.stretches.pop();
  const last = span.stretches.at(-1);
  if (last !== undefined) last.to = Math.max(last.from, Math.min(last.to ?? at, at));
}

/** From here on it waits, or works. */
export function turnTo(span: OpenSpan, kind: StretchKind, at: number): void {
  if (span.stretches.at(-1)?.kind === kind) return;
  endLast(span, at);
  const last = span.stretches.at(-1);
  // One that took no time would still be drawn.
  if (last !== undefined && last.to === last.from) span.stretches.pop();
  push(span, { kind, from: at, to: undefined });
}

/** Adds a stretch; of too many the two oldest become one that tells nothing. */
export function push(span: OpenSpan, stretch: Stretch): void {
  span.stretches.push(stretch);
  if (span.stretches.length <= STRETCHES_MAX) return;
  const [first, second] = span.stretches;
  if (first === undefined || second === undefined) return;
  span.stretches.splice(0, 2, { kind: 'unseen', from: first.from, to: second.to });
}
