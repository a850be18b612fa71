/**
 * A reader's report: lines of `key: value` that a person, a model and the scripted reviewer can all read. Pure.
 * `parseReport(formatReport(report))` equals `report`, except for names beyond the bound.
 */
import { REPORT_NAMES_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import type { FunctionSpan, LongestLine, SourceFacts } from './source-analysis.ts';

/** Names of one kind: their number, and the first of them. */
export interface NameList {
  readonly count: number;
  readonly names: readonly string[];
}

/** A reader's report on one file. */
export interface SourceReport {
  readonly path: string;
  readonly summary: string;
  readonly lines: number;
  readonly blank: number;
  readonly comment: number;
  readonly exports: NameList;
  readonly imports: NameList;
  readonly longest?: FunctionSpan;
  readonly marks: readonly string[];
  /** Present if a message asked for the longest line while the reader read. */
  readonly longestLine?: LongestLine;
  /** The reason why the figures do not cover the whole file. */
  readonly note?: string;
}

/** A reader's report on a file that it could not read. */
export interface FailedReport {
  readonly path: string;
  readonly error: string;
}

/** The key of the line that a report has only if its reader was asked for the longest line. */
export const LONGEST_LINE = 'longest line';
const NONE = 'none';
const NO_SUMMARY = '(the file opens without a comment)';

/** The report with the facts that the rules found, and with the longest line if the reader was asked for it. */
export function reportOf(path: string, facts: SourceFacts, note?: string, longestLine?: LongestLine): SourceReport {
  const { exports, imports, marks, ...rest } = facts;
  return {
    path,
    ...rest,
    exports: nameList(exports),
    imports: nameList(imports),
    marks: marks.slice(0, REPORT_NAMES_MAX),
    ...defined({ longestLine, note }),
  };
}

/** The text of a report. */
export function formatReport(report: SourceReport | FailedReport): string {
  if ('error' in report) return `file: ${report.path}\nerror: ${oneLine(report.error)}`;
  const { longest } = report;
  return [
    `file: ${report.path}`,
    `summary: ${report.summary === '' ? NO_SUMMARY : oneLine(report.summary)}`,
    `lines: ${report.lines} (${report.blank} blank, ${report.comment} comment)`,
    `exports: ${listText(report.exports)}`,
    `imports: ${listText(report.imports)}`,
    `longest function: ${longest === undefined ? NONE : `${longest.name}, ${longest.lines} lines from line ${longest.at}`}`,
    `marks: ${report.marks.length === 0 ? NONE : report.marks.join(', ')}`,
    ...(report.longestLine === undefined ? [] : [`${LONGEST_LINE}: ${lineText(report.longestLine)}`]),
    ...(report.note === undefined ? [] : [`note: ${oneLine(report.note)}`]),
  ].join('\n');
}

/** The report in a text; undefined for any other text, such as one written by a model. */
export function parseReport(text: string): SourceReport | FailedReport | undefined {
  const values = new Map<string, string>();
  for (const line of text.split('\n')) {
    const match = /^([a-z ]{1,20}): (.*)$/.exec(line);
    if (match?.[1] !== undefined && !values.has(match[1])) values.set(match[1], match[2] ?? '');
  }
  const path = values.get('file');
  if (path === undefined) return undefined;
  const error = values.get('error');
  if (error !== undefined) return { path, error };
  const counts = /^(\d+) \((\d+) blank, (\d+) comment\)$/.exec(values.get('lines') ?? '');
  if (counts === null) return undefined;
  const summary = values.get('summary') ?? '';
  const longest = parseSpan(values.get('longest function') ?? '');
  const longestLine = parseLine(values.get(LONGEST_LINE) ?? '');
  const note = values.get('note');
  const marks = values.get('marks') ?? NONE;
  return {
    path,
    summary: summary === NO_SUMMARY ? '' : summary,
    lines: Number(counts[1]),
    blank: Number(counts[2]),
    comment: Number(counts[3]),
    exports: parseList(values.get('exports') ?? ''),
    imports: parseList(values.get('imports') ?? ''),
    ...defined({ longest }),
    marks: marks === NONE ? [] : marks.split(', '),
    ...defined({ longestLine, note }),
  };
}

/** The longest line as a text, for reports and for the index. */
export function lineText({ characters, at }: LongestLine): string {
  return `${characters} characters, line ${at}`;
}

function nameList(names: readonly string[]): NameList {
  return { count: names.length, names: names.slice(0, REPORT_NAMES_MAX) };
}

function listText({ count, names }: NameList): string {
  return names.length === 0 ? String(count) : `${count} (${names.join(', ')})`;
}

function parseList(text: string): NameList {
  const match = /^(\d+)(?: \((.*)\))?$/.exec(text);
  return { count: Number(match?.[1] ?? 0), names: match?.[2]?.split(', ') ?? [] };
}

function parseSpan(text: string): FunctionSpan | undefined {
  const match = /^(.+), (\d+) lines from line (\d+)$/.exec(text);
  if (match?.[1] === undefined) return undefined;
  return { name: match[1], lines: Number(match[2]), at: Number(match[3]) };
}

function parseLine(text: string): LongestLine | undefined {
  const match = /^(\d+) characters, line (\d+)$/.exec(text);
  return match === null ? undefined : { characters: Number(match[1]), at: Number(match[2]) };
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}
