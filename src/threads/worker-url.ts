/** Finds the entry files of threads. Refuses an entry file that a bundler did not copy. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { ConfigError } from '../base/errors.ts';

/** The protocol of an entry whose location is unknown, because a CommonJS bundle has no `import.meta.url`. */
const UNKNOWN_PLACE = 'bundled:';

/**
 * The entry file of a thread, which lies beside the module that starts it. `stem`: a relative path without extension
 * (`./tool-threads.worker`). `base`: the caller's `import.meta.url`; undefined in a CommonJS bundle. The entry gets the
 * extension of `base`: `.ts` from source and `.js` from the built package. The build of the package finds calls of this
 * form, places each file in `dist`, and changes the stem. Never throws.
 */
export function workerUrl(stem: string, base: string | undefined): URL {
  if (base === undefined) return new URL(`${UNKNOWN_PLACE}${stem}.js`);
  return new URL(stem + (new URL(base).pathname.endsWith('.ts') ? '.ts' : '.js'), base);
}

/** The path of an entry for Node. Never throws. */
export function entryPath(entry: URL): string {
  return entry.protocol === 'file:' ? fileURLToPath(entry) : entry.pathname;
}

/**
 * The error for an entry file that does not exist because a bundler joined the package with other code; undefined if
 * the file exists.
 */
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

/** Throws the error of `missingEntry`, if there is one. */
export function checkEntry(entry: URL): void {
  const missing = missingEntry(entry);
  if (missing !== undefined) throw missing;
}
