/**
 * A small static review of one source text, by rules: counts, names, the longest function, open marks such as TODO. It
 * reads formatting, not grammar: a function ends where its indentation ends. Deterministic and pure.
 */
import { extname } from 'node:path/posix';
import { defined } from '../../base/defined.ts';

/** A function and its extent. `at`: its first line, from 1. */
export interface FunctionSpan {
  readonly name: string;
  readonly lines: number;
  readonly at: number;
}

/** The longest line of a text. `at`: its number, from 1. */
export interface LongestLine {
  readonly characters: number;
  readonly at: number;
}

/** The facts that the rules found in a text. */
export interface SourceFacts {
  /** First sentence of the comment at the start of the file; '' when there is none. */
  readonly summary: string;
  readonly lines: number;
  readonly blank: number;
  readonly comment: number;
  /** Names that the file exports, in order; empty for languages that the rules do not know. */
  readonly exports: readonly string[];
  /** Imported modules, each once, in order. */
  readonly imports: readonly string[];
  readonly longest?: FunctionSpan;
  /** `TODO at line 12`, in order. */
  readonly marks: readonly string[];
}

interface Language {
  readonly isHash: boolean;
  /** True if a block is closed by a separate line (a brace, an `end`), which belongs to the block. */
  readonly closes: boolean;
  readonly exported: readonly RegExp[];
  readonly imported: readonly RegExp[];
  readonly functions: readonly RegExp[];
}

const SCRIPT: Language = {
  isHash: false,
  closes: true,
  exported: [
    /^export\s+(?:declare\s+|default\s+|abstract\s+|async\s+)*(?:function\s*\*?|class|const\s+enum|const|let|var|interface|type|enum|namespace)\s+([\w$]+)/,
    /^(?:module\.)?exports\.([\w$]+)\s*=/,
  ],
  imported: [
    /^(?:import|export)\b[^'"]*\bfrom\s+['"]([^'"]+)['"]/,
    /^\}\s*from\s+['"]([^'"]+)['"]/,
    /^import\s+['"]([^'"]+)['"]/,
    /\brequire\(['"]([^'"]+)['"]\)/,
  ],
  functions: [
    /^\s*(?:export\s+)?(?:default\s+)?(?:async\s+)?function\s*\*?\s*([\w$]+)/,
    /^\s*(?:export\s+)?(?:const|let|var)\s+([\w$]+)\b.*=>\s*\{$/,
    /^\s+(?:(?:public|private|protected|static|override|async|get|set)\s+|\*\s*)*(#?[\w$]+)(?:<[^(]*>)?\((?:[^)]*\)\s*(?::[^={]+)?\{)?$/,
  ],
};
const PYTHON: Language = {
  isHash: true,
  closes: false,
  exported: [/^(?:async\s+def|def|class)\s+([A-Za-z]\w*)/],
  imported: [/^from\s+(\S+)\s+import\b/, /^import\s+([\w.]+)/],
  functions: [/^\s*(?:async\s+)?def\s+(\w+)/],
};
const GO: Language = {
  isHash: false,
  closes: true,
  exported: [/^(?:func|type|var|const)\s+(?:\([^)]*\)\s*)?([A-Z]\w*)/],
  imported: [/^import\s+(?:\w+\s+)?"([^"]+)"/, /^\t(?:\w+\s+)?"([^"]+)"$/],
  functions: [/^func\s+(?:\([^)]*\)\s*)?(\w+)/],
};
const RUST: Language = {
  isHash: false,
  closes: true,
  exported: [/^pub\s+(?:async\s+|unsafe\s+|const\s+)*(?:fn|struct|enum|trait|type|mod|const|static)\s+(\w+)/],
  imported: [/^(?:pub\s+)?use\s+([\w:]+)/],
  functions: [/^\s*(?:pub(?:\([^)]*\))?\s+)?(?:async\s+|unsafe\s+|const\s+)*fn\s+(\w+)/],
};
const OTHER: Language = { isHash: false, closes: true, exported: [], imported: [], functions: [] };
const HASHED: Language = { ...OTHER, isHash: true };
const BY_EXTENSION: Readonly<Record<string, Language>> = {
  '.py': PYTHON,
  '.go': GO,
  '.rs': RUST,
  '.rb': HASHED,
  '.sh': HASHED,
  '.ex': HASHED,
  '.exs': HASHED,
};
const SCRIPT_EXTENSION = /^\.(?:[cm]?[jt]sx?|vue|svelte)$/;
/** Words that open a block but are not function names. */
const NOT_NAMES: ReadonlySet<string> = new Set([
  ...['if', 'for', 'while', 'switch', 'catch', 'with', 'return', 'function', 'else', 'do', 'try'],
  ...['await', 'throw', 'new', 'typeof', 'super', 'import', 'require', 'yield'],
]);
/** A mark counts only at the start of a comment: later in a text the word is a mere mention. */
const MARK = /(?:\/\/|\/\*+|^\s*\*|#|--|<!--)\s*(TODO|FIXME|HACK|XXX)\b/;
/** The length is bounded, because an unclosed list would otherwise be scanned again from each `export {`. */
const EXPORT_LIST = /^export\s+(?:type\s+)?\{([^}]{0,2000})\}/gm;
const SUMMARY_CHARACTERS = 160;

/** The facts of one text; `path` decides the language. */
export function analyseSource(path: string, text: string): SourceFacts {
  const language = languageOf(path);
  const lines = linesOf(text);
  const comments = commentLines(lines, language);
  const longest = longestFunction(lines, comments, language);
  return {
    summary: headSummary(lines, comments, language),
    lines: lines.length,
    blank: lines.filter((line) => line.trim() === '').length,
    comment: comments.filter(Boolean).length,
    exports: exportsOf(text, lines, language),
    imports: matches(lines, language.imported),
    ...defined({ longest }),
    marks: marksOf(lines),
  };
}

/** The longest line of a text, the first of several; undefined for a text without lines. */
export function longestLineOf(text: string): LongestLine | undefined {
  let longest: LongestLine | undefined;
  for (const [index, line] of linesOf(text).entries()) {
    if (longest === undefined || line.length > longest.characters) {
      longest = { characters: line.length, at: index + 1 };
    }
  }
  return longest;
}

function languageOf(path: string): Language {
  const extension = extname(path).toLowerCase();
  return SCRIPT_EXTENSION.test(extension) ? SCRIPT : (BY_EXTENSION[extension] ?? OTHER);
}

function linesOf(text: string): readonly string[] {
  if (text === '') return [];
  const lines = text.split(/\r?\n/);
  if (lines.at(-1) === '') lines.pop();
  return lines;
}

/** For each line, whether it contains only a comment. */
function commentLines(lines: readonly string[], language: Language): readonly boolean[] {
  let end: string | undefined;
  return lines.map((line) => {
    const text = line.trim();
    if (end !== undefined) {
      if (text.includes(end)) end = undefined;
      return true;
    }
    if (text === '') return false;
    if (language.isHash) {
      const quote = /^(?:"""|''')/.exec(text)?.[0];
      if (quote === undefined) return text.startsWith('#');
      if (text.indexOf(quote, quote.length) === -1) end = quote;
      return true;
    }
    if (!text.startsWith('/*')) return text.startsWith('//');
    if (!text.includes('*/', 2)) end = '*/';
    return true;
  });
}

/** The first sentence of the comment at the start of the file, after `#!` and empty lines. */
function headSummary(lines: readonly string[], comments: readonly boolean[], language: Language): string {
  let index = lines[0]?.startsWith('#!') === true ? 1 : 0;
  while (index < lines.length && lines[index]?.trim() === '') index += 1;
  const words: string[] = [];
  for (; comments[index] === true; index += 1) {
    const line = lines[index] ?? '';
    const text = bareComment(line, language);
    if (text === '') {
      if (words.length > 0) break;
    } else {
      words.push(text);
    }
    // The summary ends with the first comment, even if another comment follows directly.
    if (line.includes('*/')) break;
  }
  const prose = words.join(' ');
  const sentence = /^.*?[.!?](?=\s|$)/.exec(prose)?.[0] ?? prose;
  return sentence.slice(0, SUMMARY_CHARACTERS).trim();
}

function bareComment(line: string, language: Language): string {
  const text = line.trim();
  if (language.isHash) return text.replace(/^(?:#+|"""|''')\s?|(?:"""|''')$/g, '').trim();
  if (text.startsWith('*/')) return '';
  const end = text.indexOf('*/', 2);
  const inside = end === -1 ? text : text.slice(0, end);
  return inside.replace(/^(?:\/\/[/!]?|\/\*+|\*+)/, '').trim();
}

function exportsOf(text: string, lines: readonly string[], language: Language): readonly string[] {
  const names = new Set(matches(lines, language.exported));
  if (language !== SCRIPT) return [...names];
  for (const [, list = ''] of text.matchAll(EXPORT_LIST)) {
    for (const item of list.split(',')) {
      const name = item
        .trim()
        .replace(/^type\s+/, '')
        .split(/\s+as\s+/)
        .at(-1);
      if (name !== undefined && /^[\w$]+$/.test(name)) names.add(name);
    }
  }
  if (names.size === 0 && lines.some((line) => line.startsWith('export default '))) names.add('default');
  return [...names];
}

/** The first group of the first matching pattern of each line, each value once, in order. */
function matches(lines: readonly string[], patterns: readonly RegExp[]): readonly string[] {
  const found = new Set<string>();
  for (const line of lines) {
    for (const pattern of patterns) {
      const name = pattern.exec(line)?.[1];
      if (name === undefined) continue;
      found.add(name);
      break;
    }
  }
  return [...found];
}

function longestFunction(
  lines: readonly string[],
  comments: readonly boolean[],
  language: Language,
): FunctionSpan | undefined {
  let longest: FunctionSpan | undefined;
  for (const [index, line] of lines.entries()) {
    if (comments[index] === true) continue;
    const name = functionName(line, language);
    if (name === undefined) continue;
    const length = extent(lines, index, language);
    if (length > (longest?.lines ?? 0)) longest = { name, lines: length, at: index + 1 };
  }
  return longest;
}

function functionName(line: string, language: Language): string | undefined {
  for (const pattern of language.functions) {
    const name = pattern.exec(line)?.[1];
    if (name !== undefined && !NOT_NAMES.has(name)) return name;
  }
  return undefined;
}

/**
 * Number of lines of the block that begins at `start`, up to the next line that is not indented deeper; 0 for a call.
 */
function extent(lines: readonly string[], start: number, language: Language): number {
  const first = lines[start] ?? '';
  const depth = indentation(first);
  let last = start;
  let isOpen = first.trimEnd().endsWith('{') || !language.closes;
  for (let index = start + 1; index < lines.length; index += 1) {
    const line = lines[index] ?? '';
    if (line.trim() === '') continue;
    if (indentation(line) > depth) {
      last = index;
      continue;
    }
    if (!language.closes) break;
    // A line such as `): string {` continues the head of a function, whereas `);` ends a call written over several
    // lines.
    const text = line.trim();
    if (!isOpen && /^[)\]}]/.test(text) && text.endsWith('{')) {
      isOpen = true;
      last = index;
      continue;
    }
    if (isOpen && /^[})\]]|^end\b/.test(text)) last = index;
    break;
  }
  return isOpen || last === start ? last - start + 1 : 0;
}

function indentation(line: string): number {
  return line.length - line.trimStart().length;
}

function marksOf(lines: readonly string[]): readonly string[] {
  return lines.flatMap((line, index) => {
    const mark = MARK.exec(line)?.[1];
    return mark === undefined ? [] : [`${mark} at line ${index + 1}`];
  });
}
