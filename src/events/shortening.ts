/** Shorter forms of texts and values for people. Pure; a text is cut between code points, never inside one. */

/** The line that stands for omitted lines. */
const MORE = '...';
/** The text that marks the cut in the middle of a text. */
const CUT = '\n[...truncated...]\n';
/** Maximum UTF-16 units of a text that is cut in the middle, including the mark of the cut. */
export const MIDDLE_CHARACTERS_MAX = 500;
/** Levels of a value that are written out. Deeper levels would not be readable. */
const DEPTH_MAX = 32;
const INDENT = '  ';

/** The first `count` lines, followed by a line of dots when the text has more lines. */
export function firstLines(text: string, count: number): string {
  let end = -1;
  for (let line = 0; line < count; line += 1) {
    end = text.indexOf('\n', end + 1);
    if (end === -1) return text;
  }
  return `${text.slice(0, end)}\n${MORE}`;
}

/** The text, or its head and tail around a line that marks the cut: at most `MIDDLE_CHARACTERS_MAX` UTF-16 units. */
export function cutMiddle(text: string): string {
  if (text.length <= MIDDLE_CHARACTERS_MAX) return text;
  const room = MIDDLE_CHARACTERS_MAX - CUT.length;
  const head = Math.ceil(room / 2);
  const headEnd = isHighSurrogate(text, head - 1) ? head - 1 : head;
  const tail = text.length - Math.floor(room / 2);
  const tailStart = isHighSurrogate(text, tail - 1) ? tail + 1 : tail;
  return `${text.slice(0, headEnd)}${CUT}${text.slice(tailStart)}`;
}

function isHighSurrogate(text: string, index: number): boolean {
  const unit = text.charCodeAt(index);
  return unit >= 0xd800 && unit <= 0xdbff;
}

/**
 * A plain value as indented text: one `key: value` per line, lists of simple values on one line, other lists with
 * dashes. The text is for people, not for parsers.
 */
export function compactText(value: unknown): string {
  return linesOf(value, 0).join('\n');
}

function linesOf(value: unknown, depth: number): readonly string[] {
  if (isSimple(value)) return [simpleText(value)];
  if (depth >= DEPTH_MAX) return [MORE];
  if (Array.isArray(value)) {
    if (value.every(isSimple)) return [`[${value.map(simpleText).join(', ')}]`];
    return value.flatMap((item) => {
      const [first = '', ...rest] = linesOf(item, depth + 1);
      return [`- ${first}`, ...rest.map((line) => INDENT + line)];
    });
  }
  return Object.entries(value as object).flatMap(([key, member]) => {
    const lines = linesOf(member, depth + 1);
    const isOneLine = isSimple(member) || (Array.isArray(member) && member.every(isSimple)) || lines.length === 0;
    if (isOneLine) return [`${key}: ${lines[0] ?? '{}'}`];
    return [`${key}:`, ...lines.map((line) => INDENT + line)];
  });
}

function isSimple(value: unknown): boolean {
  return typeof value !== 'object' || value === null;
}

function simpleText(value: unknown): string {
  return typeof value === 'string' ? value : String(value);
}
