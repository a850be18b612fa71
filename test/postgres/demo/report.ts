/** The lines that the demonstration writes: those that stay while it runs, and its last screen. Pure. */
import type { Paint } from '../../../src/cli/surroundings.ts';
import { counted, left, number } from '../../../src/cli/text-layout.ts';
import type { Verdict } from './checks.ts';

const LABEL_COLUMNS = 10;
const COMMAND_COLUMNS = 36;
/** Faults that are named one by one. */
const FAULTS_NAMED = 2;

/** The facts of one demonstration. Times in milliseconds count from the kill. */
export interface DemoReport {
  readonly total: number;
  readonly seconds: number;
  readonly killed: { readonly name: string; readonly pid: number; readonly answers: number };
  readonly next: { readonly name: string; readonly ownedMs: number; readonly answerMs: number };
  /** The node that got all requests. `waited`: requests that waited for the next owner. */
  readonly member: { readonly name: string; readonly url: string; readonly waited: number; readonly repeated: number };
  readonly events: { readonly count: number; readonly holes: number; readonly reconnects: number };
  readonly entries: number;
  readonly leaseMs: number;
  readonly verdict: Verdict;
  /** The address of the database, if the nodes stay. */
  readonly kept?: string;
}

/** The line about the kill. */
export function killedText({ name, pid, answers }: DemoReport['killed'], total: number): string {
  return `kill -9   node ${name}, the owner, process ${pid}, with ${number(answers)} of ${counted(total, 'answer')}.`;
}

/** The line about the next owner. */
export function ownedText({ name, ownedMs }: Pick<DemoReport['next'], 'name' | 'ownedMs'>): string {
  return `owner     node ${name} has all sessions, ${number(ownedMs)} ms after the kill.`;
}

/** The line about the first answer at the next owner. */
export function answeredText({ answerMs }: Pick<DemoReport['next'], 'answerMs'>): string {
  return `answer    the next one is there, ${number(answerMs)} ms after the kill.`;
}

/** True if nothing was lost and nothing is there twice. */
export function isSound({ verdict, events }: DemoReport): boolean {
  return verdict.faults.length === 0 && events.holes === 0;
}

/** The last screen: at most 15 lines. */
export function lastScreen(report: DemoReport, paint: Paint): string {
  const { total, seconds, killed, next, member, events, entries, leaseMs, verdict } = report;
  const row = (label: string, text: string): string => `${paint.dim(left(label, LABEL_COLUMNS))}${text}`;
  const more = verdict.faults.length - FAULTS_NAMED;
  const again = member.repeated === 0 ? '' : `, ${number(member.repeated)} were sent again with their key`;
  const connections = events.reconnects === 0 ? 'one connection' : `${number(events.reconnects + 1)} connections`;
  const holes = events.holes === 0 ? 'without a hole' : paint.red(`with ${counted(events.holes, 'hole')}`);
  return [
    '',
    paint.bold(
      `${counted(total, 'sub-agent')} in ${number(seconds, 1)} s, over a kill -9 of the node that worked on them`,
    ),
    row(
      'kill -9',
      `node ${killed.name} after ${counted(killed.answers, 'answer')}; its lease was ${number(leaseMs)} ms`,
    ),
    row(
      'gap',
      `node ${next.name} owned all after ${number(next.ownedMs)} ms, the next answer came after ${number(next.answerMs)} ms`,
    ),
    row('requests', `all at node ${member.name}; ${number(member.waited)} waited for the next owner${again}`),
    row('events', `${number(events.count)} at node ${member.name} over ${connections}, ${holes}`),
    row('answers', `${number(verdict.answers)} of ${number(total)}, each once in its log and once at the parent`),
    row(
      'lost',
      `${number(verdict.lost)}, double ${number(verdict.double)}, with every key sent twice; ${counted(entries, 'commit')}`,
    ),
    ...verdict.faults.slice(0, FAULTS_NAMED).map((fault) => paint.red(`  ${fault}`)),
    ...(more > 0 ? [paint.red(`  and ${number(more)} more`)] : []),
    '',
    isSound(report)
      ? paint.green('Nothing was lost, and nothing was done twice. Look at')
      : paint.red('This should not have happened: see above. Look at'),
    ...(report.kept === undefined ? nextLines(paint) : keptLines(report.kept, member.url, paint)),
    '',
  ].join('\n');
}

function nextLines(paint: Paint): readonly string[] {
  return [
    `  ${left('npm run cluster -- --keep', COMMAND_COLUMNS)}${paint.dim('the same, and the nodes stay until Ctrl+C')}`,
    `  ${left('examples/cluster-node.ts', COMMAND_COLUMNS)}${paint.dim('the program of a node')}`,
    `  ${left('docs/cluster.md', COMMAND_COLUMNS)}${paint.dim('what a cluster promises')}`,
  ];
}

function keptLines(database: string, page: string, paint: Paint): readonly string[] {
  return [
    `  npx troupe cluster status '${database}'`,
    `  ${left(`${page}/observer/`, COMMAND_COLUMNS)}${paint.dim('the page of a member')}`,
    `  ${left('Ctrl+C', COMMAND_COLUMNS)}${paint.dim('ends the nodes and the database')}`,
  ];
}
