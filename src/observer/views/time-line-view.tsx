/**
 * Shows the times at which the session waited and worked: a row for each half-step, tool call and child, over one time
 * scale.
 */
import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { type TimeRange, type TimeRow, timeRows } from '../model/time-line-rows.ts';
import { durationText, type TimeScale, timeScale } from '../model/time-scale.ts';
import { virtualWindow } from '../model/virtual-window.ts';
import { clockText, countOf } from '../model/wording.ts';
import type { ChosenSession } from '../state/chosen-session.ts';
import { percent, TimeLineRow } from './time-line-row.tsx';
import { NARROW, useFrame, useMedia, useNow } from './virtual-frame.ts';

const RANGES: readonly { readonly range: TimeRange; readonly word: string }[] = [
  { range: 'turn', word: 'Last turn' },
  { range: 'ten', word: 'Last ten' },
  { range: 'all', word: 'All' },
];
/** Milliseconds between two drawings of open spans. `CALM_MS` applies when the person prefers reduced motion. */
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
  const now = Math.max(timeLine.newestAt, useNow(isCalm ? CALM_MS : MOVE_MS, timeLine.isMoving));
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
          <span class="legend-item" title="The log shows when it existed, not what it did">
            <i class="bar bar-unseen" /> not known
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

/** The parts of the session's past that the time line does not have. */
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
  const unread = rows.slice(drawn.first, drawn.end).flatMap((row) => {
    if (row.kind !== 'span' || row.span.session === undefined) return [];
    return row.span.stretches.some(({ kind }) => kind === 'unseen') ? [row.span.session] : [];
  });
  const unreadKey = unread.join(' ');
  useEffect(() => {
    chosen.histories.want(unreadKey === '' ? [] : unreadKey.split(' '));
  }, [chosen, unreadKey]);
  const wasAtEnd = useRef(true);
  const element = frame.current;
  // Follows the end while the view is at the end, as a log does.
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
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable by keyboard
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
                <TimeLineRow row={row} scale={scale} now={now} onSession={onSession} />
              </li>
            ))}
          </ol>
        </div>
      </section>
    </>
  );
}
