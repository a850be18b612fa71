/** Writes results as Markdown: tables and verdicts. */
import { CATALOG } from '../catalog.ts';
import type { WorkloadName } from '../names.ts';
import { seriesOf } from './columns.ts';
import type { HeadResult, ResultsFile, VerdictResult, WorkloadResult } from './results-file.ts';

/** Devices differ by hundredths of a millisecond. */
const SYNC_DIGITS = 3;
const OUTCOMES: Readonly<Record<VerdictResult['outcome'], string>> = {
  holds: 'holds',
  fails: 'FAILS',
  open: 'not measured',
};

/** The head as lines. */
export function headLines(head: HeadResult): readonly string[] {
  return [
    `date: ${head.date.slice(0, 16).replace('T', ' ')} UTC; commit: ${head.commit}; Node ${nodeOf(head)}`,
    `machine: ${machineOf(head)}; load ${head.load.toFixed(1)} at the start`,
    `device: ${deviceOf(head)}`,
    `durability: ${head.durability}`,
    `transport: ${head.transport}`,
    `seed: ${head.seed}; command: ${head.command}`,
    ...head.notes,
  ];
}

/** The version of Node with the flags of the measured processes. */
export function nodeOf({ node, flags }: HeadResult): string {
  return [node, ...flags].join(' ');
}

export function machineOf({ machine, cores, memoryGib }: HeadResult): string {
  return `${machine}, ${cores} cores, ${memoryGib} GiB`;
}

/** The time that the device needs for one sync. */
export function deviceOf({ syncMs }: HeadResult): string {
  if (syncMs === undefined) return 'the time of its sync was not measured';
  return `${syncMs.toFixed(SYNC_DIGITS)} ms for an append of 4 KiB and its fdatasync (median)`;
}

/** A workload as a Markdown table. */
export function tableOf(workload: WorkloadName, result: WorkloadResult): readonly string[] {
  const { columns } = CATALOG[workload];
  const all = seriesOf(result);
  const hasVariants = all.some(({ variant }) => variant !== '');
  const rows = all.map((series) => [
    series.system,
    ...(hasVariants ? [series.variant] : []),
    ...columns.map(({ cell }) => cell(series, all)),
  ]);
  return alignTable([['system', ...(hasVariants ? ['variant'] : []), ...columns.map(({ title }) => title)], ...rows]);
}

/** The targets as a Markdown table. */
export function verdictTable(verdicts: readonly VerdictResult[]): readonly string[] {
  const rows = verdicts.map(({ id, target, measured, outcome, distance }) => [
    id,
    target,
    measured,
    OUTCOMES[outcome],
    distance === undefined ? '' : `${distance.toFixed(2)} x`,
  ]);
  return alignTable([['id', 'target', 'measured', 'outcome', 'of the target'], ...rows]);
}

/** The whole report. */
export function reportOf(file: ResultsFile): string {
  const head = headLines(file.head).map((line) => `- ${line}`);
  const tables = file.workloads.map((result) => {
    const name = result.workload as WorkloadName;
    return `## ${result.title}\n\n${tableOf(name, result).join('\n')}\n`;
  });
  return [
    '# Drain benchmark',
    '',
    'Written by `npm run bench -- --write`. `README.md` beside this file describes the measurements; `results.json` has',
    'every repetition.',
    '',
    ...head,
    '- figures: the median over rounds of the median over repetitions after a warm-up; min and max over all of these',
    '- cold / second: the first and the second repetition of a new process, before any warm-up; median over rounds',
    '- of the target: 1.00 x meets it exactly, more is better',
    '',
    '## Targets',
    '',
    ...verdictTable(file.verdicts),
    '',
    tables.join('\n'),
  ].join('\n');
}

/** Aligns rows to lines of one width: texts left, numbers right. */
function alignTable(rows: readonly (readonly string[])[]): readonly string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(3, ...rows.map((cells) => cells[column]?.length ?? 0)));
  const isText = widths.map((_, column) => rows.slice(1).some((cells) => /^[a-z]/i.test(cells[column] ?? '')));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => pad(cell, widths[column] ?? 0, isText[column] === true)).join(' | ')} |`;
  const rule = widths.map((width, column) =>
    isText[column] === true ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`,
  );
  return [line(rows[0] ?? []), line(rule), ...rows.slice(1).map(line)];
}

function pad(cell: string, width: number, isLeft: boolean): string {
  return isLeft ? cell.padEnd(width) : cell.padStart(width);
}
