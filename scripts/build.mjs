/**
 * Builds `dist`: the entries of the package and of its threads, the chunks they share, their types, and the observer
 * page. Prints nothing on success; otherwise exits 1 with the bundler's message.
 *
 * - All code lies in one folder, so that a thread's entry is found beside whichever chunk starts the thread.
 * - Packages are not bundled: they are imported, so a user has one copy of each. The exceptions are zod and comlink,
 *   because each session thread loads them: the 95 files of zod take 40 ms, and the part in use, as one file, 6. Copies
 *   of zod share their settings and the registry of descriptions, and none of our types is zod's or comlink's. Their
 *   licenses are copied beside them.
 * - The code is not minified and has no source maps, so function names in a stack trace are those of the sources. Some
 *   chunks are minified (`smallChunks`) to keep the package small; those of our own code keep the names of functions.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';
import { minifySync } from 'rolldown/utils';
import { dts } from 'rolldown-plugin-dts';
import { fileName, PROGRAM, SUBPATHS } from './package-entries.mjs';
import { isPackage, threadEntries } from './thread-entries.mjs';

const project = join(dirname(fileURLToPath(import.meta.url)), '..');
const dist = join(project, 'dist');
/** The packages that are bundled, and the name of their chunk. */
const BUNDLED = ['zod', 'comlink'];
const LIBRARIES = 'libraries';
/** Shared chunks: a later one may import an earlier one. */
const SHARED = [LIBRARIES, 'start', 'base', 'threads', 'parts', 'common', 'tools', 'providers', 'host', 'session'];

// Emptied first, so that no import finds the output of a deleted source file.
rmSync(dist, { recursive: true, force: true });
mkdirSync(dist);
await Promise.all([buildCode(), buildTypes()]);
writeFileSync(join(dist, 'licenses.txt'), BUNDLED.map(licenseOf).join('\n'));
await import('./build-observer.mjs');

function entries() {
  const named = Object.entries(SUBPATHS).map(([subpath, source]) => [fileName(subpath), join(project, source)]);
  return Object.fromEntries(named);
}

function licenseOf(name) {
  const folder = join(project, 'node_modules', name);
  return `${name}\n\n${readFileSync(join(folder, 'LICENSE'), 'utf8')}`;
}

async function buildCode() {
  const sharing = sharedChunks();
  const bundle = await rolldown({
    ...common(),
    // The names of the sources would be eight kilobytes of the package.
    experimental: { attachDebugInfo: 'none' },
    external: (id) => !BUNDLED.includes(id) && isPackage(id),
    // comlink names its ES module in `module` alone.
    resolve: { mainFields: ['module', 'main'] },
    input: { ...entries(), [PROGRAM.name]: join(project, PROGRAM.source) },
    plugins: [threadEntries(project), version(), sharing.plugin, smallChunks()],
    // The sources have no effects at import except in entries and a few registries, and package.json says so.
    treeshake: { moduleSideEffects: true },
  });
  await bundle.write({
    dir: dist,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: (chunk) => `chunk-${sourceName(chunk)}.js`,
    codeSplitting: { groups: sharing.groups },
    // Documentation lies in the types.
    comments: { legal: true, annotation: true, jsdoc: false },
    sourcemap: false,
    minify: false,
  });
  await bundle.close();
}

async function buildTypes() {
  const bundle = await rolldown({
    ...common(),
    input: entries(),
    plugins: [dts({ generator: 'oxc', emitDtsOnly: true, sourcemap: false, tsconfig: join(project, 'tsconfig.json') })],
  });
  await bundle.write({ dir: dist, format: 'esm', entryFileNames: '[name].js', chunkFileNames: 'types-[name].js' });
  await bundle.close();
}

/**
 * Chunks by who loads them. `start`: the program before it knows its command, and the host; `base`: the host, and the
 * tool or model threads; `threads`: the session threads, and the tool or model threads; `common`: the host and the
 * session threads; `host` and `session`: one of the two. A model thread imports its provider on use, and a tool thread
 * its tools. They would otherwise load all of `common`, `host` or `session`, so `parts`, `providers` and `tools` hold
 * the files that they share with these. A file's imports are loaded by at least the same, so these chunks import each
 * other in one direction only. The bundler's own chunks hold all other code.
 */
function sharedChunks() {
  const roots = {
    program: PROGRAM.source,
    host: 'src/index.ts',
    session: 'src/runtime/door/shard.worker.ts',
    tools: 'src/tools/threads/tool-threads.worker.ts',
    models: 'src/models/pools/model.worker.ts',
    store: 'src/journal/lmdb/journal.ts',
  };
  const providers = ['models/anthropic/anthropic', 'models/script/provider'];
  const tools = ['edit-file', 'read-file', 'shell.worker', 'think', 'web-get', 'write-file'];
  const onUse = [...providers, ...tools.map((name) => `tools/built-in/${name}`)].map((path) => `src/${path}.ts`);
  const reach = {};
  const entryIds = new Set();
  const chunkOf = (id) => {
    // The session threads also run `read_file` themselves.
    if (entryIds.has(id) && !(reach.onUse.has(id) && reach.session.has(id))) return undefined;
    if (isBundled(id)) return LIBRARIES;
    const host = reach.host.has(id);
    // A session thread imports the database on use, and must not load the host's code with it.
    const session = reach.session.has(id) || (host && reach.store.has(id));
    if (host && reach.program.has(id)) return 'start';
    const others = reach.tools.has(id) || reach.models.has(id);
    if (host && session && others) return 'base';
    const isPart = reach.onUse.has(id);
    if (host && session) return isPart ? 'parts' : 'common';
    // A tool thread would otherwise load all of the host's code for one small file.
    if (host && others) return 'base';
    if (session && others) return 'threads';
    if (host) return isPart ? 'providers' : 'host';
    if (session) return isPart ? 'tools' : 'session';
    return undefined;
  };
  return {
    plugin: {
      name: 'shared-chunks',
      buildEnd() {
        for (const id of this.getModuleIds()) if (this.getModuleInfo(id).isEntry) entryIds.add(id);
        for (const [name, source] of Object.entries(roots)) reach[name] = importsOf(this, [source]);
        reach.onUse = importsOf(this, onUse);
      },
    },
    groups: SHARED.map((name, index) => ({
      name,
      priority: 10 - index,
      test: (id) => chunkOf(id) === name,
    })),
  };
}

/**
 * Minifies chunks that no user's code calls: the bundled packages, whose licenses are beside them, and some of our own.
 * Ours keep the names of their functions, for stack traces.
 */
function smallChunks() {
  const options = new Map([
    [LIBRARIES, { module: true }],
    ...[
      'simulate',
      'command',
      'import-command',
      'inspect-texts',
      'served-reader',
      'stored-sessions',
      'work',
      'ai-model',
      'cluster-journal',
      'compact-copy',
      'edit-file',
      'engine',
      'environment',
      'server',
      'line-client',
      'line-server',
      'line-tls',
      'live-copy',
      'mcp-servers',
      'open-cluster',
      'open-definitions',
      'service',
      'shard-lines',
      'web-get',
      'webhooks',
      'base',
      'parts',
      'providers',
      'start',
      'threads',
      'tools',
      'postgres-driver.js',
      'runtime-search-search.worker.js',
      'tools-built-in-shell.worker.js',
      'cli-review-model.js',
    ].map((name) => [name, { module: true, mangle: false }]),
  ]);
  return {
    name: 'small-chunks',
    renderChunk(code, chunk) {
      const wanted = options.get(chunk.name) ?? options.get(chunk.fileName);
      if (wanted === undefined) return null;
      const { code: small, errors } = minifySync(chunk.fileName, code, wanted);
      if (errors.length > 0) throw errors[0];
      return { code: small };
    },
  };
}

/** True for a file of a bundled package. */
function isBundled(id) {
  return BUNDLED.some((name) => id.split(sep).join('/').includes(`/node_modules/${name}/`));
}

/** These sources, and the files that they import statically. */
function importsOf(context, sources) {
  const found = new Set();
  const visit = (id) => {
    if (found.has(id)) return;
    found.add(id);
    context.getModuleInfo(id)?.importedIds.forEach(visit);
  };
  for (const source of sources) visit(join(project, source));
  return found;
}

/** A chunk has the name of the file that it evaluates last: this file uses the others. */
function sourceName({ name, moduleIds }) {
  return SHARED.includes(name) ? name : basename(moduleIds.at(-1) ?? name, '.ts');
}

function common() {
  return {
    cwd: project,
    platform: 'node',
    external: isPackage,
    logLevel: 'warn',
    checks: { bundlerTimings: false },
    onLog: (level, log, report) => {
      // A command imports at once some files that others import on use.
      if (log.code === 'INEFFECTIVE_DYNAMIC_IMPORT') return;
      if (level === 'warn') throw new Error(log.message);
      report(level, log);
    },
  };
}

/** The version is written into the code: nothing is read when the package is imported. */
function version() {
  const { version: value } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8'));
  return {
    name: 'version',
    load: (id) =>
      id === join(project, 'src', 'runtime', 'protocol', 'version.ts')
        ? { code: `export const VERSION = ${JSON.stringify(value)};\n`, moduleType: 'js' }
        : undefined,
  };
}
