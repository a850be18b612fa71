/**
 * The scripted model of a review, for users without a key. It runs in the model threads like any model, sees only its
 * request, and answers by rules. A reader requests its file with `read_file`, page by page, and reports what the rules
 * find in the results. The reviewer writes an index of the reports delivered to it. Deterministic, without I/O.
 */
import { REVIEW_PAGES_MAX } from '../../base/bounds.ts';
import type { ContentBlock } from '../../base/messages.ts';
import { textOf } from '../../base/messages.ts';
import type { ModelRequest } from '../../models/provider.ts';
import type { Reply } from '../../models/script/script.ts';
import { composeIndex } from './index-file.ts';
import { pathOfTask, planOf } from './plan.ts';
import { analyseSource } from './source-analysis.ts';
import { type FailedReport, formatReport, parseReport, reportOf, type SourceReport } from './source-report.ts';

const READ_FILE = 'read_file';
const MARK_GOAL = 'mark_goal_completed';
const DELIVERY = /^from_/;
/** The text that `read_file` adds to a page that is not the last. */
const MORE = /\n\n\[Showing lines \d+-\d+ of (\d+)\. Use offset=(\d+) to continue\.\]$/;
/** The answer of a tool without output: an empty file. */
const NO_OUTPUT = '(no output)';

/** A call in a request, with its result. */
interface AnsweredCall {
  readonly name: string;
  readonly text: string;
  readonly isError: boolean;
}

/** The script: a reader when its first message is a task, the reviewer when it is a plan. */
export function answer(request: ModelRequest): Reply {
  const calls = answeredCalls(request);
  for (const { role, content } of request.messages) {
    if (role !== 'user') continue;
    const plan = planOf(content);
    if (plan !== undefined) return composeIndex(plan, reportsOf(calls));
    const path = pathOfTask(textOf(content));
    if (path !== undefined) return read(path, calls);
  }
  return 'I am a scripted model for `troupe run` and see neither a plan nor a file to read here.';
}

function read(path: string, calls: readonly AnsweredCall[]): Reply {
  const pages = calls.filter((call) => call.name === READ_FILE);
  const last = pages.at(-1);
  if (last === undefined) return { toolUse: { name: READ_FILE, input: { path } } };
  const more = last.isError ? null : MORE.exec(last.text);
  if (more !== null && pages.length < REVIEW_PAGES_MAX) {
    return { toolUse: { name: READ_FILE, input: { path, offset: Number(more[2]) } } };
  }
  const report = formatReport(reportOn(path, pages, more));
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
  path: string,
  pages: readonly AnsweredCall[],
  more: RegExpExecArray | null,
): SourceReport | FailedReport {
  const failed = pages.find((page) => page.isError);
  const texts = pages.filter((page) => !page.isError).map((page) => page.text.replace(MORE, ''));
  if (failed !== undefined && texts.length === 0) return { path, error: errorText(failed.text) };
  const text = texts.join('\n');
  const facts = analyseSource(path, text === NO_OUTPUT ? '' : text);
  if (failed !== undefined) return reportOf(path, facts, errorText(failed.text));
  return reportOf(path, facts, more === null ? undefined : `${facts.lines} of ${more[1]} lines read`);
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
