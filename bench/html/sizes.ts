/** Figures over sizes: sessions in flight, sessions in the store, messages in a session. */
import { NO_READER, READER_OF_ALL } from '../names.ts';
import { figure, type Series, seriesOf, showKib, values } from '../report/columns.ts';
import type { ResultsFile } from '../report/results-file.ts';
import { Measured } from '../report/verdict-rules.ts';
import { type LineAxes, type LinePoint, type LineSeries, linesSvg } from './lines.ts';
import type { Panel } from './panel.ts';
import { systemColor, systemName, systemRank } from './systems.ts';

const US_A_SECOND = 1_000_000;
const BAND = 'The band is the smallest to the largest repetition.';
/** W9 measures near message 100 and near message 10,000. */
const LENGTHS = { earlyUs: 100, lateUs: 10_000 } as const;

/** Half-steps a second by sessions in flight. */
export function concurrencyPanel(file: ResultsFile): Panel {
  return panel(
    {
      title: 'Half-steps a second by concurrency',
      reading: `W2, by the number of sessions in flight. ${BAND}`,
      axes: { x: 'sessions in flight, log scale', y: 'half-steps/s', isLog: true },
    },
    bySize(file, 'concurrency', 'rate', { size: 'in flight' }),
  );
}

/** Latency of a turn by sessions in flight. */
export function turnPanel(file: ResultsFile): Panel {
  return panel(
    {
      title: 'Time of a turn by concurrency',
      reading: `Time from the question to its answer, the median of the turns of W2. A turn has two half-steps and four durable messages. ${BAND}`,
      axes: { x: 'sessions in flight, log scale', y: 'ms', isLog: true },
    },
    bySize(file, 'concurrency', 'p50', { size: 'in flight' }),
  );
}

/** Cost of a half-step by sessions in the store. */
export function storeSizePanel(file: ResultsFile): Panel {
  const own = { size: 'sessions', color: () => systemColor('inline') };
  return panel(
    {
      title: 'Cost of a half-step by sessions in the store',
      reading: `Ten turns are in flight, of sessions chosen at random; troupe runs on one thread. Time is wall time divided by half-steps, so the ten turns share it. ${BAND}`,
      axes: { x: 'sessions in the store, log scale', y: 'us a half-step', isLog: false },
    },
    [
      ...bySize(file, 'store-size', 'rate', { ...own, of: (rate) => US_A_SECOND / rate, name: () => 'time' }),
      ...bySize(file, 'store-size', 'cpuUs', { ...own, name: () => 'processor', isDashed: true }),
    ],
  );
}

/** Processor time of a streamed event by streams at once. */
export function streamCostPanel(file: ResultsFile): Panel {
  const read = (system: string): string => `${systemName(system)}, read`;
  return panel(
    {
      title: 'Processor time of a streamed event',
      reading: `W10: each stream has 40 events a second, from a server in another process. Dashed: with a reader of all sessions. The bare SDK cannot hold the pace of 1,000 streams. ${BAND}`,
      axes: { x: 'streams at once, log scale', y: 'us an event', isLog: false },
    },
    [
      ...bySize(file, 'W10', 'cpuUs', { size: `streams, ${NO_READER}` }),
      ...bySize(file, 'W10', 'cpuUs', { size: `streams, ${READER_OF_ALL}`, name: read, isDashed: true }),
    ],
  );
}

/** Time from the socket to a reader by streams at once. */
export function streamLatencyPanel(file: ResultsFile): Panel {
  return panel(
    {
      title: 'Socket to reader, 99th percentile',
      reading: `W10: from the writing of a text by the server to the event that a reader of all sessions receives. Texts of a session are gathered for 16 ms. ${BAND}`,
      axes: { x: 'streams at once, log scale', y: 'ms', isLog: false },
    },
    bySize(file, 'W10', 'readerP99', { size: `streams, ${READER_OF_ALL}` }),
  );
}

/** Cost of a half-step by messages in the session. */
export function historyPanel(file: ResultsFile): Panel {
  const result = file.workloads.find(({ workload }) => workload === 'W9');
  const lines = seriesOf(result ?? { rounds: [] }).flatMap((series): readonly LineSeries[] => {
    const points = Object.entries(LENGTHS).flatMap(([name, x]) => pointOf(series, name, x, (value) => value));
    return points.length === 0 ? [] : [{ name: systemName(series.system), color: systemColor(series.system), points }];
  });
  return panel(
    {
      title: 'Cost of a half-step by length of the history',
      reading: `One session in a window of 4,000 tokens, so that requests are of equal size: a flat line is a cost that does not grow with the history. ${BAND}`,
      axes: { x: 'messages in the session, log scale', y: 'us a half-step', isLog: false },
    },
    ranked(lines),
  );
}

/** Memory by sessions in flight. */
export function memoryInFlightPanel(file: ResultsFile): Panel {
  return panel(
    {
      title: 'Memory by sessions in flight',
      reading: `Peak of the resident set of the whole process, code and warm-up included. ${BAND}`,
      axes: { x: 'sessions in flight, log scale', y: 'RSS, MiB', isLog: false },
    },
    bySize(file, 'concurrency', 'rssMb', { size: 'in flight' }),
  );
}

/** Memory by sessions in the store, and what one idle session takes. */
export function memoryInStorePanel(file: ResultsFile): Panel {
  const idle = new Measured(file.workloads).figure(
    { workload: 'W4', system: 'inline', variant: 'memory' },
    'sessionKib',
  );
  const idleText =
    idle === undefined
      ? ''
      : ` An idle session among 10,000 takes ${showKib(idle)} KiB of anonymous memory (W4, inline).`;
  return panel(
    {
      title: 'Memory by sessions in the store',
      reading: `Peak of the resident set with ten turns in flight. It includes the mapped pages of the store's file.${idleText}`,
      axes: { x: 'sessions in the store, log scale', y: 'RSS, MiB', isLog: false },
    },
    bySize(file, 'store-size', 'rssMb', { size: 'sessions' }),
  );
}

interface SizeOptions {
  /** The number at the start of a variant's name: `64 in flight`. */
  readonly size: string;
  readonly of?: (value: number) => number;
  readonly name?: (system: string) => string;
  readonly color?: (system: string) => string;
  readonly isDashed?: boolean;
}

/** A figure of a workload whose variants are sizes, with one line for each system. */
function bySize(file: ResultsFile, workload: string, figureName: string, options: SizeOptions): readonly LineSeries[] {
  const { size, of = (value) => value, name = systemName, color = systemColor, isDashed = false } = options;
  const result = file.workloads.find((each) => each.workload === workload);
  const bySystem = new Map<string, LinePoint[]>();
  for (const series of seriesOf(result ?? { rounds: [] })) {
    const [, digits] = new RegExp(`^([\\d,]+) ${size}$`).exec(series.variant) ?? [];
    if (digits === undefined) continue;
    const points = bySystem.get(series.system) ?? [];
    points.push(...pointOf(series, figureName, Number(digits.replaceAll(',', '')), of));
    bySystem.set(series.system, points);
  }
  const systems = [...bySystem.keys()].sort((a, b) => systemRank(a) - systemRank(b));
  return systems.map((system) => ({
    name: name(system),
    color: color(system),
    isDashed,
    points: (bySystem.get(system) ?? []).toSorted((a, b) => a.x - b.x),
  }));
}

function pointOf(series: Series, name: string, x: number, of: (value: number) => number): readonly LinePoint[] {
  const median = figure(series, name);
  if (median === undefined) return [];
  const all = values(series, name).map(of);
  return [{ x, y: of(median), low: Math.min(...all), high: Math.max(...all) }];
}

function ranked(lines: readonly LineSeries[]): readonly LineSeries[] {
  return lines.toSorted((a, b) => a.name.localeCompare(b.name));
}

function panel(
  { title, reading, axes }: Pick<Panel, 'title' | 'reading'> & { readonly axes: Omit<LineAxes, 'title'> },
  lines: readonly LineSeries[],
): Panel {
  const drawn = lines.filter(({ points }) => points.length > 0);
  return {
    title,
    reading,
    draw: drawn.length === 0 ? undefined : (width) => [linesSvg(drawn, { ...axes, title }, width)],
  };
}
