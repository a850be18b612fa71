/**
 * Checks the language of comments and of Markdown: no phrase that needs a second reading, one word for one thing.
 * Prints each finding as `file:line: phrase: instead`, and exits 1 when there is one. Words in backticks, in code
 * blocks and in strings are not checked, nor are the test titles that `test/COVERAGE.md` quotes.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { commentsOf } from './import-scanner.mjs';

/** The forbidden phrases, each with its replacement. */
const ruled = [
  [/\b(?:some|no)body\b/giu, 'name the subject'],
  [/\bwhoever\b/giu, 'name the subject'],
  [/\banew\b/giu, '"again", or the verb'],
  [/\bof its own\b/giu, '"its own", or "separate"'],
  [/\b(?:goes|go|going|went) on\b/giu, '"continues", "resumes"'],
  [/\b(?:is|are|was|were) out\b(?! of)/giu, '"in flight"'],
  [/\bat hand\b/giu, '"available", "in memory"'],
  [/\b(?:tell|tells|told|telling|teller)\b/giu, '"publish", "notify", "reply", "report", "says"'],
  [/\bhears?\b|\bheard\b/giu, '"subscriber", "receives"'],
  [/\b(?:muses?|sisters?)\b/giu, '"enricher"'],
  [/\b(?:parked|wedged|poisoned)\b/giu, '"blocked", with its reason'],
  [/\bturns? of (?:the|its|a|one) (?:event )?loop\b/giu, '"tick"'],
  [/\bis to be had\b|\bat last\b|\bcome[s]? to its end\b/giu, 'say it plainly'],
  [/\bshelf\b/giu, '"result store"'],
];
/** A sentence that begins a comment, a heading or a list item without a subject. */
const headless = /^(?:What|Who|Where|Of|As) [a-z]/u;

/** Folders and files that are checked. */
const held = ['src', 'actors', 'bench', 'scripts', 'README.md', 'ARCHITECTURE.md', 'GUARANTEES.md', 'docs', 'test'];

const project = join(dirname(fileURLToPath(import.meta.url)), '..');
// With paths as arguments, only those are checked.
const asked = process.argv.slice(2);
const findings = [];
for (const path of asked.length > 0 ? asked : held) visit(path);
for (const finding of findings) console.error(finding);
if (findings.length > 0) console.error(`check-language: ${findings.length} findings`);
process.exit(findings.length > 0 ? 1 : 0);

function visit(path) {
  if (/(?:^|\/)(?:node_modules|dist)$/u.test(path)) return;
  const whole = resolve(project, path);
  if (statSync(whole).isDirectory()) {
    for (const name of readdirSync(whole).sort()) visit(`${path.replace(/\/$/u, '')}/${name}`);
    return;
  }
  if (path.endsWith('.md')) checkProse(path, markdownOf(readFileSync(whole, 'utf8')), 1);
  else if (/\.(?:ts|tsx|mjs)$/u.test(path) && path !== 'scripts/check-language.mjs')
    for (const { text, line } of commentsOf(readFileSync(whole, 'utf8'))) checkProse(path, text, line);
}

/** Markdown without code and quoted test titles: fenced blocks and the rows of `test/COVERAGE.md` are blanked out. */
function markdownOf(text) {
  return text.replace(/^```[\s\S]*?^```|^\| [FHS]\d+ \|.*$/gmu, (block) => block.replace(/[^\n]/gu, ' '));
}

function checkProse(path, text, firstLine) {
  // Quoted words and code are not prose of the project.
  const prose = text.replace(/`[^`\n]*`|"[^"\n]*"/gu, (quoted) => quoted.replace(/[^\n]/gu, '_'));
  for (const [index, line] of prose.split('\n').entries()) {
    const report = (found, instead) => findings.push(`${path}:${firstLine + index}: ${found.trim()}: ${instead}`);
    for (const [phrase, instead] of ruled) for (const [found] of line.matchAll(phrase)) report(found, instead);
    const isStart = index === 0 || prose.split('\n')[index - 1]?.trim() === '' || /^\s*(?:[-*#]|[A-Z]\d+ )/u.test(line);
    const sentence = line.replace(/^[\s*#-]+/u, '').replace(/^[A-Z]\d+\s+/u, '');
    const [found] = headless.exec(sentence) ?? [];
    if (isStart && found !== undefined) report(sentence.slice(0, 30), 'begin with the subject');
  }
}
