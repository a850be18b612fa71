/** One row of the time line: the text of a turn, or a bar for each stretch of a span. */
import type { JSX } from 'preact';
import type { Span, Stretch } from '../model/stretches.ts';
import type { Turn } from '../model/time-line.ts';
import { intervalOf, sumOf, type TimeRow } from '../model/time-line-rows.ts';
import { durationText, type TimeScale } from '../model/time-scale.ts';
import { clockText, countText } from '../model/wording.ts';

/** See the head of the file. `now`: epoch ms, the end of open spans. */
export function TimeLineRow(props: {
  readonly row: TimeRow;
  readonly scale: TimeScale;
  readonly now: number;
  readonly onSession: (id: string) => void;
}): JSX.Element {
  const { row, scale, now, onSession } = props;
  if (row.kind === 'turn') return <TurnRow turn={row.turn} waitMs={row.waitMs} workMs={row.workMs} now={now} />;
  if (row.kind === 'entry') {
    const { entry } = row;
    return (
      <>
        <span class="time-label">
          <span class="time-kind">mail</span> <span class="time-name">{entry.label}</span>
        </span>
        <span class="time-lane">
          <Bar
            stretch={{ kind: 'wait', from: entry.at, to: undefined }}
            scale={scale}
            now={now}
            isFailed={false}
            isOpen
          />
        </span>
        <span class="time-value">waits {durationText(Math.max(0, now - entry.at))}</span>
      </>
    );
  }
  const { span } = row;
  const sums = sumOf([span], now);
  const whole = intervalOf(span, now);
  const title = [
    span.label,
    `${durationText(whole.to - whole.from)} in all`,
    `waited ${durationText(sums.wait)}`,
    `worked ${durationText(sums.work)}`,
    span.note,
  ];
  return (
    <>
      <span class="time-label" title={title.filter((part) => part !== '').join(' · ')}>
        <span class="time-kind">{KIND_WORDS[span.kind]}</span>{' '}
        {span.session === undefined ? (
          <span class="time-name">{span.label}</span>
        ) : (
          <button type="button" class="link time-name" onClick={() => onSession(span.session ?? '')}>
            {span.label}
          </button>
        )}
        {span.note === '' ? null : <span class="time-note">{span.note}</span>}
      </span>
      <span class="time-lane">
        {drawnOf(span, scale, now).map((stretch, index) => (
          <Bar
            key={index}
            stretch={stretch}
            scale={scale}
            now={now}
            isFailed={span.outcome === 'failed'}
            isOpen={span.outcome === 'open'}
          />
        ))}
      </span>
      <span class={span.outcome === 'failed' || span.outcome === 'cancelled' ? 'time-value is-failed' : 'time-value'}>
        {valueText(span, whole.to - whole.from)}
      </span>
    </>
  );
}

/** The stretches that are wide enough to see; if no stretch is, only the longest. */
function drawnOf(span: Span, scale: TimeScale, now: number): readonly Stretch[] {
  const widthOf = ({ from, to }: Stretch): number => scale.place(Math.min(to ?? now, now)) - scale.place(from);
  const wide = span.stretches.filter((stretch) => widthOf(stretch) > NARROWEST || stretch.to === undefined);
  if (wide.length > 0) return wide;
  return [...span.stretches].sort((a, b) => widthOf(b) - widthOf(a)).slice(0, 1);
}

/** Minimum width of a visible stretch, as a fraction of the line's width: about two pixels. */
const NARROWEST = 0.004;

const KIND_WORDS: Readonly<Record<Span['kind'], string>> = { 'half-step': 'step', tool: 'tool', child: 'child' };

function TurnRow(props: {
  readonly turn: Turn;
  readonly waitMs: number;
  readonly workMs: number;
  readonly now: number;
}): JSX.Element {
  const { turn, waitMs, workMs, now } = props;
  const end =
    turn.outcome === 'open' ? 'goes on' : turn.outcome === 'done' ? turn.reason.replaceAll('_', ' ') : turn.outcome;
  return (
    <p class="time-turn-text" title={turn.outcome === 'failed' ? turn.reason : undefined}>
      <b>Turn {turn.number}</b>
      <span>{clockText(turn.from)}</span>
      <span>{durationText((turn.to ?? now) - turn.from)}</span>
      <span class={turn.outcome === 'failed' ? 'is-failed' : ''}>{end}</span>
      <span class="wide-only">worked {durationText(workMs)}</span>
      <span class="wide-only">waited {durationText(waitMs)}</span>
      {turn.tokens > 0 ? <span class="wide-only">{countText(turn.tokens)} tokens</span> : null}
    </p>
  );
}

function Bar(props: {
  readonly stretch: Stretch;
  readonly scale: TimeScale;
  readonly now: number;
  readonly isFailed: boolean;
  readonly isOpen: boolean;
}): JSX.Element | null {
  const { stretch, scale, now, isFailed, isOpen } = props;
  if (stretch.from > now) return null;
  const to = Math.min(stretch.to ?? now, now);
  const left = scale.place(stretch.from);
  const width = Math.max(0, scale.place(to) - left);
  const names = ['bar', `bar-${stretch.kind}`];
  if (isFailed) names.push('is-failed');
  if (isOpen && stretch.to === undefined) names.push('is-open');
  return (
    <i
      class={names.join(' ')}
      style={{ left: percent(left), width: percent(width) }}
      title={`${WORDS[stretch.kind]} ${durationText(to - stretch.from)}`}
    />
  );
}

const WORDS: Readonly<Record<Stretch['kind'], string>> = { wait: 'waited', work: 'worked', unseen: 'there for' };

function valueText(span: Span, ms: number): string {
  if (span.outcome === 'failed') return `failed ${durationText(ms)}`;
  if (span.outcome === 'cancelled') return `cancelled`;
  return span.outcome === 'open' ? `${durationText(ms)} …` : durationText(ms);
}

/** Formats a fraction of the line's width. */
export function percent(fraction: number): string {
  return `${(fraction * 100).toFixed(3)}%`;
}
