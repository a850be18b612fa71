/**
 * Writes `api/troupe.api.md`: the public names of each subpath and the declarations behind them, from the types in
 * `dist`. A change of the public API is then a change of a committed file. `--check` compares instead of writing, and
 * exits 1 if they differ.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fileName, SUBPATHS } from './package-entries.mjs';

const project = join(dirname(fileURLToPath(import.meta.url)), '..');
const dist = join(project, 'dist');
const file = join(project, 'api', 'troupe.api.md');
/** The first line of a declaration in the bundled types: nothing else begins at the margin. */
const DECLARATION = /^(?:export )?(?:declare |abstract |interface |type )/;

const report = reportOf();
if (!process.argv.includes('--check')) {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, report);
} else if (readFileSync(file, 'utf8') !== report) {
  process.stderr.write('api-report: the public API changed; `npm run api-report` writes api/troupe.api.md again\n');
  process.exit(1);
}

function reportOf() {
  const head = [
    '# API report',
    '',
    'Written by `npm run api-report` from the types of the built package; CI compares it. `docs/releases.md` says which',
    'changes of it need which version.',
  ];
  const names = Object.keys(SUBPATHS).flatMap((subpath) => [
    '',
    `## troupe${subpath.slice(1)}`,
    '',
    ...namesOf(subpath).map((name) => `- ${name}`),
  ]);
  const declarations = readdirSync(dist)
    .filter((name) => name.endsWith('.d.ts'))
    .flatMap((name) => declarationsOf(readFileSync(join(dist, name), 'utf8')));
  const unique = [...new Set(declarations)].sort();
  return `${[...head, ...names, '', '## Declarations', '', '```ts', ...unique, '```'].join('\n')}\n`;
}

/** The exported names of a subpath, sorted. */
function namesOf(subpath) {
  const text = readFileSync(join(dist, `${fileName(subpath)}.d.ts`), 'utf8');
  const lists = [...text.matchAll(/^export (?:type )?\{([^}]*)\}/gm)].flatMap(([, list]) => list.split(','));
  const named = lists.map((each) =>
    each
      .trim()
      .replace(/^type /, '')
      .split(' as ')
      .at(-1),
  );
  return named.filter((name) => name !== '').sort();
}

/** The declarations of a file without comments, those that the bundler keeps in one place apart. */
function declarationsOf(text) {
  const lines = text.replaceAll(/^[ \t]*\/\*\*[\s\S]*?\*\/[ \t]*\n/gm, '').split('\n');
  const found = [];
  for (const line of lines) {
    if (/^(?:import|export) (?:type )?(?:\{|\*|[\w$]+ from)|^\/\/|^$/.test(line)) continue;
    if (DECLARATION.test(line)) found.push(line);
    else if (found.length > 0) found.push(`${found.pop()}\n${line}`);
  }
  return found;
}
