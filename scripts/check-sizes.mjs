/**
 * Checks that files and folders stay small enough to read: a file of `src` or `actors` has at most 500 lines, and a
 * folder that holds code has at most 30 files side by side. Style sheets and files whose first line says `@generated`
 * may be longer. Prints each violation, and exits 1 when there is one. The directory to check can be given (default:
 * this project).
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Lines of a file. */
const linesMax = 500;
/** Files side by side in a folder; folders in it do not count. */
const filesMax = 30;
/** Folders whose files have a bound: tests may be long, since their cases stand one after another. */
const bounded = /^(?:src|actors)\//u;
const code = /\.(?:ts|tsx|mts|cts|js|jsx|mjs|cjs)$/u;
/** Folders that tools write. Folders whose name begins with a dot are skipped too. */
const written = new Set(['node_modules', 'dist', 'coverage', 'api-docs']);

const project = join(dirname(fileURLToPath(import.meta.url)), '..');
const root = resolve(process.argv[2] ?? project);
const violations = [];

visit('');

for (const violation of violations) console.error(violation);
if (violations.length > 0) console.error(`check-sizes: ${violations.length} violations`);
process.exit(violations.length > 0 ? 1 : 0);

function visit(folder) {
  const entries = readdirSync(join(root, folder), { withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map(({ name }) => name);
  if (files.length > filesMax && files.some((name) => code.test(name)))
    violations.push(`${folder === '' ? '.' : folder}: ${files.length} files side by side, at most ${filesMax}`);
  for (const name of files.sort()) checkFile(folder === '' ? name : `${folder}/${name}`);
  for (const { name } of entries.filter((entry) => entry.isDirectory()).sort((a, b) => (a.name < b.name ? -1 : 1)))
    if (!written.has(name) && !name.startsWith('.')) visit(folder === '' ? name : `${folder}/${name}`);
}

function checkFile(path) {
  if (!bounded.test(path) || path.endsWith('.css')) return;
  const lines = readFileSync(join(root, path), 'utf8').replace(/\n$/u, '').split('\n');
  if (lines.length > linesMax && !lines[0].includes('@generated'))
    violations.push(`${path}: ${lines.length} lines, at most ${linesMax}`);
}
