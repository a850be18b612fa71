/**
 * Modules that a test run bundles, in the directory `TROUPE_THREADS`: the entries of worker threads, and modules that
 * these import by a computed address; see `bundles.mjs`. A thread that starts from its bundle has no loader hooks until
 * it imports a module of the project that no bundle contains. On Node 20 hooks run on a second thread, and starting that
 * takes as long as starting the first one.
 */
import Module, { createRequire, register, syncBuiltinESMExports } from 'node:module';
import { dirname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import threads, { isMainThread, Worker } from 'node:worker_threads';
import { bundledLibrary } from './libraries.mjs';

const { load } = createRequire(import.meta.url)('./bundled.cjs');
const project = fileURLToPath(new URL('../../', import.meta.url));
/** A thread of a pool starts from this file of the library, and receives its entry later. */
const POOL_THREAD = join(project, 'node_modules', 'piscina', 'dist', 'worker.js');

/** The bundled modules, by path. */
export const BUNDLED = [
  'runtime/door/shard.worker',
  'runtime/search/search.worker',
  'models/pools/model.worker',
  'cluster/cluster.worker',
  'tools/threads/tool-threads.worker',
  'tools/mcp/mcp.worker',
  'testing/simulation/simulation.worker',
  // Tools, models and a driver are imported by their addresses.
  ...['edit-file', 'read-file', 'shell.worker', 'think', 'web-get', 'write-file'].map(
    (name) => `tools/built-in/${name}`,
  ),
  ...['bench/model', 'bench/tools', 'review/contained-tools', 'review/model'].map((name) => `cli/${name}`),
  'postgres/driver',
].map((name) => join(project, 'src', ...`${name}.ts`.split('/')));

/** The name of a bundled module, without its ending. */
export function bundleName(path) {
  return path.slice(project.length, -'.ts'.length).split(sep).join('-');
}

/** A bundle calls this function to import libraries and computed addresses. */
export const OUTER_IMPORT = 'globalThis.troupeImport';

/**
 * Registers the hooks of this thread: at once, or with the first import by a computed address. Threads that this thread
 * starts from a bundled entry start from its bundle.
 */
export function registerHooks() {
  let isRegistered = false;
  const registerOnce = () => {
    if (!isRegistered) register('./hooks.mjs', import.meta.url);
    isRegistered = true;
  };
  const isBundled = startsFromBundle();
  globalThis.troupeImport = async (address) => {
    if (!address.startsWith('file:')) return await import(bundledLibrary(address) ?? address);
    const name = isBundled ? bundleOf(fileURLToPath(address)) : undefined;
    if (name !== undefined) return load(`${name}.js`, address);
    registerOnce();
    return await import(address);
  };
  // A thread of a pool requires its entry, and imports it if that fails.
  Module._extensions['.ts'] = (module, path) => {
    const name = isBundled ? bundleOf(path) : undefined;
    if (name === undefined) registerOnce();
    if (name === undefined) throw new Error(`${path} is a module in TypeScript`);
    module.exports = load(`${name}.js`);
  };
  if (!isBundled) registerOnce();
  threads.Worker = class extends Worker {
    constructor(entry, options) {
      const name = sharesClasses(options?.workerData) ? undefined : bundleOf(entry);
      super(name === undefined ? entry : `${name}.cjs`, options);
    }
  };
  syncBuiltinESMExports();
}

/**
 * The path of a module's bundle without its ending; undefined without one. A program that patches a module of its
 * threads clears the variable, also after its start.
 */
function bundleOf(path) {
  const directory = process.env['TROUPE_THREADS'];
  return directory && BUNDLED.includes(path) ? join(directory, bundleName(path)) : undefined;
}

/** A provider or a script in a module of a test shares the error classes with its thread, which loads the sources. */
function sharesClasses(data) {
  if (data?.kind !== 'module') return data?.script?.module !== undefined;
  return !data.url.startsWith('file:') || bundleOf(fileURLToPath(data.url)) === undefined;
}

/** A module in TypeScript that is loaded before the entry needs the hooks. */
function startsFromBundle() {
  const [, entry = ''] = process.argv;
  if (isMainThread || process.execArgv.some((flag) => flag.endsWith('.ts'))) return false;
  return entry === POOL_THREAD || dirname(entry) === process.env['TROUPE_THREADS'];
}
