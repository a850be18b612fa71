/**
 * Libraries of many modules, by the specifiers that import them. A test run bundles each into one file, in the directory
 * `TROUPE_LIBRARIES`; see `bundles.mjs`. Every importer has the same file, so a class of a library stays one class.
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

export const LIBRARIES = {
  zod: 'zod',
  'zod/v4': 'zod',
  'ajv/dist/2020.js': 'ajv/dist/2020.js',
  '@anthropic-ai/sdk': '@anthropic-ai/sdk',
};

/** The file of a library's bundle. */
export function libraryFile(name) {
  return `${name.replaceAll(/[^\w]/gu, '-')}.mjs`;
}

/** The address of the bundle that a specifier imports; undefined without one. */
export function bundledLibrary(specifier) {
  const directory = process.env['TROUPE_LIBRARIES'];
  const name = directory && Object.hasOwn(LIBRARIES, specifier) ? LIBRARIES[specifier] : undefined;
  return name === undefined ? undefined : pathToFileURL(join(directory, libraryFile(name))).href;
}
