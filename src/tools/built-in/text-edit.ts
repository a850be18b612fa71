/** Finds `old_text` in a file's text, and makes the text with `new_text` in its place (contract §11.2). Pure. */
import { EDIT_LINES_NAMED_MAX, EDIT_MATCHES_COUNTED_MAX } from '../../base/bounds.ts';
import { countLines, type Region } from './region-diff.ts';

/** The text to replace and its replacement. */
export interface Wanted {
  readonly oldText: string;
  readonly newText: string;
}

/** The result of the search. */
export type Planned =
  | {
      readonly type: 'edit';
      /** The file's whole text after the edit. */
      readonly text: string;
      /** The replaced region, in the text with LF line ends and without its byte order mark. */
      readonly region: Region;
      /** True if `old_text` was found only by comparing lines without white space. */
      readonly isFuzzy: boolean;
    }
  | { readonly type: 'missing' }
  | {
      readonly type: 'several';
      readonly isFuzzy: boolean;
      /** The number of matches, from 2; if there are very many, counting stops at a bound. */
      readonly count: string;
      /** The line numbers of the first few matches, from 1. */
      readonly lines: string;
    };

const MARK = '\uFEFF';
const CRLF = '\r\n';

/** A part of the text, with LF line ends. */
interface Span {
  readonly start: number;
  readonly end: number;
}

/**
 * The edit of a file's text. Line ends are compared as LF. The inserted text gets the line ends of the replaced text,
 * or of the file. A byte order mark stays. All other text stays exactly as it is.
 */
export function planEdit(fileText: string, wanted: Wanted): Planned {
  const mark = fileText.startsWith(MARK) ? MARK : '';
  const raw = fileText.slice(mark.length);
  const text = withLf(raw);
  const oldText = withLf(unmarked(wanted.oldText, mark));
  const newText = unmarked(wanted.newText, mark);
  const exact = exactSpans(text, oldText);
  const spans = exact.length > 0 ? exact : fuzzySpans(text, oldText);
  const isFuzzy = exact.length === 0;
  const [span] = spans;
  if (span === undefined) return { type: 'missing' };
  if (spans.length > 1) return { type: 'several', isFuzzy, count: countOf(spans), lines: linesOf(text, spans) };
  const from = rawIndex(raw, span.start);
  const to = rawIndex(raw, span.end);
  return {
    type: 'edit',
    text: mark + raw.slice(0, from) + withEndsOf(raw, raw.slice(from, to), newText) + raw.slice(to),
    region: { text, ...span, replacement: withLf(newText) },
    isFuzzy,
  };
}

/**
 * Finds the place where the edit can have put `newText`: before the edit, the text had `oldText` there and nowhere
 * else. In the result `text` is the given text, and `region` describes the edit.
 */
export function unplanEdit(fileText: string, wanted: Wanted): Planned {
  const mark = fileText.startsWith(MARK) ? MARK : '';
  const text = withLf(unmarked(fileText, mark));
  const newText = withLf(unmarked(wanted.newText, mark));
  const oldText = withLf(unmarked(wanted.oldText, mark));
  if (newText === '') return { type: 'missing' };
  const spans = exactSpans(text, newText, EDIT_LINES_NAMED_MAX).filter(({ start, end }) => {
    const before = text.slice(0, start) + oldText + text.slice(end);
    return before.indexOf(oldText) === start && before.indexOf(oldText, start + 1) === -1;
  });
  const [span] = spans;
  if (span === undefined) return { type: 'missing' };
  if (spans.length > 1) return { type: 'several', isFuzzy: false, count: countOf(spans), lines: linesOf(text, spans) };
  const before = text.slice(0, span.start) + oldText + text.slice(span.end);
  const region = { text: before, start: span.start, end: span.start + oldText.length, replacement: newText };
  return { type: 'edit', text: fileText, region, isFuzzy: false };
}

function unmarked(text: string, mark: string): string {
  return mark !== '' && text.startsWith(mark) ? text.slice(mark.length) : text;
}

function withLf(text: string): string {
  return text.replaceAll(CRLF, '\n');
}

/**
 * `text` with the line ends of the replaced text, otherwise those of the file. If the file has only one line, `text`
 * keeps its own line ends.
 */
function withEndsOf(file: string, replaced: string, text: string): string {
  const model = replaced.includes('\n') ? replaced : file;
  const first = model.indexOf('\n');
  if (first === -1) return text;
  const lf = withLf(text);
  return model[first - 1] === '\r' ? lf.replaceAll('\n', CRLF) : lf;
}

/** Translates a position in the text with LF to the position in `raw`. */
function rawIndex(raw: string, index: number): number {
  let removed = 0;
  for (let at = raw.indexOf(CRLF); at !== -1 && at - removed < index; at = raw.indexOf(CRLF, at + CRLF.length))
    removed += 1;
  return index + removed;
}

/**
 * The positions of `part`, at most one more than `countMax`. Overlapping matches count separately, because choosing one
 * of them would be a guess.
 */
function places(text: string, part: string, countMax: number = EDIT_MATCHES_COUNTED_MAX): readonly number[] {
  const found: number[] = [];
  for (let at = text.indexOf(part); at !== -1 && found.length <= countMax; at = text.indexOf(part, at + 1)) {
    found.push(at);
  }
  return found;
}

function exactSpans(text: string, part: string, countMax?: number): readonly Span[] {
  return places(text, part, countMax).map((start) => ({ start, end: start + part.length }));
}

/**
 * Whole lines that equal the lines of `part` if white space is ignored. The line end of the last line is included if
 * `part` ends with a line end.
 */
function fuzzySpans(text: string, part: string): readonly Span[] {
  const isEnded = part.endsWith('\n');
  const needle = bareLines(isEnded ? part.slice(0, -1) : part);
  const hay = bareLines(text);
  const found = places(hay, needle);
  if (found.length === 0) return [];
  const lines = text.split('\n');
  const starts = startsOf(lines);
  const height = countLines(needle, needle.length) - 1;
  return lineIndexes(hay, found).map((first) => {
    const last = first + height - 1;
    const lastEnd = (starts[last] ?? 0) + (lines[last]?.length ?? 0);
    return { start: starts[first] ?? 0, end: isEnded ? Math.min(lastEnd + 1, text.length) : lastEnd };
  });
}

/** The lines without white space, each between two line ends, so that only whole lines are found. */
function bareLines(text: string): string {
  return `\n${text.replace(/[^\S\n]+/g, '')}\n`;
}

function startsOf(lines: readonly string[]): readonly number[] {
  let at = 0;
  return lines.map((line) => {
    const start = at;
    at += line.length + 1;
    return start;
  });
}

function countOf(spans: readonly Span[]): string {
  return spans.length > EDIT_MATCHES_COUNTED_MAX ? `more than ${EDIT_MATCHES_COUNTED_MAX}` : String(spans.length);
}

function linesOf(text: string, spans: readonly Span[]): string {
  const named = spans.slice(0, EDIT_LINES_NAMED_MAX).map(({ start }) => start);
  const numbers = lineIndexes(text, named).map((index) => index + 1);
  return numbers.join(', ') + (spans.length > EDIT_LINES_NAMED_MAX ? ', …' : '');
}

/** The line indexes, from 0, of these positions. The positions ascend, so the text is scanned once. */
function lineIndexes(text: string, ascending: readonly number[]): readonly number[] {
  let from = 0;
  let index = 0;
  return ascending.map((at) => {
    index += countLines(text, at, from);
    from = at;
    return index;
  });
}
