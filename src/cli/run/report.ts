/** The end of the output of `troupe run`: a table of figures, the index's file, and suggested commands. Pure. */

import { dataArgument, shownPath } from '../places/data-directory.ts';
import type { ReviewStanding } from '../review/command.ts';
import type { ReviewOrder, ReviewPlan } from '../review/plan.ts';
import type { Paint, Surroundings } from '../surroundings.ts';
import { counted, left, number, oneLine } from '../text-layout.ts';
import type { RunFigures } from './figures.ts';
import type { ReviewLog } from './review-log.ts';

/** A run that succeeded. */
export interface RunReport {
  /** The reviewer's session. */
  readonly id: string;
  readonly order: ReviewOrder;
  /** Data directory, absolute. */
  readonly data: string;
  readonly plan: ReviewPlan;
  readonly standing: ReviewStanding;
  readonly index: string;
  /** The file that holds the index, absolute. */
  readonly indexFile: string;
  /** Readers that did not complete their task. */
  readonly failed: number;
  readonly figures: RunFigures;
  readonly log: ReviewLog;
}

const LABEL_COLUMNS = 18;
const COMMAND_COLUMNS = 44;
const RULE_COLUMNS = 79;

/** The report for people. */
export function reportText(report: RunReport, surroundings: Surroundings, paint: Paint): string {
  const rows = figureRows(report, surroundings).map(
    ([label, value]) => `${paint.dim(left(label, LABEL_COLUMNS))}${value}`,
  );
  const next = nextCommands(report, surroundings).map(({ command, why }) => {
    const isLong = command.length >= COMMAND_COLUMNS;
    return `  ${isLong ? `${command}\n      ` : left(command, COMMAND_COLUMNS)}${paint.dim(why)}`;
  });
  const rule = paint.dim('─'.repeat(RULE_COLUMNS));
  return [rule, ...rows, '', 'Try next', ...next, ''].join('\n');
}

function figureRows(
  { plan, standing, failed, index, indexFile, figures, data, id, log }: RunReport,
  surroundings: Surroundings,
): readonly (readonly [string, string])[] {
  const here = standing === 'new' ? '' : ' in this run';
  const { sendToReceiptMs, halfSteps } = figures;
  const readers = figures.sessions - 1;
  const sends =
    sendToReceiptMs === undefined
      ? 'nothing was sent'
      : `p50 ${number(sendToReceiptMs.p50, 1)} ms, p99 ${number(sendToReceiptMs.p99, 1)} ms (${counted(figures.sends, 'send')}, each durable)`;
  return [
    ['sessions', `${number(figures.sessions)} (reviewer ${id}, ${counted(readers, 'reader')}${failures(failed)})`],
    [
      'messages',
      `${number(log.messages)} in the log, ${number(log.inputTokens)} tokens in, ${number(log.outputTokens)} out${estimated(plan)}`,
    ],
    [
      'half-steps',
      halfSteps === 0
        ? 'none in this run: nothing was left to do'
        : `${number(halfSteps)}${here}, ${number(figures.halfStepsPerSecond)} a second`,
    ],
    ['send to receipt', sends],
    ['host loop delay', `p99 ${number(figures.hostLoopDelayP99Ms, 1)} ms`],
    [
      'time',
      `${number(figures.seconds, 1)} s, of which ${number(figures.openSeconds, 1)} s to open the store and start threads`,
    ],
    ['data', shownPath(data, surroundings)],
    ['index', `${oneLine(shownPath(indexFile, surroundings))} (${counted(index.split('\n').length, 'line')})`],
  ];
}

/** A scripted model estimates its usage. */
function estimated({ model }: ReviewPlan): string {
  return model === 'scripted' ? ' (estimates)' : '';
}

function failures(count: number): string {
  return count === 0 ? '' : `, ${number(count)} failed`;
}

function nextCommands(
  { id, data }: RunReport,
  surroundings: Surroundings,
): readonly { readonly command: string; readonly why: string }[] {
  const { invocation } = surroundings;
  const where = dataArgument(data, surroundings);
  return [
    { command: `${invocation} inspect${where}`, why: 'all sessions, and why each rests' },
    { command: `${invocation} inspect ${id}:1${where}`, why: 'the messages of one reader' },
    { command: `${invocation} tail ${id}${where}`, why: 'the log of the reviewer' },
  ];
}

/** The report for programs. */
export function reportJson(report: RunReport, surroundings: Surroundings): unknown {
  const { id, order, data, plan, standing, failed, index, indexFile, figures, log } = report;
  return {
    session: id,
    directory: order.directory,
    model: order.model,
    standing,
    files: plan.files.length,
    failed,
    index,
    indexFile,
    figures,
    log,
    data,
    next: nextCommands(report, surroundings).map(({ command }) => command),
  };
}
