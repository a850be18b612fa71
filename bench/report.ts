/** Tables of what was measured, in Markdown. */
import type { RunResult, SystemName } from './run.ts';
import { median, type WorkloadName } from './workloads.ts';

/** One run with the load at its start. */
export interface Round {
  readonly result: RunResult;
  readonly load: number;
}

/** Rounds of one workload by system. */
export type Rounds = ReadonlyMap<SystemName, readonly Round[]>;

const UNITS: Readonly<Record<WorkloadName, string>> = {
  W1: 'turns/s',
  W2: 'half-steps/s',
  W3: 'children/s',
  W9: 'half-steps/s',
  family: 'children/s',
};

const TITLES: Readonly<Record<WorkloadName, string>> = {
  W1: 'W1: one session, one turn after another',
  W2: 'W2: many sessions at once',
  W3: 'W3: one parent and its children, every reply delivered',
  W9: 'W9 in small: a half-step near message 20 and near message 2,000, requests of equal size',
  family: 'Family: one parent, a great many children, every reply delivered once',
};

/** What a workload's table stands under. */
export function titleOf(workload: WorkloadName): string {
  return TITLES[workload];
}

/** A workload as a Markdown table: medians with min and max, ratios to the loop and the kernel where they ran. */
export function tableOf(workload: WorkloadName, rounds: Rounds): readonly string[] {
  const columns = columnsOf(workload, rounds);
  const rows = [...rounds].map(([system, list]) => [system, ...columns.map(({ cell }) => cell(list))]);
  return alignTable([['system', ...columns.map(({ title }) => title)], ...rows]);
}

interface Column {
  readonly title: string;
  readonly cell: (rounds: readonly Round[]) => string;
}

function columnsOf(workload: WorkloadName, rounds: Rounds): readonly Column[] {
  const columns: Column[] = [{ title: `${UNITS[workload]} (min to max)`, cell: rateCell }];
  if (workload === 'W1' || workload === 'W9') {
    const [early, late] = workload === 'W9' ? ['near 20', 'near 2,000'] : ['first 20', 'last 20'];
    columns.push({ title: early, cell: (list) => whole(middle(list, ({ first }) => first)) });
    columns.push({ title: late, cell: (list) => whole(middle(list, ({ last }) => last)) });
    const cost = (list: readonly Round[]): string =>
      (middle(list, ({ first }) => first) / middle(list, ({ last }) => last)).toFixed(2);
    if (workload === 'W9') columns.push({ title: 'cost ratio', cell: cost });
  }
  for (const other of ['loop', 'kernel'] as const) {
    const reference = rounds.get(other);
    if (reference === undefined) continue;
    const ratio = (list: readonly Round[]): string => (rateOf(list) / rateOf(reference)).toFixed(2);
    columns.push({ title: `x ${other}`, cell: ratio });
  }
  if (workload !== 'W3' && workload !== 'family') {
    const latency = (list: readonly Round[]): string =>
      `${fine(middle(list, ({ p50 }) => p50))} / ${fine(middle(list, ({ p99 }) => p99))}`;
    columns.push({ title: 'turn p50 / p99 ms', cell: latency });
  }
  return [
    ...columns,
    { title: 'cores', cell: (list) => fine(middle(list, ({ cores }) => cores)) },
    { title: 'RSS MB', cell: (list) => whole(middle(list, ({ rssMb }) => rssMb)) },
    { title: 'loop delay p99 / max ms', cell: delayCell },
    { title: 'load', cell: (list) => list.map(({ load }) => load.toFixed(1)).join(' ') },
  ];
}

function rateCell(list: readonly Round[]): string {
  const rates = list.map(({ result }) => result.rate);
  return `${whole(median(rates))} (${whole(Math.min(...rates))} to ${whole(Math.max(...rates))})`;
}

function delayCell(list: readonly Round[]): string {
  return `${fine(middle(list, ({ loopP99 }) => loopP99))} / ${fine(Math.max(...list.map(({ result }) => result.loopMax)))}`;
}

function rateOf(list: readonly Round[]): number {
  return middle(list, ({ rate }) => rate);
}

function middle(list: readonly Round[], pick: (result: RunResult) => number | undefined): number {
  return median(list.map(({ result }) => pick(result) ?? 0));
}

/** Rows as lines of one width, the first column left, the others right. */
function alignTable(rows: readonly (readonly string[])[]): readonly string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(3, ...rows.map((cells) => cells[column]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => pad(cell, widths[column] ?? 0, column === 0)).join(' | ')} |`;
  const rule = widths.map((width, column) => (column === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`));
  return [line(rows[0] ?? []), line(rule), ...rows.slice(1).map(line)];
}

function pad(cell: string, width: number, isLeft: boolean): string {
  return isLeft ? cell.padEnd(width) : cell.padStart(width);
}

function whole(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

function fine(value: number): string {
  return value >= 100 ? whole(value) : value.toFixed(value >= 10 ? 1 : 2);
}
