/**
 * Checks `test/COVERAGE.md`: every required row of the behaviour contract names at least one test, and that test
 * exists. The page is a table `| row | test file | test title |`; a pipe inside a title is written `\|`. Prints what is
 * missing and exits 1. The directory to check can be given (default: this project).
 */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Rows of supervision: the behaviours of `actors/supervision/supervisor.ts`, one named test each. */
const supervisionRows = 35;
const requiredRows = [
  // State, mailbox, half-step, tools, memory, search, sub-agents, enrichers, prompt.
  ...rows('F', 1, 134, 3),
  // View modes and the streams of the server.
  ...rows('F', 135, 141, 3),
  // Grants, timeouts, the tools for the shell and for files, MCP servers.
  ...rows('F', 143, 149, 3),
  // Faults: what `test/COVERAGE.md` lists as not tested is not required.
  ...rows('F', 1, 14, 2),
  ...rows('F', 20, 39, 2),
  ...rows('F', 50, 65, 2),
  ...rows('F', 70, 73, 2),
  'F74',
  'F75',
  'F76',
  'F77',
  'F79',
  ...rows('S', 1, supervisionRows, 2),
  // The conversation handle and the history operations.
  ...rows('H', 1, 63, 1),
];

const project = join(dirname(fileURLToPath(import.meta.url)), '..');
const root = resolve(process.argv[2] ?? project);
const problems = [];
const covered = new Set();
const testTexts = new Map();

const page = join(root, 'test', 'COVERAGE.md');
if (existsSync(page)) readFileSync(page, 'utf8').split(/\r?\n/u).forEach(checkLine);
else problems.push('test/COVERAGE.md is missing');

const missing = requiredRows.filter((row) => !covered.has(row));
if (missing.length > 0) problems.push(`rows without a test: ${missing.join(', ')}`);

for (const problem of problems) console.error(`check-coverage: ${problem}`);
process.exit(problems.length > 0 ? 1 : 0);

function rows(letter, first, last, digits) {
  return Array.from({ length: last - first + 1 }, (_, index) => letter + String(first + index).padStart(digits, '0'));
}

/** A line counts when its test exists; a row named only by lines that do not count is reported as missing too. */
function checkLine(line, index) {
  if (!line.trimStart().startsWith('|')) return;
  const cells = line
    .trim()
    .replace(/^\||\|$/gu, '')
    .split(/(?<!\\)\|/u)
    .map((cell) => cell.trim().replaceAll('\\|', '|'));
  const [row = '', file = '', title = ''] = cells.map((cell) => cell.replace(/^`(.*)`$/u, '$1'));
  if (row === 'row' || /^:?-+:?$/u.test(row)) return;
  const where = `test/COVERAGE.md:${index + 1}`;
  if (cells.length !== 3 || title === '') problems.push(`${where}: want | row | test file | test title |`);
  else if (!/^[FHS]\d+$/u.test(row)) problems.push(`${where}: ${JSON.stringify(row)} is not a row id`);
  else if (!testText(file).includes(title))
    problems.push(`${where}: ${row}: no test ${JSON.stringify(title)} in ${file}`);
  else covered.add(row);
}

function testText(file) {
  let text = testTexts.get(file);
  if (text === undefined) {
    const path = join(root, file);
    text = file.endsWith('.test.ts') && existsSync(path) ? readFileSync(path, 'utf8') : '';
    testTexts.set(file, text);
  }
  return text;
}
