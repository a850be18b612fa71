/**
 * The modules that a user of the package can import or run. Each becomes one file of `dist`, and the others are joined
 * into chunks that these files share. To add a subpath: one line here, then `node scripts/write-exports.mjs`, which writes
 * the `exports` of package.json. The entries of threads are not listed: the build finds them by their `workerUrl` calls.
 */

/** Subpath of `exports` -> source file. */
export const SUBPATHS = {
  '.': 'src/index.ts',
  './tools': 'src/tools/built-in/index.ts',
  './testing': 'src/testing/index.ts',
  './actors': 'actors/index.ts',
  './server': 'src/server/index.ts',
  './client': 'src/client/index.ts',
  './react': 'src/react/index.ts',
  './otel': 'src/otel/index.ts',
  './ai-sdk': 'src/adapters/ai-sdk.ts',
  './ai-model': 'src/models/ai-model/index.ts',
  './ag-ui': 'src/adapters/ag-ui.ts',
  './mcp': 'src/adapters/mcp.ts',
  './postgres': 'src/postgres/index.ts',
};

/** The program `troupe`. */
export const PROGRAM = { name: 'cli', source: 'src/cli/main.ts' };

/** The file of a subpath in `dist`, without its extension. */
export function fileName(subpath) {
  return subpath === '.' ? 'index' : subpath.slice('./'.length).replaceAll('/', '-');
}

/** `exports` of package.json for these subpaths. */
export function packageExports() {
  const entries = Object.keys(SUBPATHS).map((subpath) => {
    const file = `./dist/${fileName(subpath)}`;
    return [subpath, { types: `${file}.d.ts`, default: `${file}.js` }];
  });
  return { ...Object.fromEntries(entries), './package.json': './package.json' };
}
