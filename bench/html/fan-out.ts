/** Draws one fan-out over time, with one row for each child. */
import { axisX, axisY, barX, gridX, ruleX } from '@observablehq/plot';
import type { ResultsFile } from '../report/results-file.ts';
import type { FanOutResult, FanOutSpan } from './fan-out-result.ts';
import type { Panel } from './panel.ts';
import { tick } from './scales.ts';
import { svgOf } from './svg.ts';

const ROW = 8;
const STATES: readonly { readonly state: FanOutSpan['state']; readonly name: string; readonly color: string }[] = [
  { state: 'queued', name: 'queued', color: 'var(--queued)' },
  { state: 'model', name: 'waits for the model', color: 'var(--waiting)' },
  { state: 'tool', name: 'its tool runs, hand-over and flush included', color: 'var(--working)' },
];

/** See the head of the file. */
export function fanOutPanel({ fanOut }: ResultsFile): Panel {
  return {
    title: 'A fan-out over time: waiting and working children',
    reading: fanOut === undefined ? '' : readingOf(fanOut),
    legend: STATES.map(({ name, color }) => ({ name, color })),
    isFull: true,
    draw: fanOut === undefined ? undefined : (width) => [fanOutSvg(fanOut, width)],
  };
}

function readingOf({ children, liveSessions, modelMs, toolMs, spans }: FanOutResult): string {
  const total = (state: FanOutSpan['state']): number =>
    spans.filter((span) => span.state === state).reduce((sum, { fromMs, toMs }) => sum + toMs - fromMs, 0);
  const endMs = Math.max(...spans.map(({ toMs }) => toMs));
  const inARow = (total('model') + total('tool')) / 1_000;
  return `One parent, ${children} children, ${liveSessions} live at a time (a limit set for the drawing). The model takes ${modelMs.join(' to ')} ms a call, the tool ${toolMs.join(' to ')} ms on a thread for each. The run took ${(endMs / 1_000).toFixed(2)} s; one child after another would have taken ${inARow.toFixed(1)} s. The times are those of the runtime's events, in whole milliseconds.`;
}

function fanOutSvg({ children, spans }: FanOutResult, width: number): string {
  const endMs = Math.max(...spans.map(({ toMs }) => toMs));
  const rows = spans.map((span) => ({ ...span, color: STATES.find(({ state }) => state === span.state)?.color }));
  return svgOf('A fan-out over time', {
    width,
    height: 50 + ROW * children,
    marginTop: 6,
    marginBottom: 40,
    marginLeft: 44,
    marginRight: 16,
    x: { domain: [0, endMs] },
    y: { type: 'band', domain: Array.from({ length: children }, (_, index) => index + 1), padding: 0.2 },
    marks: [
      gridX({ ticks: 6 }),
      axisX({
        ticks: width > 500 ? 10 : 5,
        tickFormat: tick,
        label: 'ms since the spawn',
        labelArrow: 'none',
        labelAnchor: 'center',
        tickSize: 4,
      }),
      axisY({
        ticks: Array.from({ length: children }, (_, index) => index + 1).filter(
          (child) => child === 1 || child % 10 === 0,
        ),
        label: 'child',
        labelArrow: 'none',
        labelAnchor: 'center',
        tickSize: 0,
      }),
      barX(rows, { x1: 'fromMs', x2: 'toMs', y: 'child', fill: 'color' }),
      ruleX([endMs], { stroke: 'currentColor', strokeOpacity: 0.4, strokeDasharray: '3,3' }),
    ],
  });
}
