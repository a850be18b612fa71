/** Front matter: a YAML mapping between two lines of three hyphens, and the text below it. Pure. */
import { parse } from 'yaml';
import { isRecord } from '../base/json.ts';

/** The parsed mapping, and the text below it. */
export interface FrontMatter {
  readonly data: Readonly<Record<string, unknown>>;
  /** Without blank lines at both ends. */
  readonly body: string;
}

const FENCE = /^---[ \t]*$/u;

/** Splits a text. Throws an Error that names the missing part, or the error of the YAML parser. */
export function parseFrontMatter(text: string): FrontMatter {
  const lines = text.replace(/^\u{feff}/u, '').split(/\r?\n/u);
  if (!FENCE.test(lines[0] ?? '')) throw new Error('it does not begin with front matter (a line of three hyphens)');
  const end = lines.findIndex((line, index) => index > 0 && FENCE.test(line));
  if (end === -1) throw new Error('its front matter does not end (a line of three hyphens)');
  // The core schema creates plain data only. Without aliases a text of a few lines cannot become a value of gigabytes.
  const data: unknown = parse(lines.slice(1, end).join('\n'), {
    schema: 'core',
    maxAliasCount: 0,
    logLevel: 'error',
    prettyErrors: false,
  });
  if (!isRecord(data)) throw new Error('its front matter is not a mapping');
  return {
    data,
    body: lines
      .slice(end + 1)
      .join('\n')
      .trim(),
  };
}
