/**
 * Global set-up of a test run: the sources of a session thread as one file. Hundreds of tests start such a thread, and
 * on Node 20 loading its four hundred modules through the hooks takes longer than most tests. The bundler joins the
 * modules in the order in which Node evaluates them, and changes nothing else; every other thread and process loads the
 * sources one by one.
 *
 * A program that patches a module of its session threads clears `TROUPE_SESSION_THREAD`.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'vite';

const project = fileURLToPath(new URL('../../', import.meta.url));
/** The directory of the bundle. It may be anywhere, since the hooks give the bundle's text the address of the entry. */
let directory;

export async function setup(run) {
  // If Node strips types itself, no hooks are registered. Each project of a run calls this function; one file serves
  // all.
  if (process.features.typescript || process.env['TROUPE_SESSION_THREAD']) return;
  directory = mkdtempSync(join(tmpdir(), 'troupe-session-thread-'));
  await bundle();
  run.onTestsRerun(bundle);
  process.env['TROUPE_SESSION_THREAD'] = join(directory, 'shard.worker.mjs');
}

export function teardown() {
  if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
}

async function bundle() {
  await build({
    configFile: false,
    envDir: false,
    publicDir: false,
    root: project,
    logLevel: 'error',
    plugins: [{ name: 'addresses', transform: keepAddress }],
    ssr: { noExternal: ['zod'] },
    build: {
      ssr: join(project, 'src', 'runtime', 'door', 'shard.worker.ts'),
      outDir: directory,
      emptyOutDir: true,
      target: 'node20',
      minify: false,
      rollupOptions: { output: { entryFileNames: '[name].mjs', codeSplitting: false } },
    },
  });
}

/** A module finds the files beside it by its own address, not by the address of the bundle. */
function keepAddress(code, id) {
  return code.replaceAll('import.meta.url', JSON.stringify(pathToFileURL(id).href));
}
