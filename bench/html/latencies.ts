/** Draws latencies: median and 99th percentile of turns and of single messages. */
import { axisX, axisY, dot, gridX, link, text } from '@observablehq/plot';
import { figure, type Series, seriesOf } from '../report/columns.ts';
import type { ResultsFile } from '../report/results-file.ts';
import { type Panel, WIDTHS } from './panel.ts';
import { EVERY_LABEL, label, logTicks, tick } from './scales.ts';
import { svgOf } from './svg.ts';
import { systemColor, systemName, systemRank } from './systems.ts';

/** One row: a variant of a workload, and the names of its two figures. */
const DRAWN: readonly {
  readonly workload: string;
  readonly variant: string;
  readonly title: string;
  readonly figures: readonly [p50: string, p99: string];
}[] = [
  { workload: 'W1', variant: '', title: 'W1: a turn, alone', figures: ['p50', 'p99'] },
  { workload: 'W2', variant: '', title: 'W2: a turn of 1,000', figures: ['p50', 'p99'] },
  ...['quiet', 'full drain'].flatMap((variant) => [
    { workload: 'W7', variant, title: `send to receipt, ${variant}`, figures: ['receiptP50', 'receiptP99'] as const },
    { workload: 'W7', variant, title: `send to model, ${variant}`, figures: ['callP50', 'callP99'] as const },
    { workload: 'W7', variant, title: `steer, ${variant}`, figures: ['steerP50', 'steerP99'] as const },
  ]),
];
const SYSTEMS: ReadonlySet<string> = new Set(['isolated', 'inline', 'loop', 'kernel']);
const ROW = 17;
/** Blank rows between groups. */
const APART = 1;

interface Row {
  readonly title: string;
  readonly system: string;
  readonly color: string;
  readonly p50: number;
  readonly p99: number;
  readonly place: number;
}

/** See the head of the file. */
export function latencyPanel(file: ResultsFile): Panel {
  const rows = rowsOf(file);
  const systems = [...new Set(rows.map(({ system }) => system))].sort((a, b) => systemRank(a) - systemRank(b));
  return {
    title: 'Latency: median and 99th percentile',
    reading:
      'The full dot is the median, the ring is the 99th percentile. A turn is the time from question to answer: four durable messages, a model without latency. A steer is the time from the return of a tool to the request that contains a message sent before it. Quiet: nothing else runs. Full drain: 1,000 sessions run at once.',
    legend: systems.map((system) => ({ name: systemName(system), color: systemColor(system) })),
    isFull: true,
    draw: rows.length === 0 ? undefined : (width) => [latencySvg(rows, width)],
  };
}

function rowsOf({ workloads }: ResultsFile): readonly Row[] {
  const rows: Row[] = [];
  let place = 0;
  for (const { workload, variant, title, figures } of DRAWN) {
    const result = workloads.find((each) => each.workload === workload);
    const own = seriesOf(result ?? { rounds: [] })
      .filter((series) => series.variant === variant && SYSTEMS.has(series.system))
      .toSorted((a, b) => systemRank(a.system) - systemRank(b.system));
    const found = own.flatMap((series) => rowOf(series, title, figures));
    for (const row of found) {
      rows.push({ ...row, place });
      place += 1;
    }
    if (found.length > 0) place += APART;
  }
  return rows;
}

function rowOf(series: Series, title: string, names: readonly [string, string]): readonly Omit<Row, 'place'>[] {
  const [p50, p99] = [figure(series, names[0]), figure(series, names[1])];
  if (p50 === undefined || p99 === undefined || p50 <= 0) return [];
  return [{ title, system: series.system, color: systemColor(series.system), p50, p99 }];
}

function latencySvg(rows: readonly Row[], width: number): string {
  const all = rows.flatMap(({ p50, p99 }) => [p50, p99]);
  // Room for the figures beside the outermost dots.
  const isNarrow = width === WIDTHS.narrow;
  const room = isNarrow ? 3.5 : 1.4;
  const domain: [number, number] = [Math.min(...all) / room, Math.max(...all) * room];
  const last = rows.at(-1)?.place ?? 0;
  const titles = [...new Set(rows.map(({ title }) => title))].map((title) => {
    const own = rows.filter((row) => row.title === title);
    const middle = ((own[0]?.place ?? 0) + (own.at(-1)?.place ?? 0)) / 2;
    return { title, place: middle };
  });
  return svgOf('Latency, ms', {
    width,
    height: 60 + ROW * (last + 2),
    marginTop: 10,
    marginBottom: 40,
    marginLeft: isNarrow ? 148 : 170,
    marginRight: 20,
    x: { type: 'log', domain },
    y: { type: 'linear', domain: [last + 1, -1] },
    marks: [
      gridX(logTicks(domain)),
      axisX(logTicks(domain), {
        ...EVERY_LABEL,
        tickFormat: tick,
        tickSize: 0,
        label: 'ms, log scale',
        labelArrow: 'none',
        labelAnchor: 'center',
      }),
      axisY(
        titles.map(({ place }) => place),
        {
          tickFormat: (place: number) => titles.find((each) => each.place === place)?.title ?? '',
          tickSize: 0,
          label: null,
        },
      ),
      link(rows, { x1: 'p50', x2: 'p99', y: 'place', stroke: 'color', strokeWidth: 2, strokeOpacity: 0.55 }),
      dot(rows, { x: 'p50', y: 'place', fill: 'color', r: 4 }),
      dot(rows, { x: 'p99', y: 'place', stroke: 'color', fill: 'var(--card)', strokeWidth: 2, r: 3.5 }),
      text(rows, {
        x: 'p50',
        y: 'place',
        text: ({ p50 }: Row) => label(p50),
        textAnchor: 'end',
        dx: -8,
        fontSize: 10,
        fill: 'currentColor',
      }),
      text(rows, {
        x: 'p99',
        y: 'place',
        text: ({ p99 }: Row) => label(p99),
        textAnchor: 'start',
        dx: 8,
        fontSize: 10,
        fill: 'currentColor',
      }),
    ],
  });
}
