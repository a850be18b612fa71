/** The last screen of a staged review: what happened, what was lost, figures, and commands to try. Pure. */
import { STAGE_SCREEN_COLUMNS } from '../../base/bounds.ts';
import { dataArgument, shownPath } from '../places/data-directory.ts';
import type { ReviewStanding } from '../review/command.ts';
import type { ReviewPlan } from '../review/plan.ts';
import type { SendFigures } from '../run/figures.ts';
import type { Paint, Surroundings } from '../surroundings.ts';
import { clip, clipEnd, counted, left, number, oneLine } from '../text-layout.ts';
import { lossText, type StageFacts, type SteeredReader } from './facts.ts';

/** The kill of a process in the middle, and the process after it. */
export interface StageKill {
  readonly pid: number;
  /** The process that continued. */
  readonly next: number;
  /** Readers that were in the middle of a turn, as last reported. */
  readonly working: number;
  /** Readers that had ended, according to the log that the next process read. */
  readonly ended: number;
  /** Seconds from the start of the next process until it had read the log and continued. */
  readonly recoverySeconds: number;
}

/** A staged review that reached its index. */
export interface StageReport {
  /** The reviewer's session. */
  readonly id: string;
  /** Data directory, absolute. */
  readonly data: string;
  readonly plan: ReviewPlan;
  readonly standing: ReviewStanding;
  readonly index: string;
  /** The file that holds the index, absolute. */
  readonly indexFile: string;
  /** Readers that did not complete their task. */
  readonly failed: number;
  readonly seconds: number;
  readonly sends: SendFigures;
  /** Missing: the process was not killed, for the reason in `notKilled`. */
  readonly kill?: StageKill;
  readonly notKilled: string;
  readonly facts: StageFacts;
}

const LABEL_COLUMNS = 11;
const TEXT_COLUMNS: number = STAGE_SCREEN_COLUMNS - LABEL_COLUMNS;
const COMMAND_COLUMNS = 42;

/**
 * The screen for people: at most 15 lines, so that the smallest terminal shows it together with the lines before it.
 */
export function stageText(report: StageReport, surroundings: Surroundings, paint: Paint): string {
  const { plan, seconds, facts, failed, index, indexFile } = report;
  const { log, halfSteps, faults } = facts;
  const { sendToReceiptMs } = report.sends;
  const isSound = faults.length === 0;
  const row = (label: string, ...texts: readonly string[]): readonly string[] =>
    texts.map((text, at) => {
      const name = left(at === 0 ? label : '', LABEL_COLUMNS);
      return `${paint.dim(name)}${clip(oneLine(text), TEXT_COLUMNS)}`;
    });
  const files = counted(plan.files.length, 'file');
  const failures = failed === 0 ? '' : `, ${number(failed)} failed`;
  const p99 = sendToReceiptMs === undefined ? '' : `; send to receipt p99 ${number(sendToReceiptMs.p99, 1)} ms`;
  const place = shownPath(indexFile, surroundings);
  const lines = ` (${counted(index.split('\n').length, 'line')})`;
  return [
    '',
    paint.bold(`${files} read by a sub-agent each, in ${number(seconds, 1)} s${failures}`),
    ...row('kill -9', ...killTexts(report)),
    ...row('steered', ...steerTexts(facts.steered)),
    ...row('lost', ...(isSound ? soundTexts(report) : [lossText(facts)])),
    ...row('figures', `${number(halfSteps)} half-steps, ${number(log.messages)} messages${p99}`),
    ...row('index', `${clipEnd(place, TEXT_COLUMNS - lines.length)}${lines}`),
    '',
    isSound ? paint.green('Nothing was lost. Try next') : paint.red('Something was lost: see above. Try next'),
    ...nextCommands(report, surroundings).map(({ command, why }) => {
      const gap = Math.max(2, COMMAND_COLUMNS - command.length);
      const fits = command.length + gap + why.length + 2 <= STAGE_SCREEN_COLUMNS;
      return `  ${command}${fits ? `${' '.repeat(gap)}${paint.dim(why)}` : ''}`;
    }),
    '',
  ].join('\n');
}

function killTexts({ kill, notKilled, facts }: StageReport): readonly string[] {
  if (kill === undefined) return [notKilled];
  const { pid, next, working, ended, recoverySeconds } = kill;
  return [
    `process ${pid}, with ${counted(working, 'reader')} in a turn and ${number(ended)} done;`,
    `process ${next} read the log in ${number(recoverySeconds, 1)} s, and ${counted(facts.begunAgain, 'call')} began again`,
  ];
}

function steerTexts(steered: SteeredReader | undefined): readonly string[] {
  if (steered === undefined) return ['no reader: none was in its turn when it was time'];
  const { path, isWithinTurn, line } = steered;
  const when = isWithinTurn ? 'within its running turn' : 'after its turn';
  return [
    `${clipEnd(path, TEXT_COLUMNS - when.length - 3)}, ${when};`,
    line === undefined ? 'its report does not answer' : `its report answers: ${line}`,
  ];
}

function soundTexts({ plan, facts }: StageReport): readonly string[] {
  const reports = `${number(facts.reports)} of ${counted(plan.files.length, 'report')}`;
  return [
    `nothing: ${reports}, results for ${number(facts.results)} of ${counted(facts.calls, 'call')};`,
    'no reader, message or request is in the log twice',
  ];
}

function nextCommands(
  { id, data, facts }: StageReport,
  surroundings: Surroundings,
): readonly { readonly command: string; readonly why: string }[] {
  const { invocation } = surroundings;
  const where = dataArgument(data, surroundings);
  return [
    { command: `${invocation} ls${where}`, why: 'all sessions' },
    { command: `${invocation} inspect ${facts.steered?.session ?? id}${where}`, why: 'the steered reader' },
    { command: `${invocation} serve${where}`, why: 'the same in a browser' },
  ];
}

/** The screen for programs. */
export function stageJson(report: StageReport, surroundings: Surroundings): unknown {
  const { id, data, plan, standing, index, indexFile, failed, seconds, sends, kill, facts } = report;
  const { log, reports, calls, results, halfSteps, begunAgain, steered, faults } = facts;
  return {
    session: id,
    directory: plan.directory,
    model: plan.model,
    standing,
    files: plan.files.length,
    failed,
    index,
    indexFile,
    killed: kill === undefined ? null : { pid: kill.pid, working: kill.working, ended: kill.ended },
    recovered: kill === undefined ? null : { pid: kill.next, seconds: kill.recoverySeconds, begunAgain },
    steered: steered ?? null,
    lost: faults,
    figures: { seconds, halfSteps, reports, calls, results, ...sends },
    log,
    data,
    next: nextCommands(report, surroundings).map(({ command }) => command),
  };
}
