/**
 * Global set-up of a test run: the sources of all kinds of threads as a few files, and each large library as one file.
 * Hundreds of tests start threads and programs. On Node 20 loading the four hundred modules of a session thread through
 * the hooks takes longer than most tests; a tool thread loads two hundred, most of them of two libraries. The bundler
 * joins the modules in the order in which Node evaluates them. Every other module is loaded by itself.
 *
 * A program that patches a module of its threads clears `TROUPE_THREADS`.
 */
import { mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'vite';
import { LIBRARIES, libraryFile } from './libraries.mjs';
import { BUNDLED, bundleName, OUTER_IMPORT } from './threads.mjs';

const project = fileURLToPath(new URL('../../', import.meta.url));
/** A module of the bundler's own, with the exports of the library behind this prefix. */
const LIBRARY = '\0library:';
/** Comments and white space are a third of a bundle, and each thread reads the whole bundle. Names stay. */
const COMMENTS_REMOVED = { compress: false, mangle: false, codegen: { removeWhitespace: true } };
/** The directory of the bundles. It has a link to the installed packages, so that the bundles find them. */
let directory;

export async function setup(run) {
  // If Node strips types itself, no hooks are registered. Each project of a run calls this function; one directory
  // serves all.
  if (process.features.typescript || process.env['TROUPE_THREADS']) return;
  directory = mkdtempSync(join(tmpdir(), 'troupe-bundles-'));
  symlinkSync(join(project, 'node_modules'), join(directory, 'node_modules'), 'dir');
  await bundleLibraries();
  await bundleThreads();
  run.onTestsRerun(bundleThreads);
  process.env['TROUPE_THREADS'] = directory;
  process.env['TROUPE_LIBRARIES'] = directory;
}

export function teardown() {
  if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
}

/** The threads as scripts, which `bundled.cjs` runs. Modules that several threads load are in files of their own. */
async function bundleThreads() {
  // V8 recognises changed code by its length alone.
  for (const name of readdirSync(directory)) if (name.endsWith('.code')) rmSync(join(directory, name));
  await bundle({
    input: Object.fromEntries(BUNDLED.map((path) => [bundleName(path), path])),
    noExternal: ['comlink', 'zod', /^@modelcontextprotocol/u, 'eventsource-parser', 'pkce-challenge'],
    plugin: { name: 'threads', resolveId: libraryOf, transform: keepAddress },
    treeshake: true,
    output: {
      format: 'cjs',
      entryFileNames: '[name].js',
      chunkFileNames: 'part-[name]-[hash].js',
      banner: '(function (exports, require, module, address) { "use strict";',
      footer: '})',
    },
  });
  const bundled = JSON.stringify(fileURLToPath(new URL('./bundled.cjs', import.meta.url)));
  for (const path of BUNDLED) {
    const file = join(directory, bundleName(path));
    writeFileSync(`${file}.cjs`, `module.exports = require(${bundled}).load(${JSON.stringify(`${file}.js`)});\n`);
  }
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
      output: { entryFileNames: '[name]', codeSplitting: false },
    });
  }
}

/** Bundles into the directory. */
async function bundle({ input, noExternal, plugin, treeshake, output }) {
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
      // No entry exports what others share, since each file that imports it would run the entry.
      rollupOptions: {
        input,
        treeshake,
        preserveEntrySignatures: 'strict',
        output: { ...output, minify: COMMENTS_REMOVED },
      },
    },
  });
}

/** Bundles of threads import the bundles of libraries, as the hooks do. They contain the part of `zod` that they use. */
function libraryOf(id) {
  const name = Object.hasOwn(LIBRARIES, id) ? LIBRARIES[id] : undefined;
  if (name === undefined || name === 'zod') return undefined;
  return { id: pathToFileURL(join(directory, libraryFile(name))).href, external: true };
}

/**
 * A module finds the files beside it by its own address, not by the address of the bundle. Texts of errors name
 * `import.meta.url` between double quotes, so the address stands between others. The address of a module that is
 * imported with a query is given when it is loaded. Scripts cannot import, so the thread imports for them what is not in
 * the bundle.
 */
function keepAddress(code, id) {
  const own = `\`${pathToFileURL(id).href}\``;
  return code
    .replaceAll('import.meta.url', BUNDLED.includes(id) ? `(address ?? ${own})` : own)
    .replaceAll(/\bawait import\((?!['"`]\.)/gu, `await ${OUTER_IMPORT}(`);
}

/** A module that exports what a library exports, as Node sees it. */
async function exportsOf(name) {
  const names = Object.keys(await import(name)).filter((each) => each !== '__esModule');
  return `export { ${names.join(', ')} } from ${JSON.stringify(name)};\n`;
}
