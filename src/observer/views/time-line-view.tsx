/** When the session waited and when it worked: a row for each half-step, tool call and child, on one line of time. */
import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Span, Stretch, Turn } from '../model/time-line.ts';
import { intervalOf, sumOf, type TimeRange, type TimeRow, timeRows } from '../model/time-line-rows.ts';
import { durationText, type TimeScale, timeScale } from '../model/time-scale.ts';
import { virtualWindow } from '../model/virtual-window.ts';
import { clockText, countOf, countText } from '../model/wording.ts';
import type { ChosenSession } from '../state/chosen-session.ts';
import { NARROW, useFrame, useMedia, useNow } from './virtual-frame.ts';

const RANGES: readonly { readonly range: TimeRange; readonly word: string }[] = [
  { range: 'turn', word: 'Last turn' },
  { range: 'ten', word: 'Last ten' },
  { range: 'all', word: 'All' },
];
/** Milliseconds between two drawings of what goes on; where motion is not wanted, a second. */
const MOVE_MS = 200;
const CALM_MS = 1_000;

/** See the head of the file. */
export function TimeLineView(props: {
  readonly chosen: ChosenSession;
  readonly onSession: (id: string) => void;
}): JSX.Element {
  const { chosen, onSession } = props;
  const version = chosen.version.value;
  const { timeLine } = chosen;
  const [range, setRange] = useState<TimeRange>('ten');
  const isCalm = useMedia('(prefers-reduced-motion: reduce)');
  const now = useNow(isCalm ? CALM_MS : MOVE_MS, timeLine.isMoving);
  const shown = useMemo(() => timeRows(timeLine, range, now), [timeLine, timeLine.version, version, range, now]);
  const isNarrow = useMedia(NARROW);
  const scale = useMemo(() => timeScale(shown.intervals, clockText, isNarrow ? 0.34 : 0.1), [shown, isNarrow]);
  return (
    <div class="time-frame">
      <div class="time-tools">
        <fieldset class="choice">
          <legend class="unseen">How much of the time line</legend>
          {RANGES.map((each) => (
            <button
              key={each.range}
              type="button"
              aria-pressed={each.range === range}
              onClick={() => setRange(each.range)}
            >
              {each.word}
            </button>
          ))}
        </fieldset>
        <p class="legend">
          <span class="legend-item">
            <i class="bar bar-work" /> works
          </span>
          <span class="legend-item">
            <i class="bar bar-wait" /> waits
          </span>
          <span class="legend-item" title="The log tells when it was there, not what it did meanwhile">
            <i class="bar bar-unseen" /> not told
          </span>
        </p>
        <p class="time-sum" role="status">
          {shown.rows.length === 0 ? '' : `worked ${durationText(shown.workMs)}, waited ${durationText(shown.waitMs)}`}
        </p>
      </div>
      <Missed chosen={chosen} />
      {shown.rows.length === 0 ? (
        <div class="empty">
          <p class="empty-title">Nothing has happened yet</p>
          <p>Half-steps, tool calls and children appear here as they begin.</p>
        </div>
      ) : (
        <TimeTable chosen={chosen} rows={shown.rows} scale={scale} now={now} onSession={onSession} />
      )}
    </div>
  );
}

/** What the time line does not hold. */
function Missed({ chosen }: { readonly chosen: ChosenSession }): JSX.Element | null {
  const parts: string[] = [];
  if (chosen.replayedAfter.value > 0)
    parts.push(`begins at event ${(chosen.replayedAfter.value + 1).toLocaleString('en')}`);
  if (chosen.timeLine.left > 0) parts.push(`${countOf(chosen.timeLine.left, 'older row')} left`);
  if (chosen.missed.value > 0) parts.push(`${countOf(chosen.missed.value, 'event')} missed`);
  return parts.length === 0 ? null : <p class="time-missed">The time line {parts.join(', ')}.</p>;
}

function TimeTable(props: {
  readonly chosen: ChosenSession;
  readonly rows: readonly TimeRow[];
  readonly scale: TimeScale;
  readonly now: number;
  readonly onSession: (id: string) => void;
}): JSX.Element {
  const { chosen, rows, scale, now, onSession } = props;
  const rowPx = useMedia(NARROW) ? 34 : 24;
  const { frame, position } = useFrame<HTMLElement>();
  const drawn = virtualWindow({ count: rows.length, rowPx, ...position });
  const untold = rows.slice(drawn.first, drawn.end).flatMap((row) => {
    if (row.kind !== 'span' || row.span.session === undefined) return [];
    return row.span.stretches.some(({ kind }) => kind === 'unseen') ? [row.span.session] : [];
  });
  const untoldKey = untold.join(' ');
  useEffect(() => {
    chosen.histories.want(untoldKey === '' ? [] : untoldKey.split(' '));
  }, [chosen, untoldKey]);
  const wasAtEnd = useRef(true);
  const element = frame.current;
  // Follows the end while one is there, as a log does.
  if (element !== null && wasAtEnd.current) {
    queueMicrotask(() => {
      element.scrollTop = element.scrollHeight;
    });
  }
  return (
    <>
      <div class="time-axis" aria-hidden="true">
        <div class="time-lane">
          {scale.ticks.map((tick) => (
            <span
              key={tick.place}
              class={tick.isBreak ? 'tick is-break' : 'tick'}
              style={{ left: percent(tick.place) }}
            >
              {tick.label}
            </span>
          ))}
        </div>
      </div>
      <section
        class="time-scroll"
        ref={frame}
        aria-label="Time line"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keys
        tabIndex={0}
        onScroll={(event) => {
          const { scrollHeight, scrollTop, clientHeight } = event.currentTarget;
          wasAtEnd.current = scrollHeight - scrollTop - clientHeight < rowPx * 2;
        }}
      >
        <div class="time-rows" style={{ height: `${drawn.heightPx}px` }}>
          <div class="time-grid" aria-hidden="true">
            {scale.ticks.map((tick) => (
              <i key={tick.place} class={tick.isBreak ? 'is-break' : ''} style={{ left: percent(tick.place) }} />
            ))}
          </div>
          <ol>
            {rows.slice(drawn.first, drawn.end).map((row, index) => (
              <li
                key={row.key}
                class={`time-row time-${row.kind}`}
                style={{ transform: `translateY(${(drawn.first + index) * rowPx}px)` }}
              >
                <RowContent row={row} scale={scale} now={now} onSession={onSession} />
              </li>
            ))}
          </ol>
        </div>
      </section>
    </>
  );
}

function RowContent(props: {
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

/** The stretches wide enough to be told apart; of a span that is all too short, the longest. */
function drawnOf(span: Span, scale: TimeScale, now: number): readonly Stretch[] {
  const widthOf = ({ from, to }: Stretch): number => scale.place(Math.min(to ?? now, now)) - scale.place(from);
  const wide = span.stretches.filter((stretch) => widthOf(stretch) > NARROWEST || stretch.to === undefined);
  if (wide.length > 0) return wide;
  return [...span.stretches].sort((a, b) => widthOf(b) - widthOf(a)).slice(0, 1);
}

/** Part of the line's width: about two pixels. */
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

function percent(fraction: number): string {
  return `${(fraction * 100).toFixed(3)}%`;
}
