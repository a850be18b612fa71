/**
 * Finds the imports of a TypeScript text without a parser: comments, templates and regular expressions are blanked out
 * (so that an import quoted in one does not count), then the import forms are matched in what is left.
 */

/** A slash after one of these begins a regular expression; any other slash divides. */
const beforeRegExp = /(?:^|[(,=:[!&|?{};+*%~^<>-]|\b(?:return|typeof|case|in|of|do|else|void|throw|await|yield))\s*$/u;
const blank = (text) => text.replace(/[^\n]/gu, ' ');

const specifierForms = [
  // import x from '…' · import { x } from '…' · export * from '…' · and the same with `type`
  {
    form: /\b(?:import|export)\s+(type\s+)?(?=[\w$*{])(?:(?!\b(?:import|export)\b)[^'"`;()])*?\bfrom\s*(['"])([^'"\n]+)\2/gu,
    dynamic: false,
  },
  // import '…'
  { form: /\bimport\s*()(['"])([^'"\n]+)\2/gu, dynamic: false },
  // import('…'), as a value and inside a type
  { form: /\bimport\s*\(\s*()(['"])([^'"\n]+)\2/gu, dynamic: true },
];

/**
 * The imports of `source`, in order: `{ specifier, line, typeOnly, dynamic }`. A `type` inside braces leaves a
 * side-effect import behind in the emitted code, so only `import type` and `export type` count as type-only.
 */
export function importsOf(source) {
  const code = maskSource(source);
  const found = [];
  for (const { form, dynamic } of specifierForms) {
    for (const match of code.matchAll(form)) {
      // A type-only default import may be named `type`: `import type from '…'` has no second word.
      const typeOnly =
        match[1] !== undefined && match[1] !== '' && !/^(?:import|export)\s+type\s+from\b/u.test(match[0]);
      found.push({ specifier: match[3], line: lineAt(code, match.index), typeOnly, dynamic });
    }
  }
  return found.sort((a, b) => a.line - b.line);
}

/** `source` with the same length and lines, comments, templates and regular expressions blanked; strings stay. */
export function maskSource(source) {
  let masked = '';
  let at = 0;
  while (at < source.length) {
    const end = tokenEnd(source, at, masked);
    const token = source.slice(at, end);
    masked += isString(token) ? token : token.length > 1 ? blank(token) : token;
    at = end;
  }
  return masked;
}

/** The comments of `source`, in order: `{ text, line, start, end }`, with their marks (`//`, `*`) blanked out. */
export function commentsOf(source) {
  const found = [];
  let masked = '';
  let at = 0;
  while (at < source.length) {
    const end = tokenEnd(source, at, masked);
    const token = source.slice(at, end);
    if (token.startsWith('//') || token.startsWith('/*')) {
      const text = token.replace(/^\/\/|^\/\*+|\*+\/$|^[^\S\n]*\*(?=[^/]|$)/gmu, blank);
      found.push({ text, line: lineAt(source, at), start: at, end });
    }
    masked += isString(token) ? token : token.length > 1 ? blank(token) : token;
    at = end;
  }
  return found;
}

function isString(token) {
  return token.length > 1 && (token[0] === "'" || token[0] === '"');
}

/** The end of the token at `at`: one character, or a whole comment, string, template or regular expression. */
function tokenEnd(source, at, before) {
  const two = source.slice(at, at + 2);
  if (two === '//') return endOrLength(source.indexOf('\n', at), source);
  if (two === '/*') return endOrLength(source.indexOf('*/', at + 2), source, 2);
  const first = source[at];
  if (first === "'" || first === '"') return quotedEnd(source, at, first);
  if (first === '`') return templateEnd(source, at);
  if (first === '/' && beforeRegExp.test(before.slice(-40))) return regExpEnd(source, at);
  return at + 1;
}

function endOrLength(index, source, width = 0) {
  return index === -1 ? source.length : index + width;
}

/**
 * A quoted string ends at its quote. If a line has no closing quote, the mark was an apostrophe, and the token ends
 * with the line.
 */
function quotedEnd(source, at, quote) {
  for (let index = at + 1; index < source.length; index += 1) {
    if (source[index] === '\\') index += 1;
    else if (source[index] === quote) return index + 1;
    else if (source[index] === '\n') return at + 1;
  }
  return at + 1;
}

function templateEnd(source, at) {
  for (let index = at + 1; index < source.length; index += 1) {
    if (source[index] === '\\') index += 1;
    else if (source[index] === '`') return index + 1;
    else if (source.startsWith('${', index)) index = substitutionEnd(source, index + 2) - 1;
  }
  return source.length;
}

/** The position after the closing brace of a template's `${`. The expression may hold strings and templates. */
function substitutionEnd(source, from) {
  let depth = 1;
  let at = from;
  while (at < source.length) {
    if (source[at] === '{') depth += 1;
    if (source[at] === '}') depth -= 1;
    if (depth === 0) return at + 1;
    at = tokenEnd(source, at, source.slice(Math.max(0, at - 40), at));
  }
  return source.length;
}

function regExpEnd(source, at) {
  let inClass = false;
  for (let index = at + 1; index < source.length; index += 1) {
    const character = source[index];
    if (character === '\\') index += 1;
    else if (character === '\n') return at + 1;
    else if (character === '[') inClass = true;
    else if (character === ']') inClass = false;
    else if (character === '/' && !inClass) return index + 1;
  }
  return at + 1;
}

function lineAt(text, index) {
  let line = 1;
  for (let at = text.indexOf('\n'); at !== -1 && at < index; at = text.indexOf('\n', at + 1)) line += 1;
  return line;
}
