/**
 * Entries of worker threads that a test run bundles into one file each, in the directory `TROUPE_THREADS`; see
 * `bundles.mjs`. A thread that starts from its bundle has no loader hooks until it imports a module that the bundle
 * does not contain. On Node 20 hooks run on a second thread, and starting that takes as long as starting the first one.
 */
import { register, syncBuiltinESMExports } from 'node:module';
import { dirname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import threads, { isMainThread, Worker } from 'node:worker_threads';

const project = fileURLToPath(new URL('../../', import.meta.url));

/** The bundled entries, by path. */
export const ENTRIES = [
  join(project, 'src', 'runtime', 'door', 'shard.worker.ts'),
  join(project, 'src', 'models', 'pools', 'model.worker.ts'),
  join(project, 'src', 'runtime', 'search', 'search.worker.ts'),
];

/** The file of an entry's bundle. */
export function entryFile(entry) {
  return `${entry.slice(project.length, -'.ts'.length).split(sep).join('-')}.mjs`;
}

/** The expression that a bundle puts before the address of each module that it imports by a computed address. */
export const HOOKED = 'globalThis.troupeHooked() + ';

/**
 * Registers the hooks of this thread: at once, or with the first import by a computed address. Threads that this thread
 * starts from a bundled entry start from its bundle.
 */
export function registerHooks() {
  let isRegistered = false;
  globalThis.troupeHooked = () => {
    if (!isRegistered) register('./hooks.mjs', import.meta.url);
    isRegistered = true;
    return '';
  };
  if (!startsFromBundle()) globalThis.troupeHooked();
  threads.Worker = class extends Worker {
    constructor(entry, options) {
      super(bundleOf(entry, options?.workerData) ?? entry, options);
    }
  };
  syncBuiltinESMExports();
}

/**
 * The bundle of an entry. A program that patches a module of its threads clears the variable, also after its start. A
 * provider or a script in a module of a test shares the error classes with its thread, so that thread loads the sources.
 */
function bundleOf(entry, data) {
  if (data?.kind === 'module' || data?.script?.module !== undefined) return undefined;
  const directory = process.env['TROUPE_THREADS'];
  return directory && ENTRIES.includes(entry) ? join(directory, entryFile(entry)) : undefined;
}

/** A module in TypeScript that is loaded before the entry needs the hooks. */
function startsFromBundle() {
  const [, entry = ''] = process.argv;
  if (isMainThread || process.execArgv.some((flag) => flag.endsWith('.ts'))) return false;
  return dirname(entry) === process.env['TROUPE_THREADS'];
}
