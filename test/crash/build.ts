/**
 * Compiles the victims. A loader that strips types, in each of a victim's threads, would take most of a life. A run
 * compiles the sources into its own directory when it starts. So a long run tests one version, whatever is edited
 * meanwhile.
 */
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The compiled victims of one run. */
export interface VictimBuild {
  /** Path of a compiled file of this folder; `name` has no ending. */
  script(name: string): string;
  /** Removes the compiled files. */
  remove(): Promise<void>;
}

const HERE = fileURLToPath(new URL('.', import.meta.url));
/** Inside the package, so that the compiled code finds its dependencies; git ignores it like every `dist`. */
const BUILDS = join(HERE, 'dist');

/** Compiles library and victims. Throws an Error with the compiler's output if it emits nothing. */
export async function buildVictims(): Promise<VictimBuild> {
  await mkdir(BUILDS, { recursive: true });
  await removeLeftovers();
  const directory = join(BUILDS, `run-${process.pid}-${Date.now()}`);
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  const compiler = join(HERE, '../../node_modules/typescript/bin/tsc');
  const arguments_ = [compiler, '-p', join(HERE, 'tsconfig.json'), '--outDir', directory];
  const result = spawnSync(process.execPath, arguments_, { encoding: 'utf8' });
  if (result.status !== 0) throw new Error(`the victims do not compile: ${result.stdout}${result.stderr}`);
  return {
    script: (name) => join(directory, 'test/crash', `${name}.js`),
    remove: () => rm(directory, { recursive: true, force: true }),
  };
}

/** Removes the directories of runs that were killed themselves. */
async function removeLeftovers(): Promise<void> {
  for (const name of await readdir(BUILDS)) {
    const pid = Number(/^run-(\d+)-/.exec(name)?.[1]);
    if (Number.isInteger(pid) && !isAlive(pid)) await rm(join(BUILDS, name), { recursive: true, force: true });
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
