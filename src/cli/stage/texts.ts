/** The lines that a staged review writes while it runs. Pure. */
import { STAGE_KILL_FILES_MIN, STAGE_SCREEN_COLUMNS } from '../../base/bounds.ts';
import type { ReviewNews } from '../run/news.ts';
import { clipEnd, counted, number, oneLine } from '../text-layout.ts';
import { killAt } from './moments.ts';
import type { StageKill } from './report.ts';

const LABEL_COLUMNS = 9;

/** The warning while no process works. */
export const STANDSTILL = 'No process is at work. This is the last picture; the log is on disk.';

/** The warning while the log is counted. */
export const COUNTING = 'The review has its index. Its log is counted.';

/** The line when the first process has its plan. */
export function beganText({ plan, standing, before }: Extract<ReviewNews, { type: 'planned' }>, pid: number): string {
  const files = counted(plan.files.length, 'file');
  if (standing !== 'new') return `begin    process ${pid} continues: ${number(before)} of ${files} were read before.`;
  const rest = plan.leftOut === 0 ? '' : ` (${number(plan.leftOut)} left out)`;
  return `begin    process ${pid} reads ${files}${rest}, a sub-agent each.`;
}

/** The line when a reader was steered. */
export function steeredText({ path, text }: Extract<ReviewNews, { type: 'steered' }>): string {
  const said = ` is sent "${text}"`;
  return `steer    ${clipEnd(oneLine(path), STAGE_SCREEN_COLUMNS - LABEL_COLUMNS - said.length)}${said}`;
}

/** The line when a process has killed itself. */
export function killedText({ pid, working }: Pick<StageKill, 'pid' | 'working'>): string {
  return `kill -9  process ${pid} is gone, with ${counted(working, 'reader')} in the middle of a turn.`;
}

/** The line when the next process has read the log. */
export function continuedText({ next, ended, recoverySeconds }: StageKill): string {
  const seconds = number(recoverySeconds, 1);
  return `log      process ${next} read it in ${seconds} s and continues after ${counted(ended, 'reader')}.`;
}

/**
 * Why the process of a review was not killed. `files`: number of files. `before`: readers that had ended before this
 * command.
 */
export function notKilledText(files: number, before: number): string {
  const at = killAt(files);
  if (at === undefined)
    return `not in this run: with fewer than ${STAGE_KILL_FILES_MIN} files none might be in its turn`;
  if (before >= at) return `not in this run: ${number(before)} of ${counted(files, 'reader')} had ended before it`;
  return 'not in this run: the last reader had ended when it was time';
}
