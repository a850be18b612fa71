/**
 * Global set-up of a test run: the sources of a session thread as one file, and each large library as one file.
 * Hundreds of tests start threads and programs. On Node 20 loading the four hundred modules of a session thread through
 * the hooks takes longer than most tests; a tool thread loads two hundred, most of them of two libraries. The bundler
 * joins the modules in the order in which Node evaluates them, and changes nothing else. Every other module is loaded
 * by itself.
 *
 * A program that patches a module of its session threads clears `TROUPE_SESSION_THREAD`.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'vite';
import { LIBRARIES, libraryFile } from './libraries.mjs';

const project = fileURLToPath(new URL('../../', import.meta.url));
const SESSION_THREAD = 'shard.worker.mjs';
/** A module of the bundler's own, with the exports of the library behind this prefix. */
const LIBRARY = '\0library:';
/** The directory of the bundles. It may be anywhere, since the hooks give the text of a thread the address of its entry. */
let directory;

export async function setup(run) {
  // If Node strips types itself, no hooks are registered. Each project of a run calls this function; one directory
  // serves all.
  if (process.features.typescript || process.env['TROUPE_SESSION_THREAD']) return;
  directory = mkdtempSync(join(tmpdir(), 'troupe-bundles-'));
  await bundleLibraries();
  await bundleSessionThread();
  run.onTestsRerun(bundleSessionThread);
  process.env['TROUPE_SESSION_THREAD'] = join(directory, SESSION_THREAD);
  process.env['TROUPE_LIBRARIES'] = directory;
}

export function teardown() {
  if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
}

function bundleSessionThread() {
  return bundle({
    input: { [SESSION_THREAD]: join(project, 'src', 'runtime', 'door', 'shard.worker.ts') },
    noExternal: ['zod'],
    plugin: { name: 'addresses', transform: keepAddress },
    treeshake: true,
  });
}

async function bundleLibraries() {
  for (const name of new Set(Object.values(LIBRARIES))) {
    const plugin = {
      name: 'library',
      resolveId: (id) => (id.startsWith(LIBRARY) ? id : undefined),
      load: (id) => (id.startsWith(LIBRARY) ? exportsOf(id.slice(LIBRARY.length)) : undefined),
    };
    await bundle({
      input: { [libraryFile(name)]: `${LIBRARY}${name}` },
      noExternal: true,
      plugin,
      // A program may use any of its exports.
      treeshake: false,
    });
  }
}

/** Bundles one entry into one file of the directory. */
async function bundle({ input, noExternal, plugin, treeshake }) {
  await build({
    configFile: false,
    envDir: false,
    publicDir: false,
    root: project,
    logLevel: 'error',
    plugins: [plugin],
    ssr: { noExternal },
    build: {
      ssr: true,
      outDir: directory,
      emptyOutDir: false,
      target: 'node20',
      minify: false,
      rollupOptions: { input, treeshake, output: { entryFileNames: '[name]', codeSplitting: false } },
    },
  });
}

/** A module finds the files beside it by its own address, not by the address of the bundle. */
function keepAddress(code, id) {
  return code.replaceAll('import.meta.url', JSON.stringify(pathToFileURL(id).href));
}

/** A module that exports what a library exports, as Node sees it. */
async function exportsOf(name) {
  const names = Object.keys(await import(name)).filter((each) => each !== '__esModule');
  return `export { ${names.join(', ')} } from ${JSON.stringify(name)};\n`;
}
