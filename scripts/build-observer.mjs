/**
 * Bundles the observer page of `src/observer` into `dist/observer`, or into the directory given: one page, one script,
 * one style sheet, one drawing, all addressed relative to the page, so that it can be served under any path. Prints
 * nothing on success; otherwise exits 1 with the bundler's message. Types are checked by `tsc -p src/observer`.
 */
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

const project = join(dirname(fileURLToPath(import.meta.url)), '..');
const target = resolve(process.argv[2] ?? join(project, 'dist', 'observer'));

await build({
  configFile: false,
  envDir: false,
  publicDir: false,
  root: join(project, 'src', 'observer'),
  base: './',
  logLevel: 'error',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact', development: false } },
  build: {
    outDir: target,
    emptyOutDir: true,
    target: 'es2022',
    // The first browsers with `light-dark()`. For older ones the bundler would write every colour twice.
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
    // A strict content policy forbids inline code in the page.
    assetsInlineLimit: 0,
    modulePreload: false,
    reportCompressedSize: false,
    sourcemap: false,
  },
});
