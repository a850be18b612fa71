/**
 * Shortens long results for the model (contract §5.4 with Δ21). Pure: the caller decides where the whole text is kept.
 */
import { type Limits, TRUNCATION_EDGE_LINES } from '../base/bounds.ts';
import { cutText } from '../base/json.ts';
import type { Settings } from '../base/settings.ts';
import { headOfBytes, tailOfBytes } from './result-text.ts';

/** The options of shortening. */
export interface TruncationOptions {
  /** A text with more characters (code points) is shortened. `Infinity`: characters do not count. */
  readonly charactersMax: number;
  /** A text with more UTF-8 bytes is always shortened. */
  readonly bytesMax: number;
  /** The reason shown in the notice: see `toolTruncationReason`. */
  readonly reason?: string;
  /** For the notice: the reference under which the whole text can be read. Missing: the text could not be kept. */
  readonly reference?: string;
}

/** A text within its bounds, and the whole text when they differ. */
export interface Truncated {
  readonly text: string;
  /** Present when the text was shortened: keep it under the reference. */
  readonly whole?: string;
}

/** A part of a reason that promises the first and last lines, and the text in its place if these lines are cut. */
const EDGES_SHOWN = `first/last ${TRUNCATION_EDGE_LINES} lines`;
const PARTS_SHOWN = 'its beginning and end';

/** The reason shown for a tool's result. */
export function toolTruncationReason(toolName: string): string {
  return `${toolName} output displays ${EDGES_SHOWN}`;
}

/** How a child's reply is shortened before its parent stores it. */
export function childReplyBounds({
  settings,
  limits,
}: {
  readonly settings: Settings;
  readonly limits: Limits;
}): TruncationOptions {
  return {
    charactersMax: settings.tools.maxSubagentResponseChars,
    bytesMax: limits.toolResultBytes,
    reason: toolTruncationReason('sub-agent'),
  };
}

/**
 * `text` unchanged when it is within both bounds. Otherwise its first and last 10 lines around a notice. Both parts are
 * cut to the bounds on code-point borders, so that one endless line is also shortened (Δ21). The result is within
 * `charactersMax` and `bytesMax` whenever they have room for the notice.
 */
export function truncateResult(text: string, options: TruncationOptions): Truncated {
  const { charactersMax, bytesMax } = options;
  if (!exceedsCharacters(text, charactersMax) && !exceedsBytes(text, bytesMax)) return { text };
  const whole = cutTo(text, options);
  // If even the first and last lines are cut, the notice must not promise them.
  const { reason } = options;
  if (!whole.isCut || reason?.includes(EDGES_SHOWN) !== true) return { text: whole.text, whole: text };
  return { text: cutTo(text, { ...options, reason: reason.replace(EDGES_SHOWN, PARTS_SHOWN) }).text, whole: text };
}

/** The shortened text. `isCut`: even the first and last lines are incomplete. */
function cutTo(text: string, options: TruncationOptions): { readonly text: string; readonly isCut: boolean } {
  const { charactersMax, bytesMax } = options;
  const notice = noticeOf(lineCount(text), options);
  const characters = roomOf(charactersMax, notice.length);
  const bytes = roomOf(bytesMax, Buffer.byteLength(notice));
  const [head, tail] = edges(text);
  const byCharacters = share(head, tail, characters, (part) => part.length, {
    head: cutText,
    tail: endOf,
  });
  const [first, last] = share(...byCharacters, bytes, (part) => Buffer.byteLength(part), {
    head: headOfBytes,
    tail: tailOfBytes,
  });
  return { text: `${first}${notice}${last}`, isCut: first !== head || last !== tail };
}

function exceedsCharacters(text: string, max: number): boolean {
  if (text.length <= max) return false;
  if (text.length > 2 * max) return true;
  let count = 0;
  for (const _point of text) {
    count += 1;
    if (count > max) return true;
  }
  return false;
}

function exceedsBytes(text: string, max: number): boolean {
  return text.length > max || (text.length * 3 > max && Buffer.byteLength(text) > max);
}

function noticeOf(lines: number, { reason, reference }: TruncationOptions): string {
  const why = reason === undefined ? '' : ` — ${reason}`;
  return [
    '\n\n---',
    `Response truncated${why} (${lines} lines total)`,
    ...(reference === undefined
      ? ['The whole text could not be saved; what is left out is lost.']
      : [`The whole text is saved to: ${reference}`, 'Use read_file with offset/limit to see the rest.']),
    '---\n\n',
  ].join('\n');
}

function roomOf(max: number, noticeSize: number): number {
  return Math.max(0, max - noticeSize);
}

/** The number of lines as an editor counts them: a newline at the very end starts no line. */
function lineCount(text: string): number {
  let count = text === '' || text.endsWith('\n') ? 0 : 1;
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) count += 1;
  return count;
}

/** The first and the last lines. If the text has no lines between these, its two halves. */
function edges(text: string): readonly [string, string] {
  if (lineCount(text) <= 2 * TRUNCATION_EDGE_LINES) {
    const middle = headLength(text);
    return [text.slice(0, middle), text.slice(middle)];
  }
  let head = -1;
  for (let line = 0; line < TRUNCATION_EDGE_LINES; line += 1) head = text.indexOf('\n', head + 1);
  let tail = text.endsWith('\n') ? text.length - 1 : text.length;
  for (let line = 0; line < TRUNCATION_EDGE_LINES; line += 1) tail = text.lastIndexOf('\n', tail - 1);
  return [text.slice(0, head), text.slice(tail + 1)];
}

function headLength(text: string): number {
  return cutText(text, Math.ceil(text.length / 2)).length;
}

/** The end of `text`, at most `charactersMax` UTF-16 units, never starting inside a surrogate pair. */
function endOf(text: string, charactersMax: number): string {
  if (text.length <= charactersMax) return text;
  return text.slice(text.length - charactersMax).replace(/^[\uDC00-\uDFFF]/, '');
}

interface Cuts {
  readonly head: (part: string, size: number) => string;
  readonly tail: (part: string, size: number) => string;
}

/** Cuts both parts to fit `room` together; room that one side does not need goes to the other. */
function share(
  head: string,
  tail: string,
  room: number,
  sizeOf: (part: string) => number,
  cuts: Cuts,
): readonly [string, string] {
  const half = Math.floor(room / 2);
  const [headSize, tailSize] = [sizeOf(head), sizeOf(tail)];
  if (headSize + tailSize <= room) return [head, tail];
  return [cuts.head(head, Math.max(half, room - tailSize)), cuts.tail(tail, Math.max(half, room - headSize))];
}
