/** Text layout for a terminal: printable characters, display width, cutting and padding. Pure. */

/** Control characters and direction overrides: a file name or a model's text must not control the terminal. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the expression looks for these characters
const UNPRINTABLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u;
const ZERO = /\p{Mark}|\p{Cf}|\u200b/u;
const ELLIPSIS = '…';
// The format is created once: a format costs more than formatting a thousand numbers with it.
const WHOLE = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const MS_PER_SECOND = 1_000;
const SECONDS = [
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'm'],
] as const;
const FORMATS: readonly Intl.NumberFormat[] = [
  WHOLE,
  new Intl.NumberFormat('en-US', { minimumFractionDigits: 1, maximumFractionDigits: 1 }),
];

/** The text without terminal control characters; line ends and tabs stay. */
export function printable(text: string): string {
  return text.replaceAll('\r\n', '\n').replace(UNPRINTABLE, '�');
}

/**
 * JSON on one line without terminal control characters. Control characters that JSON allows unescaped are escaped, so
 * the text parses to the same value.
 */
export function printableJson(value: unknown): string {
  return printableJsonText(JSON.stringify(value));
}

/** Does the same as `printableJson`, for a text that is already JSON. */
export function printableJsonText(json: string): string {
  return json.replace(UNPRINTABLE, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** The text on one line: printable, with each run of blanks as one blank. */
export function oneLine(text: string): string {
  return printable(text).replace(/\s+/g, ' ').trim();
}

/** Number of columns of a text without line ends. */
export function displayWidth(text: string): number {
  let width = 0;
  for (const character of text) width += widthOf(character);
  return width;
}

/** A text of at most `width` columns: a longer text is cut and ends in an ellipsis. */
export function clip(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  let cut = '';
  let used = 0;
  for (const character of text) {
    used += widthOf(character);
    if (used > width - 1) break;
    cut += character;
  }
  return width < 1 ? '' : cut + ELLIPSIS;
}

/** The end of a text, at most `width` columns. It is for paths, whose end says most. */
export function clipEnd(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  const characters = [...text];
  let used = 0;
  let from = characters.length;
  while (from > 0 && used + widthOf(characters[from - 1] ?? '') <= width - 1) {
    from -= 1;
    used += widthOf(characters[from] ?? '');
  }
  return width < 1 ? '' : ELLIPSIS + characters.slice(from).join('');
}

/** A text of exactly `width` columns, aligned left. */
export function left(text: string, width: number): string {
  const fitted = clip(text, width);
  return fitted + ' '.repeat(Math.max(0, width - displayWidth(fitted)));
}

/** A text of exactly `width` columns, aligned right. */
export function right(text: string, width: number): string {
  const fitted = clip(text, width);
  return ' '.repeat(Math.max(0, width - displayWidth(fitted))) + fitted;
}

/** Breaks a text between words into lines of at most `width` columns. */
export function wrap(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && displayWidth(line) + 1 + displayWidth(word) > width) {
      lines.push(line);
      line = word;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  return [...lines, line];
}

/** Formats a number: `1,234`, or with one digit after the point. */
export function number(value: number, digits: 0 | 1 = 0): string {
  return (FORMATS[digits] ?? WHOLE).format(value);
}

/** A count and its noun: `1 file`, `2 files`. */
export function counted(count: number, noun: string, plural = `${noun}s`): string {
  return `${number(count)} ${count === 1 ? noun : plural}`;
}

/** An error on one line: its code and its message. */
export function errorText({ code, message }: { readonly code: string; readonly message: string }): string {
  return oneLine(`${code}: ${message}`);
}

/** A duration in its largest unit: `12s`, `3m`, `5h`, `2d`. */
export function ageText(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / MS_PER_SECOND));
  const unit = SECONDS.find(([size]) => seconds >= size);
  return unit === undefined ? `${seconds}s` : `${Math.floor(seconds / unit[0])}${unit[1]}`;
}

function widthOf(character: string): number {
  if (ZERO.test(character)) return 0;
  return WIDE.test(character) ? 2 : 1;
}
