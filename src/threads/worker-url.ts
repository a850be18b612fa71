/** Finds the entry files of threads, and refuses one that a bundler left behind. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { ConfigError } from '../base/errors.ts';

/** The protocol of an entry whose place is not known: a bundle in CommonJS has no address. */
const UNKNOWN_PLACE = 'bundled:';

/**
 * The entry file of a thread, which lies beside the module that starts it. `stem`: relative, without extension
 * (`./tool-threads.worker`). `base`: the caller's `import.meta.url`, which a bundle in CommonJS does not have; its
 * extension is kept, `.ts` from source and `.js` from the built package. The build of the package looks for calls of
 * this form, gives each file its place in `dist`, and changes the stem. Never throws.
 */
export function workerUrl(stem: string, base: string | undefined): URL {
  if (base === undefined) return new URL(`${UNKNOWN_PLACE}${stem}.js`);
  return new URL(stem + (new URL(base).pathname.endsWith('.ts') ? '.ts' : '.js'), base);
}

/** The path of an entry for Node. Never throws. */
export function entryPath(entry: URL): string {
  return entry.protocol === 'file:' ? fileURLToPath(entry) : entry.pathname;
}

/** The refusal of an entry that is not there, because a bundler joined the package with other code. */
export function missingEntry(entry: URL): ConfigError | undefined {
  const path = entryPath(entry);
  if (entry.protocol === 'file:' && existsSync(path)) return undefined;
  return new ConfigError(
    `the thread entry ${path} does not exist: a bundler joined troupe with your code, but its threads start from files. ` +
      'Leave packages outside the bundle (esbuild: `--packages=external`; webpack: `externals`; Rollup: `external`), ' +
      'and deploy `node_modules` with it',
    { data: { key: 'bundle', value: path } },
  );
}

/** `missingEntry`, thrown. */
export function checkEntry(entry: URL): void {
  const missing = missingEntry(entry);
  if (missing !== undefined) throw missing;
}
