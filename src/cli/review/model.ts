/**
 * The scripted model of a review, for users without a key. It runs in the model threads like any model, sees only its
 * request, and answers by rules. A reader requests its file with `read_file`, page by page. The reader reports the
 * facts that the rules find in the results, and the longest line if a later message asks for it. The reviewer writes an
 * index of the reports delivered to it. The URL that imports this module may carry a pace (`pace.ts`). Deterministic,
 * without I/O.
 */
import { REVIEW_PAGES_MAX } from '../../base/bounds.ts';
import type { ContentBlock } from '../../base/messages.ts';
import { textOf } from '../../base/messages.ts';
import type { ModelRequest } from '../../models/provider.ts';
import type { Reply, ReplyContext } from '../../models/script/script.ts';
import { composeIndex } from './index-file.ts';
import { delayOf, paceIn, type ReviewPace } from './pace.ts';
import { pathOfTask, planOf } from './plan.ts';
import { analyseSource, longestLineOf } from './source-analysis.ts';
import { type FailedReport, formatReport, parseReport, reportOf, type SourceReport } from './source-report.ts';

const READ_FILE = 'read_file';
const MARK_GOAL = 'mark_goal_completed';
const DELIVERY = /^from_/;
/** The text that `read_file` adds to a page that is not the last. */
const MORE = /\n\n\[Showing lines \d+-\d+ of (\d+)\. Use offset=(\d+) to continue\.\]$/;
/** The result of a tool without output. `read_file` gives this result for an empty file. */
const NO_OUTPUT = '(no output)';
const ASKS_LONGEST_LINE = /\blongest line\b/i;
/** The pace in the URL by which this module was imported. */
const pace = paceIn(import.meta.url);

/** A call in a request, with its result. */
interface AnsweredCall {
  readonly name: string;
  readonly text: string;
  readonly isError: boolean;
}

/** The script. It answers as a reader if the first message is a task, and as the reviewer if it is a plan. */
export function answer(request: ModelRequest, { session }: Pick<ReplyContext, 'session'> = { session: '' }): Reply {
  const reply = replyTo(request, pace);
  if (pace === undefined) return reply;
  const delayMs = delayOf(pace, session, request.messages.length);
  return typeof reply === 'string' ? { text: reply, delayMs } : { ...reply, delayMs };
}

/** The reply without its delay. With a pace, a reader asks for pages of `pageLines` lines. */
function replyTo(request: ModelRequest, withPages?: ReviewPace): Reply {
  const calls = answeredCalls(request);
  for (const [index, { role, content }] of request.messages.entries()) {
    if (role !== 'user') continue;
    const plan = planOf(content);
    if (plan !== undefined) return composeIndex(plan, reportsOf(calls));
    const path = pathOfTask(textOf(content));
    if (path === undefined) continue;
    const later = request.messages.slice(index + 1);
    return read({ path, asksLongestLine: later.some(asksLongestLine) }, calls, withPages);
  }
  return 'I am a scripted model for `troupe run` and see neither a plan nor a file to read here.';
}

/** A reader's task, and whether a later message asks for the longest line. */
interface Task {
  readonly path: string;
  readonly asksLongestLine: boolean;
}

/** True for a message of the user that asks for the longest line. Tool results are not searched for requests. */
function asksLongestLine({ role, content }: ModelRequest['messages'][number]): boolean {
  return role === 'user' && ASKS_LONGEST_LINE.test(textOf(content));
}

function read(task: Task, calls: readonly AnsweredCall[], withPages: ReviewPace | undefined): Reply {
  const { path } = task;
  const pages = calls.filter((call) => call.name === READ_FILE);
  const last = pages.at(-1);
  const first = withPages === undefined ? {} : { limit: withPages.pageLines };
  if (last === undefined) return { toolUse: { name: READ_FILE, input: { path, ...first } } };
  const more = last.isError ? null : MORE.exec(last.text);
  if (more !== null && pages.length < REVIEW_PAGES_MAX) {
    const offset = Number(more[2]);
    // A longer file gets longer pages, so that the remaining pages reach the end of the file.
    const share = Math.ceil((Number(more[1]) - offset + 1) / (REVIEW_PAGES_MAX - pages.length));
    const next = withPages === undefined ? {} : { limit: Math.max(withPages.pageLines, share) };
    return { toolUse: { name: READ_FILE, input: { path, offset, ...next } } };
  }
  const report = formatReport(reportOn(task, pages, more));
  if (calls.some((call) => call.name === MARK_GOAL)) {
    return `I am a scripted model; this is all I can say of the file:\n\n${report}`;
  }
  return { toolUse: { name: MARK_GOAL, input: { result: report } } };
}

/**
 * The report on the contents of the pages. `more`: the hint at the end of the last page, if the file continues after
 * it.
 */
function reportOn(
  { path, asksLongestLine: isAsked }: Task,
  pages: readonly AnsweredCall[],
  more: RegExpExecArray | null,
): SourceReport | FailedReport {
  const failed = pages.find((page) => page.isError);
  const texts = pages.filter((page) => !page.isError).map((page) => page.text.replace(MORE, ''));
  if (failed !== undefined && texts.length === 0) return { path, error: errorText(failed.text) };
  const text = texts.join('\n');
  const whole = text === NO_OUTPUT ? '' : text;
  const facts = analyseSource(path, whole);
  const longestLine = isAsked ? longestLineOf(whole) : undefined;
  if (failed !== undefined) return reportOf(path, facts, errorText(failed.text), longestLine);
  const note = more === null ? undefined : `${facts.lines} of ${more[1]} lines read`;
  return reportOf(path, facts, note, longestLine);
}

/** The error in the text of a failed call, which is JSON with a member `error`. */
function errorText(text: string): string {
  return /^\{"error":"(.*)"\}$/s.exec(text)?.[1]?.replaceAll('\\"', '"') ?? text;
}

/**
 * Reports by path. If a file has two reports, the report with figures counts; if both or neither have figures, the
 * later report counts.
 */
function reportsOf(calls: readonly AnsweredCall[]): ReadonlyMap<string, SourceReport | FailedReport> {
  const reports = new Map<string, SourceReport | FailedReport>();
  for (const call of calls) {
    const report = DELIVERY.test(call.name) ? parseReport(call.text) : undefined;
    if (report === undefined) continue;
    const known = reports.get(report.path);
    if (known === undefined || 'error' in known || !('error' in report)) reports.set(report.path, report);
  }
  return reports;
}

/** The calls of a request that have a result, in order. */
function answeredCalls(request: ModelRequest): readonly AnsweredCall[] {
  const names = new Map<string, string>();
  const found: AnsweredCall[] = [];
  for (const { content } of request.messages) {
    if (typeof content === 'string') continue;
    for (const block of content) {
      if (block.type === 'tool_use') names.set(block.id, block.name);
      else if (block.type === 'tool_result') {
        const name = names.get(block.tool_use_id);
        const text = textOf((block.content ?? '') as string | readonly ContentBlock[]);
        if (name !== undefined) found.push({ name, text, isError: block.is_error === true });
      }
    }
  }
  return found;
}
