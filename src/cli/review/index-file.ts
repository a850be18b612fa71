/**
 * The review index that a scripted reviewer writes from its readers' reports. Deterministic: equal reports give equal
 * text. Pure.
 */
import { basename, dirname, extname, join, normalize } from 'node:path/posix';
import { clip, counted, left, number, oneLine, right, wrap } from '../text-layout.ts';
import type { PlannedFile, ReviewPlan } from './plan.ts';
import { type FailedReport, LONGEST_LINE, lineText, type SourceReport } from './source-report.ts';

const COLUMNS = 79;
const NAME_COLUMNS = 26;
const FIGURE_COLUMNS = 6;
const SUMMARY_COLUMNS: number = COLUMNS - NAME_COLUMNS - FIGURE_COLUMNS - 2;
/** Maximum entries of one list of findings. */
const TOP = 5;
/** Lines from which a function counts as long: more than a screen. */
const LONG_LINES = 60;
const INDENT = '  ';

/** Reports by path; a file without a report has no entry. */
export type Reports = ReadonlyMap<string, SourceReport | FailedReport>;

/** The text of the index: a table by folder, totals, findings. */
export function composeIndex(plan: ReviewPlan, reports: Reports): string {
  const read: SourceReport[] = [];
  const unread: FailedReport[] = [];
  for (const { path } of plan.files) {
    const report = reports.get(path) ?? { path, error: 'no report' };
    if ('error' in report) unread.push(report);
    else read.push(report);
  }
  return [
    `Review index of ${oneLine(basename(plan.directory))}`,
    'Written by a scripted model: rules over what read_file returned, no language',
    'model. Set ANTHROPIC_API_KEY for a review by Claude.',
    '',
    ...table(plan.files, reports),
    ...totals(plan, read),
    ...findings(plan, read, unread),
  ].join('\n');
}

function table(files: readonly PlannedFile[], reports: Reports): readonly string[] {
  const lines: string[] = [];
  let folder: string | undefined;
  for (const { path } of files.toSorted(byFolder)) {
    const own = dirname(path);
    if (own !== folder) {
      if (folder !== undefined) lines.push('');
      lines.push(heading(own === '.' ? './' : `${own}/`, folder === undefined));
      folder = own;
    }
    lines.push(row(path, reports.get(path)));
  }
  lines.push('');
  return lines;
}

/** Sorts the files of one folder together, those of the root first. */
function byFolder(a: PlannedFile, b: PlannedFile): number {
  const [folderA, folderB] = [dirname(a.path), dirname(b.path)];
  return folderA === folderB ? order(a.path, b.path) : order(folderA, folderB);
}

function heading(folder: string, isFirst: boolean): string {
  if (!isFirst) return clip(oneLine(folder), COLUMNS);
  return `${left(oneLine(folder), NAME_COLUMNS)}${right('lines', FIGURE_COLUMNS)}  what it is, in its own words`;
}

function row(path: string, report: SourceReport | FailedReport | undefined): string {
  const name = left(`${INDENT}${oneLine(basename(path))}`, NAME_COLUMNS);
  if (report === undefined || 'error' in report) {
    return `${name}${right('-', FIGURE_COLUMNS)}  ${clip(oneLine(report?.error ?? 'no report'), SUMMARY_COLUMNS)}`;
  }
  const text = `${name}${right(number(report.lines), FIGURE_COLUMNS)}`;
  return `${text}  ${clip(withoutMentions(oneLine(report.summary)), SUMMARY_COLUMNS)}`.trimEnd();
}

function totals(plan: ReviewPlan, read: readonly SourceReport[]): readonly string[] {
  const sum = (figure: (report: SourceReport) => number): number =>
    read.reduce((total, report) => total + figure(report), 0);
  const lines = sum((report) => report.lines);
  const share = (part: number): string => (lines === 0 ? '0 %' : `${Math.round((100 * part) / lines)} %`);
  const comment = sum((report) => report.comment);
  const blank = sum((report) => report.blank);
  const text = [
    `Totals: ${counted(read.length, 'file')} read of ${number(plan.files.length)}, ${counted(lines, 'line')}`,
    `(${share(comment)} comment, ${share(blank)} blank), ${counted(
      sum((report) => report.exports.count),
      'exported name',
    )}.`,
    ...(plan.leftOut === 0
      ? []
      : [`${counted(plan.leftOut, 'more source file')} not read: beyond the limit, too large, or binary.`]),
  ].join(' ');
  return [...wrap(text, COLUMNS), ''];
}

function findings(plan: ReviewPlan, read: readonly SourceReport[], unread: readonly FailedReport[]): readonly string[] {
  const lines = [
    ...list(
      'Could not be read',
      unread.map(({ path, error }) => `${path}: ${error}`),
      unread.length,
    ),
    ...longestFunctions(read),
    ...marks(read),
    ...fanIn(plan, read),
    ...packages(read),
    ...undocumented(read),
    ...notes(read),
    ...askedFor(read),
  ];
  return lines.length === 0 ? ['Findings: nothing that these rules look for.'] : ['Findings', ...lines];
}

function longestFunctions(read: readonly SourceReport[]): readonly string[] {
  const all = read
    .flatMap(({ path, longest }) => (longest === undefined ? [] : [{ path, ...longest }]))
    .sort((a, b) => b.lines - a.lines || order(a.path, b.path));
  const long = all.filter(({ lines }) => lines > LONG_LINES).length;
  const texts = all.slice(0, TOP).map(({ path, name, lines, at }) => `${path}:${at} ${name}, ${lines} lines`);
  return list(`Longest functions (${number(long)} of more than ${LONG_LINES} lines)`, texts);
}

function marks(read: readonly SourceReport[]): readonly string[] {
  const found = read.flatMap(({ path, marks: own }) => own.map((mark) => `${path}: ${mark}`));
  return list('Marks left for later', found, found.length);
}

/** The files with the most importers, by the paths to which imports resolve. */
function fanIn(plan: ReviewPlan, read: readonly SourceReport[]): readonly string[] {
  const known = new Set(plan.files.map(({ path }) => path));
  const counts = new Map<string, number>();
  for (const report of read) {
    const targets = new Set(report.imports.names.map((name) => resolveImport(report.path, name, known)));
    for (const target of targets) {
      if (target !== undefined) counts.set(target, (counts.get(target) ?? 0) + 1);
    }
  }
  const used = ranked(counts).filter(([, count]) => count > 1);
  return list(
    'Imported by most others',
    used.slice(0, TOP).map(([path, count]) => `${path}, by ${counted(count, 'file')}`),
  );
}

function packages(read: readonly SourceReport[]): readonly string[] {
  const counts = new Map<string, number>();
  for (const { path, imports } of read) {
    if (!/\.[cm]?[jt]sx?$/.test(path)) continue;
    const names = new Set(imports.names.filter((name) => !name.startsWith('.')).map(packageOf));
    for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  const used = ranked(counts).slice(0, 2 * TOP);
  if (used.length === 0) return [];
  // One paragraph, because a list of ten lines would say no more.
  const text = used.map(([name, count]) => `${withoutMentions(name)} (${count})`).join(', ');
  return ['', `${INDENT}Packages and modules by files that import them`, ...indented(text)];
}

function undocumented(read: readonly SourceReport[]): readonly string[] {
  const silent = read.filter(({ summary, lines }) => summary === '' && lines > 0).map(({ path }) => path);
  return list('Open without a comment that says what they are', silent, silent.length);
}

function notes(read: readonly SourceReport[]): readonly string[] {
  const noted = read.flatMap(({ path, note }) => (note === undefined ? [] : [`${path}: ${note}`]));
  return list('Read in part', noted, noted.length);
}

function askedFor(read: readonly SourceReport[]): readonly string[] {
  const asked = read.flatMap(({ path, longestLine }) =>
    longestLine === undefined ? [] : [`${path}: ${LONGEST_LINE}: ${lineText(longestLine)}`],
  );
  return list('Asked for while the file was read', asked);
}

/** A heading with its first entries; empty without entries. `total`: a number shown behind the heading; 0: none. */
function list(title: string, texts: readonly string[], total = 0): readonly string[] {
  if (texts.length === 0) return [];
  const more = texts.length > TOP ? [`${INDENT}${INDENT}and ${number(texts.length - TOP)} more`] : [];
  const shown = texts
    .slice(0, TOP)
    .map((text) => `${INDENT}${INDENT}${clip(withoutMentions(oneLine(text)), COLUMNS - 4)}`);
  return ['', `${INDENT}${title}${total > 0 ? `: ${number(total)}` : ''}`, ...shown, ...more];
}

function indented(text: string): readonly string[] {
  return wrap(text, COLUMNS - 4).map((line) => `${INDENT}${INDENT}${line}`);
}

function ranked(counts: ReadonlyMap<string, number>): readonly (readonly [string, number])[] {
  return [...counts].sort((a, b) => b[1] - a[1] || order(a[0], b[0]));
}

function packageOf(specifier: string): string {
  const depth = specifier.startsWith('@') ? 2 : 1;
  return specifier.startsWith('node:') ? specifier : specifier.split('/').slice(0, depth).join('/');
}

function resolveImport(from: string, specifier: string, known: ReadonlySet<string>): string | undefined {
  if (!specifier.startsWith('.')) return undefined;
  const path = normalize(join(dirname(from), specifier));
  const stem = path.slice(0, path.length - extname(path).length);
  const candidates = [
    path,
    `${stem}.ts`,
    `${stem}.tsx`,
    `${path}.ts`,
    `${path}.js`,
    `${path}/index.ts`,
    `${path}/index.js`,
  ];
  return candidates.find((candidate) => known.has(candidate));
}

/** Removes each `@` of a text: the runtime would send an answer with `@name` to the child of that name. */
function withoutMentions(text: string): string {
  return text.replaceAll('@', '');
}

function order(a: string, b: string): number {
  return a < b ? -1 : 1;
}
