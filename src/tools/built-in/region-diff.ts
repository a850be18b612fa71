/**
 * The unified diff of one replaced region. The texts are not compared as a whole: outside the region and the lines
 * around it, only line ends are counted. Pure.
 */

/** Unchanged lines shown before and after the change. */
const CONTEXT_LINES = 3;

/** A text in which one region is replaced; line ends are LF. */
export interface Region {
  readonly text: string;
  /** The start and end of the region, in UTF-16 units; the end is exclusive. */
  readonly start: number;
  readonly end: number;
  readonly replacement: string;
}

/**
 * The diff: one hunk under a header that names `path`; `''` if nothing changed. Lines with which both the region and
 * its replacement begin or end are not changes: they are shown as context.
 */
export function regionDiff(path: string, region: Region): string {
  const { text, start, replacement } = region;
  const lineStart = startOfLine(text, start);
  const opening = text.slice(lineStart, start) + replacement;
  const lineEnd = endOfLines(region, opening);
  const before = linesOf(text.slice(lineStart, lineEnd));
  const after = linesOf(opening + text.slice(region.end, lineEnd));
  const head = sharedHead(before, after);
  const tail = sharedHead(before.slice(head).reverse(), after.slice(head).reverse());
  const removed = before.slice(head, before.length - tail);
  const added = after.slice(head, after.length - tail);
  if (removed.length === 0 && added.length === 0) return '';
  const from = lineStart + lengthOf(before.slice(0, head));
  const leading = linesBefore(text, from);
  const trailing = linesFrom(text, from + lengthOf(removed));
  const lineNumber = countLines(text, from) - leading.length;
  const context = leading.length + trailing.length;
  return [
    `--- ${path}\n+++ ${path}\n`,
    `@@ -${range(lineNumber, context + removed.length)} +${range(lineNumber, context + added.length)} @@\n`,
    ...leading.map((line) => shown(' ', line)),
    ...removed.map((line) => shown('-', line)),
    ...added.map((line) => shown('+', line)),
    ...trailing.map((line) => shown(' ', line)),
  ].join('');
}

/** A range of lines in a hunk header; `from` counts from 0. An empty range names the line before it. */
function range(from: number, count: number): string {
  return `${count === 0 ? from : from + 1},${count}`;
}

function shown(sign: string, line: string): string {
  return line.endsWith('\n') ? sign + line : `${sign}${line}\n\\ No newline at end of file\n`;
}

/** The start of the line that contains this position. */
function startOfLine(text: string, at: number): number {
  return at === 0 ? 0 : text.lastIndexOf('\n', at - 1) + 1;
}

/**
 * The end of the last line that the change touches. If the region and its replacement both end a line, this is the end
 * of the region.
 */
function endOfLines({ text, end }: Region, opening: string): number {
  const isWhole = startOfLine(text, end) === end && (opening === '' || opening.endsWith('\n'));
  if (isWhole) return end;
  const newline = text.indexOf('\n', end);
  return newline === -1 ? text.length : newline + 1;
}

/** The lines, each with its line end. */
function linesOf(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

function sharedHead(one: readonly string[], other: readonly string[]): number {
  let count = 0;
  while (count < one.length && count < other.length && one[count] === other[count]) count += 1;
  return count;
}

function lengthOf(lines: readonly string[]): number {
  return lines.reduce((length, line) => length + line.length, 0);
}

function linesBefore(text: string, at: number): readonly string[] {
  let from = at;
  for (let count = 0; count < CONTEXT_LINES && from > 0; count += 1) from = startOfLine(text, from - 1);
  return linesOf(text.slice(from, at));
}

function linesFrom(text: string, at: number): readonly string[] {
  let to = at;
  for (let count = 0; count < CONTEXT_LINES && to < text.length; count += 1) {
    const newline = text.indexOf('\n', to);
    to = newline === -1 ? text.length : newline + 1;
  }
  return linesOf(text.slice(at, to));
}

/** The number of line ends from `start` to before `end`. */
export function countLines(text: string, end: number, start = 0): number {
  let count = 0;
  for (let at = text.indexOf('\n', start); at !== -1 && at < end; at = text.indexOf('\n', at + 1)) count += 1;
  return count;
}
