/** Draws figures of some systems over a size: a line with a dot for each measurement, and a name at its end. */
import { areaY, axisX, axisY, dot, gridY, line, link, text } from '@observablehq/plot';
import { WIDTHS } from './panel.ts';
import {
  type Axis,
  closeLogDomain,
  EVERY_LABEL,
  linearDomain,
  logTicks,
  shortTick,
  spreadLabels,
  tick,
} from './scales.ts';
import { svgOf } from './svg.ts';

/** One line. */
export interface LineSeries {
  readonly name: string;
  readonly color: string;
  readonly isDashed?: boolean;
  readonly points: readonly LinePoint[];
}

/** A figure; `low` and `high` where repetitions differ. */
export interface LinePoint {
  readonly x: number;
  readonly y: number;
  readonly low: number;
  readonly high: number;
}

/** The labels of the axes. */
export interface LineAxes {
  readonly title: string;
  readonly x: string;
  readonly y: string;
  /** The vertical axis; the horizontal one, of sizes, is always logarithmic. */
  readonly isLog: boolean;
}

const HEIGHT = 300;
const MARGINS = { marginTop: 28, marginBottom: 40, marginLeft: 56 } as const;
/** Pixels of an average letter. */
const LETTER = 6.1;

/** The plot. */
export function linesSvg(series: readonly LineSeries[], { title, x, y, isLog }: LineAxes, width: number): string {
  const points = series.flatMap((each) => each.points.map((point) => ({ ...point, color: each.color })));
  const all = points.flatMap(({ low, high }) => [low, high]);
  const domain = isLog ? closeLogDomain(all) : linearDomain(all);
  const [ticks, isNarrow] = [isLog ? logTicks(domain) : [], width === WIDTHS.narrow];
  const axis: Axis = { domain, isLog, length: HEIGHT - MARGINS.marginTop - MARGINS.marginBottom };
  const sizes = [...new Set(points.map((point) => point.x))].sort((a, b) => a - b);
  const marginRight = 18 + LETTER * Math.max(...series.map(({ name }) => name.length));
  return svgOf(title, {
    width,
    height: HEIGHT,
    ...MARGINS,
    marginRight,
    x: { type: 'log', domain: [sizes[0] ?? 1, sizes.at(-1) ?? 1], inset: 8 },
    y: { type: isLog ? 'log' : 'linear', domain: [...domain] },
    marks: [
      isLog ? gridY(ticks) : gridY({ ticks: 5 }),
      axisX(sizes, {
        ...EVERY_LABEL,
        tickFormat: isNarrow ? shortTick : tick,
        label: x,
        labelArrow: 'none',
        labelAnchor: 'center',
        tickSize: 4,
      }),
      axisY(isLog ? ticks : undefined, {
        ...(isLog ? EVERY_LABEL : { ticks: 5 }),
        tickFormat: tick,
        label: isLog ? `${y}, log scale` : y,
        labelArrow: 'none',
        tickSize: 0,
      }),
      ...series.flatMap(({ color, points: own, isDashed }) => [
        areaY(own, { x: 'x', y1: 'low', y2: 'high', fill: color, fillOpacity: 0.12 }),
        line(own, { x: 'x', y: 'y', stroke: color, strokeWidth: 2, strokeDasharray: isDashed === true ? '5,4' : '' }),
        dot(own, { x: 'x', y: 'y', fill: color, r: 3.5 }),
      ]),
      ...endLabels(series, axis),
    ],
  });
}

function endLabels(series: readonly LineSeries[], axis: Axis) {
  const ends = series.flatMap(({ name, color, points }) => {
    const last = points.at(-1);
    return last === undefined ? [] : [{ name, color, x: last.x, y: last.y }];
  });
  const places = spreadLabels(
    ends.map((end) => end.y),
    axis,
  );
  return ends.flatMap(({ name, color, x, y }, index) => {
    const placed = [{ x, y, place: places[index] ?? y }];
    return [
      link(placed, { x1: 'x', y1: 'y', x2: 'x', y2: 'place', stroke: color, strokeOpacity: 0.3 }),
      text(placed, { x: 'x', y: 'place', text: () => name, fill: color, textAnchor: 'start', dx: 10 }),
    ];
  });
}
