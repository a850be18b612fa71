/**
 * Bundles the programs of a folder: `node build-programs.mjs FOLDER OUTPUT`. All code is in one directory, so that
 * threads find their entries. Each file of the folder also has a file at its own path in the output, which exports what
 * the file exports: by these paths the programs are started, and their tools and models are found.
 */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { rolldown } from 'rolldown';
import { isPackage, threadEntries } from '../../scripts/thread-entries.mjs';

const PROJECT = fileURLToPath(new URL('../../', import.meta.url));
/** Warnings without meaning here: a module is imported both at once and on use, and a plugin is slow. */
const HARMLESS = ['INEFFECTIVE_DYNAMIC_IMPORT', 'PLUGIN_TIMINGS'];
const [folder, output] = process.argv.slice(2);
/** The files of the folder, each with its path in the output. */
const places = new Map(
  programs(folder).map((path) => [path, join(output, relative(PROJECT, path)).replace(/ts$/, 'js')]),
);

const bundle = await rolldown({
  cwd: PROJECT,
  platform: 'node',
  external: isPackage,
  input: Object.fromEntries([...places.keys()].map((path) => [nameOf(path), path])),
  plugins: [threadEntries(PROJECT), { name: 'addresses', transform: keepAddress }],
  treeshake: { moduleSideEffects: true },
  onLog: (level, log, report) => {
    if (!HARMLESS.includes(log.code)) report(level, log);
  },
});
const { output: chunks } = await bundle.write({
  dir: output,
  format: 'esm',
  entryFileNames: '[name].js',
  chunkFileNames: 'chunk-[name]-[hash].js',
  comments: false,
});
await bundle.close();
for (const { facadeModuleId, fileName, exports } of chunks)
  if (places.has(facadeModuleId)) {
    const place = places.get(facadeModuleId);
    mkdirSync(dirname(place), { recursive: true });
    const address = JSON.stringify(relative(dirname(place), join(output, fileName)).split(sep).join('/'));
    const names = exports.length === 0 ? '' : `export { ${exports.join(', ')} } from ${address};\n`;
    writeFileSync(place, `import ${address};\n${names}`);
  }

function programs(directory) {
  return readdirSync(directory, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts') && !entry.name.endsWith('.test.ts'))
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !relative(directory, path).startsWith('dist'));
}

function nameOf(path) {
  return relative(PROJECT, path).split(sep).join('-').replace(/\.ts$/, '');
}

/** A file of the folder finds the others by its own path in the output. */
function keepAddress(code, id) {
  const place = places.get(id);
  return place === undefined
    ? undefined
    : code.replaceAll('import.meta.url', JSON.stringify(pathToFileURL(place).href));
}
