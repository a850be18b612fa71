/** The texts of `troupe run` before and beside its result. Pure. */

import type { Arguments } from '../command.ts';
import { dataArgument, quoted, shownPath } from '../places/data-directory.ts';
import type { ReviewStanding } from '../review/command.ts';
import type { ReviewOrder, ReviewPlan } from '../review/plan.ts';
import type { Paint, StopSignal, Surroundings } from '../surroundings.ts';
import { counted, number, oneLine } from '../text-layout.ts';

/** Approximate bytes of source per token. */
const BYTES_PER_TOKEN = 3.5;
const MODEL_WORDS = {
  claude: 'Claude (the key in the environment; every file is a paid call)',
  scripted: 'scripted: rules over tool results, no language model',
} as const;

/** The review to be done, and its settings. */
export function runHeader(order: ReviewOrder, data: string, surroundings: Surroundings, paint: Paint): string {
  return [
    paint.bold(`Review of ${oneLine(order.directory)}`),
    `model  ${MODEL_WORDS[order.model]}`,
    `data   ${oneLine(shownPath(data, surroundings))}`,
    '',
    '',
  ].join('\n');
}

/** How far the review had come when this run started. */
export function standingText(plan: ReviewPlan, standing: ReviewStanding, before: number): string {
  if (standing === 'finished') {
    return 'This review was finished before. Its index is from the log: no call was made.\nUse --fresh to start over.\n\n';
  }
  const files = counted(plan.files.length, 'source file');
  const rest = plan.leftOut === 0 ? '' : ` (${number(plan.leftOut)} more are left out)`;
  if (standing === 'continued') {
    return `Continues an interrupted review: ${number(before)} of ${files} were read before.\n\n`;
  }
  const bytes = plan.files.reduce((sum, file) => sum + file.bytes, 0);
  const cost =
    plan.model === 'claude' ? `, about ${number(Math.ceil(bytes / BYTES_PER_TOKEN / 1_000))} k tokens of source` : '';
  return `${files}${rest}, one reader each${cost}.\n\n`;
}

/** The text after a signal ended the run. `again`: the command that continues it. */
export function stoppedText(signal: StopSignal, again: string): string {
  const why = signal === 'SIGINT' ? 'Stopped' : 'Terminated';
  return `${why}. Everything so far is in the log; this command continues:\n  ${again}\n`;
}

/** The command that repeats the same review. */
export function runAgain(given: Arguments, data: string, surroundings: Surroundings): string {
  const directory = given.text('dir');
  const limit = given.count('limit');
  return [
    `${surroundings.invocation} run`,
    directory === undefined ? '' : ` --dir ${quoted(directory)}`,
    dataArgument(data, surroundings),
    limit === undefined ? '' : ` --limit ${limit}`,
    given.flag('scripted') ? ' --scripted' : '',
    given.flag('stage') ? ' --stage' : '',
  ].join('');
}
