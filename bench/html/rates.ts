/** W1, W2 and W3 side by side: bars of all systems. */
import { axisX, axisY, barX, dot, gridX, ruleY, text } from '@observablehq/plot';
import { coldFigure, figure, type Series, seriesOf, values } from '../report/columns.ts';
import type { ResultsFile, WorkloadResult } from '../report/results-file.ts';
import type { Panel } from './panel.ts';
import { EVERY_LABEL, label, linearDomain, logDomain, logTicks, tick } from './scales.ts';
import { svgOf } from './svg.ts';
import { systemColor, systemName, systemRank } from './systems.ts';

const WORKLOADS = ['W1', 'W2', 'W3'];
const WIDTH = 352;
const ROW = 42;
/** Figures this many times apart are drawn on a logarithmic axis. */
const LOG_FROM = 12;

/** See the head of the file. */
export function ratesPanel({ workloads }: ResultsFile): Panel {
  const found = WORKLOADS.flatMap((name) => workloads.filter(({ workload }) => workload === name));
  return {
    title:
      'Throughput of troupe, of a hand-written durable loop, and of the kernel, which is the limit of one thread and the disk',
    reading:
      'Bars are medians after a warm-up, the thin line is the smallest to the largest repetition. The ring is the first repetition of a new process (cold). In every system but the kernel in memory, a message is durable before anything depends on it. The kernel only keeps rows: it has no schema, no recovery and no supervision.',
    isFull: true,
    draw: found.length === 0 ? undefined : () => found.map(bars),
  };
}

interface Bar {
  readonly name: string;
  readonly color: string;
  readonly rate: number;
  readonly low: number;
  readonly high: number;
  /** The first repetition of a process; missing in runs that made none before the warm-up. */
  readonly cold: number | undefined;
  readonly label: string;
}

function bars(result: WorkloadResult): string {
  const all = seriesOf(result).toSorted((a, b) => systemRank(a.system) - systemRank(b.system));
  const loop = all.find(({ system }) => system === 'loop');
  const loopRate = loop === undefined ? undefined : figure(loop, 'rate');
  const rows = all.flatMap((series) => barOf(series, loopRate));
  const extremes = rows.flatMap(({ low, high, cold = low }) => [low, high, cold]);
  const isLog = Math.max(...extremes) > LOG_FROM * Math.min(...extremes);
  const [least, most] = isLog ? logDomain(extremes) : linearDomain(extremes);
  const ticks = isLog ? logTicks([least, most]) : [];
  return svgOf(`${result.title}, ${result.unit}`, {
    width: WIDTH,
    height: 58 + ROW * rows.length,
    marginTop: 24,
    marginBottom: 34,
    marginLeft: 116,
    marginRight: 40,
    x: { type: isLog ? 'log' : 'linear', domain: [least, most] },
    y: { domain: rows.map(({ name }) => name), padding: 0.58 },
    marks: [
      isLog ? gridX(ticks) : gridX({ ticks: 4 }),
      axisX(isLog ? ticks : undefined, {
        ...(isLog ? EVERY_LABEL : { ticks: 4 }),
        tickFormat: tick,
        tickSize: 0,
        label: `${result.workload}: ${result.unit}${isLog ? ', log scale' : ''}`,
        labelArrow: 'none',
        labelAnchor: 'center',
      }),
      axisY({ label: null, tickSize: 0 }),
      barX(rows, { x1: () => least, x2: 'rate', y: 'name', fill: 'color', rx2: 2 }),
      ruleY(rows, { x1: 'low', x2: 'high', y: 'name', stroke: 'currentColor', strokeOpacity: 0.65 }),
      dot(
        rows.filter(({ cold }) => cold !== undefined),
        { x: 'cold', y: 'name', r: 4, fill: 'var(--card)', stroke: 'currentColor', strokeWidth: 1.5 },
      ),
      text(rows, {
        x: () => least,
        y: 'name',
        text: 'label',
        textAnchor: 'start',
        dx: 4,
        dy: -17,
        fill: 'currentColor',
      }),
    ],
  });
}

function barOf(series: Series, loopRate: number | undefined): readonly Bar[] {
  const rate = figure(series, 'rate');
  if (rate === undefined) return [];
  const all = values(series, 'rate');
  const times = loopRate === undefined || series.system === 'loop' ? '' : `, ${label(rate / loopRate)} x loop`;
  const cold = coldFigure(series, 'rate', 0);
  const atStart = cold === undefined ? '' : `, cold ${label(cold)}`;
  return [
    {
      name: systemName(series.system),
      color: systemColor(series.system),
      rate,
      low: Math.min(...all),
      high: Math.max(...all),
      cold,
      label: `${label(rate)}${times}${atStart}`,
    },
  ];
}
