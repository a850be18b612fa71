/**
 * Bundles the programs of a folder of the tests, which a loop of faults starts hundreds of times. A loader that strips
 * types, in each of a program's threads, would take most of its life, and so would a thousand separate files. A run
 * bundles the sources into its own directory when it starts. So a long run tests one version, whatever is edited
 * meanwhile.
 */
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The bundled programs of one run. */
export interface CompiledPrograms {
  /** Path of a bundled file of the folder; `name` has no ending. */
  script(name: string): string;
  /** Removes the bundled files. */
  remove(): Promise<void>;
}

const PROJECT = fileURLToPath(new URL('../../', import.meta.url));

/**
 * Bundles the programs of a folder with the sources that they use. The result lies in the folder's `dist`: inside the
 * package, so that it finds its dependencies; git ignores it like every `dist`. Throws an Error with the bundler's
 * output if that fails.
 */
export async function compilePrograms(folder: URL): Promise<CompiledPrograms> {
  const here = fileURLToPath(folder);
  const builds = join(here, 'dist');
  await mkdir(builds, { recursive: true });
  await removeLeftovers(builds);
  const directory = join(builds, `run-${process.pid}-${Date.now()}`);
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  const bundler = fileURLToPath(new URL('./build-programs.mjs', import.meta.url));
  const result = spawnSync(process.execPath, [bundler, here, directory], { encoding: 'utf8' });
  if (result.status !== 0) throw new Error(`the programs cannot be bundled: ${result.stdout}${result.stderr}`);
  return {
    script: (name) => join(directory, relative(PROJECT, here), `${name}.js`),
    remove: () => rm(directory, { recursive: true, force: true }),
  };
}

/** Removes the directories of runs that were killed themselves. */
async function removeLeftovers(builds: string): Promise<void> {
  for (const name of await readdir(builds)) {
    const pid = Number(/^run-(\d+)-/.exec(name)?.[1]);
    if (Number.isInteger(pid) && !isAlive(pid)) await rm(join(builds, name), { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
