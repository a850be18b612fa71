/**
 * Checks who may import whom. Walks `src` and `actors` of the directory given (default: this project), prints each
 * violation as `file:line: what is wrong`, and exits 1 when there is one.
 *
 * The rules: a file imports its own folder and folders of a lower rank; some packages belong to one folder; the pure
 * folders import nothing from outside the project; code for a browser imports only types of this project; only the
 * tests and the command line import `src/testing`; no file imports itself by way of others. Type imports count as well,
 * with one exception.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { dirname, join, posix, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { importsOf } from './import-scanner.mjs';

const ranks = new Map([
  ['src/base', 0],
  ['src/journal', 1],
  ['src/session', 1],
  ['src/threads', 1],
  ['src/events', 1],
  ['src/context', 2],
  ['src/models', 2],
  ['src/tools', 2],
  ['src/definitions', 2],
  ['src/search', 2],
  ['src/cluster', 2],
  ['actors', 3],
  ['src/runtime', 4],
  ['src/index.ts', 5],
  ['src/server', 6],
  ['src/otel', 6],
  ['src/adapters', 6],
  ['src/postgres', 6],
  ['src/cli', 6],
]);
/**
 * `testing` is outside the order: it may import every folder below the doors, and only tests and the command line
 * import it.
 */
const testing = 'src/testing';
const doors = new Set(['src/server', 'src/otel', 'src/adapters', 'src/postgres', 'src/cli']);
/**
 * Folders that run in a browser: they import values of `values`, types of `words`, and `packages`. Other folders import
 * none of them, save the command line, which reads event streams as the client does.
 */
const browsers = new Map([
  [
    'src/client',
    {
      values: new Set(),
      words: new Set(['src/base', 'src/events', 'src/index.ts', 'src/server']),
      packages: new Set(),
    },
  ],
  ['src/react', { values: new Set(['src/client']), words: new Set(['src/base']), packages: new Set(['react']) }],
  [
    'src/observer',
    {
      values: new Set(['src/client']),
      words: new Set(['src/base', 'src/events']),
      packages: new Set(['preact', '@preact/signals']),
    },
  ],
]);

/** Imports between folders of one rank. A session's fold publishes events, so it knows their types. */
const sameRankAllowed = [
  { from: 'src/session', to: 'src/events', typeOnly: true },
  // The scripted model refuses what the real one refuses, by the same rules.
  { from: 'src/models', to: 'src/context', typeOnly: false },
  // The command line assembles all parts, the server included.
  { from: 'src/cli', to: 'src/server', typeOnly: false },
  // `troupe cluster status` reads the tables of a cluster, which have no other reader without a place in it.
  { from: 'src/cli', to: 'src/postgres', typeOnly: false },
];

/**
 * Ranks inside a folder, lowest first; types count as values do. Folders in one entry share a rank: those joined by `+`
 * import each other, those joined by `|` do not. `.` stands for the files of the folder itself.
 */
const innerRanks = new Map([
  ['src/session', ranked('state', 'rules+history', 'apply|decide', '.')],
  [
    'src/runtime',
    ranked('protocol', 'reading', 'search|shard|webhooks', 'redaction', 'door', 'host', 'events', 'handles'),
  ],
]);

/** The one circle of types: a session spawns children, and a child is a session. */
const typeCircle = new Set(
  ['child', 'family', 'session', 'session-parts'].map((name) => `src/runtime/handles/${name}.ts`),
);

const packageOwners = new Map([
  ['node:worker_threads', 'src/threads/'],
  ['node:tls', 'src/cluster/line/'],
  ['piscina', 'src/threads/'],
  ['comlink', 'src/threads/'],
  ['@anthropic-ai/sdk', 'src/models/anthropic'],
  ['lmdb', 'src/journal/'],
  ['pg', 'src/postgres/'],
  ['yaml', 'src/definitions/'],
  ['htmlparser2', 'src/tools/built-in/'],
  ['@opentelemetry/api', 'src/otel/'],
  ['@modelcontextprotocol/client', 'src/tools/mcp/'],
  ['@modelcontextprotocol/server', 'src/adapters/mcp'],
]);

/** Folders without I/O, and the packages they may use. */
const pureFolders = new Set(['src/session', 'src/context']);
const purePackages = new Set(['zod']);

const project = join(dirname(fileURLToPath(import.meta.url)), '..');
const root = resolve(process.argv[2] ?? project);
const violations = [];
/** File to the files it imports as values, for the search of cycles. */
const graph = new Map();
/** The same with type imports. */
const typeGraph = new Map();
/** Files in a cycle of value imports, which is reported separately. */
const inCycle = new Set();

for (const file of ['src', 'actors'].flatMap((folder) => typeScriptFiles(folder))) checkFile(file);
checkCycles();
checkTypeCircles();

for (const violation of violations) console.error(violation);
if (violations.length > 0) console.error(`check-ranks: ${violations.length} violations`);
process.exit(violations.length > 0 ? 1 : 0);

function typeScriptFiles(folder) {
  if (statSync(join(root, folder), { throwIfNoEntry: false }) === undefined) return [];
  return readdirSync(join(root, folder), { recursive: true })
    .map((name) => `${folder}/${String(name).split(sep).join('/')}`)
    .filter((name) => /\.tsx?$/u.test(name))
    .sort();
}

function checkFile(file) {
  const edges = [];
  graph.set(file, edges);
  const typeEdges = [];
  typeGraph.set(file, typeEdges);
  const from = folderOf(file);
  if (from !== testing && !browsers.has(from) && !ranks.has(from))
    violations.push(`${file}:1: ${from} has no rank; give it one in check-ranks`);
  for (const found of importsOf(readFileSync(join(root, file), 'utf8'))) {
    const where = `${file}:${found.line}`;
    if (!found.specifier.startsWith('.')) {
      checkPackage(where, file, from, packageOf(found.specifier));
      continue;
    }
    const target = posix.normalize(posix.join(posix.dirname(file), found.specifier));
    checkFolder(where, from, folderOf(target), found.typeOnly);
    if (!found.dynamic) typeEdges.push(target);
    if (from === folderOf(target)) checkInner(where, from, innerOf(file), innerOf(target));
    // A type import, or a module that is loaded later, never reads a module that is still being evaluated.
    if (!found.typeOnly && !found.dynamic) edges.push({ target, line: found.line });
  }
}

/** The ranked folder of a path: `src/<folder>`, `actors`, or a file directly in `src`. */
function folderOf(path) {
  const [first, second] = path.split('/');
  return first === 'src' ? `src/${second}` : first;
}

function packageOf(specifier) {
  const bare = specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
  if (bare.startsWith('node:')) return specifier;
  return builtinModules.includes(bare) ? `node:${specifier}` : bare;
}

function checkPackage(where, file, from, name) {
  if (browsers.get(from)?.packages.has(name) === false) {
    violations.push(`${where}: ${from} runs in a browser and may not import ${name}`);
  }
  const owner = packageOwners.get(name);
  if (owner !== undefined && !file.startsWith(owner)) {
    violations.push(`${where}: only ${owner}* imports ${name}`);
  }
  if (pureFolders.has(from) && !purePackages.has(name)) {
    violations.push(`${where}: ${from} is pure and may not import ${name}`);
  }
}

function checkFolder(where, from, to, typeOnly) {
  if (from === to) return;
  const browser = browsers.get(from);
  if (browser !== undefined) {
    if (browser.values.has(to) || (browser.words.has(to) && typeOnly)) return;
    violations.push(`${where}: ${from} may import types of ${[...browser.words].join(' and ')}, nothing else`);
    return;
  }
  if (from === 'src/cli' && to === 'src/client') return;
  // `troupe sim` is the simulator's own door.
  if (to === testing) {
    if (from === 'src/cli') return;
    violations.push(`${where}: only tests import ${testing}`);
    return;
  }
  const rank = ranks.get(to);
  if (rank === undefined) {
    violations.push(`${where}: imports ${to}, which is not part of the library`);
    return;
  }
  if (from === testing) {
    if (doors.has(to)) violations.push(`${where}: ${testing} may not import ${to}`);
    return;
  }
  const ownRank = ranks.get(from);
  if (ownRank === undefined || rank < ownRank) return;
  const excepted = sameRankAllowed.some((rule) => rule.from === from && rule.to === to && (typeOnly || !rule.typeOnly));
  if (!excepted) violations.push(`${where}: ${from} (rank ${ownRank}) may not import ${to} (rank ${rank})`);
}

function ranked(...entries) {
  const places = new Map();
  for (const [rank, entry] of entries.entries())
    for (const name of entry.split(/[+|]/u)) places.set(name, { rank, isOpen: entry.includes('+') });
  return places;
}

/** The folder inside a ranked folder: `rules` of `src/session/rules/answer.ts`, `.` of `src/session/turn.ts`. */
function innerOf(path) {
  const [, , third, ...deeper] = path.split('/');
  return deeper.length > 0 ? third : '.';
}

function checkInner(where, folder, from, to) {
  const places = innerRanks.get(folder);
  if (places === undefined || from === to) return;
  const [own, other] = [places.get(from), places.get(to)];
  if (own === undefined || other === undefined) {
    violations.push(`${where}: ${folder}/${own === undefined ? from : to} has no rank; give it one in check-ranks`);
  } else if (other.rank > own.rank || (other.rank === own.rank && !own.isOpen)) {
    violations.push(
      `${where}: ${folder}/${from} (rank ${own.rank}) may not import ${folder}/${to} (rank ${other.rank})`,
    );
  }
}

/** Searches depth first and enters each file once; an import of a file on the current path closes a cycle. */
function checkCycles() {
  const finished = new Set();
  const path = [];
  const visit = (file) => {
    path.push(file);
    for (const { target, line } of graph.get(file) ?? []) {
      const start = path.indexOf(target);
      if (start !== -1) {
        const cycle = path.slice(start);
        for (const member of cycle) inCycle.add(member);
        violations.push(`${file}:${line}: import cycle: ${[...cycle, target].join(' -> ')}`);
      } else if (!finished.has(target)) visit(target);
    }
    path.pop();
    finished.add(file);
  };
  for (const file of graph.keys()) if (!finished.has(file)) visit(file);
}

/** Files that reach each other by imports, types included: the strongly connected components, by Tarjan's algorithm. */
function checkTypeCircles() {
  const found = new Map();
  const open = [];
  const visit = (file) => {
    const place = { number: found.size, lowest: found.size, isOpen: true };
    found.set(file, place);
    open.push(file);
    for (const target of typeGraph.get(file) ?? []) {
      if (!typeGraph.has(target)) continue;
      const known = found.get(target) ?? visit(target);
      if (known.isOpen) place.lowest = Math.min(place.lowest, known.lowest);
    }
    if (place.lowest !== place.number) return place;
    const circle = open.splice(open.indexOf(file));
    for (const member of circle) found.get(member).isOpen = false;
    if (circle.length > 1 && !circle.every((member) => typeCircle.has(member) || inCycle.has(member)))
      violations.push(`${file}:1: these files import each other, if only for types: ${circle.sort().join(', ')}`);
    return place;
  };
  for (const file of typeGraph.keys()) if (!found.has(file)) visit(file);
}
