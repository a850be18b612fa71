/** The output of `troupe bench`: a table with explanations, and the same as JSON. Pure. */

import type { Paint } from '../surroundings.ts';
import { counted, left, number, right, wrap } from '../text-layout.ts';
import type { DiskFigures } from './disk.ts';
import type { WorkFigures } from './workloads.ts';

/** All measurements, and where they were made. */
export interface BenchReport {
  /** The directory as the user would type it. */
  readonly directory: string;
  readonly seconds: number;
  readonly node: string;
  readonly machine: string;
  readonly cores: number;
  /** Load average of the last minute, taken before the start; missing when the system does not report it. */
  readonly load: number | undefined;
  /** Sessions at once, and children of one parent. */
  readonly sessions: number;
  readonly disk: DiskFigures;
  readonly isolated: WorkFigures;
  readonly inline: WorkFigures;
  readonly callsPerMinute: number;
}

const COLUMNS = 79;
const LABEL_COLUMNS = 37;
const NUMBER_COLUMNS = 12;
const SECONDS_A_MINUTE = 60;
/** If other processes use this share of the cores or more, the figures do not describe the machine. */
const BUSY_SHARE = 0.5;
/** Significant digits to which a number of agents is rounded. */
const DIGITS = 2;

/** The number of agents that keep this machine busy if each agent makes `callsPerMinute` model calls per minute. */
export function agentsOf(halfStepsPerSecond: number, callsPerMinute: number): number {
  return Math.floor((halfStepsPerSecond * SECONDS_A_MINUTE) / callsPerMinute);
}

/** The report for people. */
export function benchText(report: BenchReport, paint: Paint): string {
  const { isolated, inline, disk, sessions } = report;
  const lines: readonly (readonly [label: string, name: keyof WorkFigures, unit: string])[] = [
    ['one session, turn after turn', 'oneSession', 'turns/s'],
    [`${number(sessions)} sessions at once`, 'manySessions', 'half-steps/s'],
    [`one parent, ${number(sessions)} children`, 'oneFamily', 'children/s'],
    ['send to durable receipt, median', 'receiptMs', 'ms'],
  ];
  const head = ['isolated', 'inline'].map((word) => right(word, NUMBER_COLUMNS)).join('');
  const rows = lines.map(([label, name, unit]) => {
    const cells = [isolated, inline].map((figures) => right(shown(figures[name]), NUMBER_COLUMNS)).join('');
    return `${left(label, LABEL_COLUMNS)}${cells}  ${unit}`;
  });
  const flush = `${left('flush of the disk, median', LABEL_COLUMNS)}${right(shown(disk.flushMs), NUMBER_COLUMNS)}${right('', NUMBER_COLUMNS)}  ms`;
  const notes = [
    'isolated: the defaults, sessions, model calls and tools on threads of their own; inline: all on one thread. A half-step is one model call and what follows from it. The model answers at once: HTTP, streaming and its tokens come on top.',
    ...(isBusy(report)
      ? [
          `The machine was busy with other work (load ${number(report.load ?? 0, 1)} on ${counted(report.cores, 'core')}): without it the figures are higher.`,
        ]
      : []),
    ...(disk.isMemory
      ? [
          'This directory is in memory: nothing was flushed to a disk. Name one on the disk you mean with --directory DIR.',
        ]
      : []),
  ];
  return [
    paint.dim(`${left('', LABEL_COLUMNS)}${head}`),
    ...rows,
    flush,
    '',
    ...wrap(meaning(report), COLUMNS).map((line) => paint.bold(line)),
    '',
    ...notes.flatMap((note) => wrap(note, COLUMNS)),
    '',
  ].join('\n');
}

/** The report for programs. */
export function benchJson({ disk, ...report }: BenchReport): unknown {
  const halfStepsPerSecond = report.isolated.manySessions;
  const agents = agentsOf(halfStepsPerSecond, report.callsPerMinute);
  return { ...report, flushMs: disk.flushMs, isMemory: disk.isMemory, halfStepsPerSecond, agents };
}

function meaning({ isolated, callsPerMinute }: BenchReport): string {
  const halfSteps = rounded(isolated.manySessions);
  const agents = rounded(agentsOf(isolated.manySessions, callsPerMinute));
  const calls = callsPerMinute === 1 ? 'one model call' : `${number(callsPerMinute)} model calls`;
  return `This machine drains about ${number(halfSteps)} half-steps/s: about ${number(agents)} concurrent agents that make ${calls} a minute each.`;
}

function isBusy({ load, cores }: BenchReport): boolean {
  return load !== undefined && load > cores * BUSY_SHARE;
}

function rounded(value: number): number {
  return Number(value.toPrecision(DIGITS));
}

function shown(value: number): string {
  if (value >= 100) return number(value);
  return value >= 10 ? number(value, 1) : value.toFixed(2);
}
