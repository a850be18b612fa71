/** The package as its users get it: `dist` of the project, not the files that this folder is compiled with. */
import { fileURLToPath } from 'node:url';
import type * as tools from '../../src/cli/bench/tools.ts';
import type * as troupe from '../../src/index.ts';
import type { Loadable } from '../systems/troupe-system.ts';

// From `bench/dist/bench/stages`.
const built = new URL('../../../../dist/', import.meta.url);

/** The folder of the built package: a path. */
export const BUILT_FOLDER: string = fileURLToPath(built);

/** The address of a file of the built package. */
export function builtFile(name: string): URL {
  return new URL(name, built);
}

/** Imports the built package. */
export function importBuilt(): Promise<typeof troupe> {
  return import(builtFile('index.js').href) as Promise<typeof troupe>;
}

/** The tool of the benchmarks, made by the built package. */
export async function builtTools(): Promise<Loadable<readonly (typeof tools.add)[]>> {
  const url = builtFile('cli-bench-tools.js');
  const { add } = (await import(url.href)) as typeof tools;
  return { value: [add], url };
}
