/**
 * Compiles the package and this folder to plain JavaScript. A loader that strips types would run on each new thread,
 * and its time would be part of the figures.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('.', import.meta.url));

/** Builds, and returns the path of the measuring program. Ends the process if the build fails. */
export function buildBench(): string {
  const built = join(folder, 'dist/bench/run.js');
  // The output of an earlier build must not be measured in place of this one.
  rmSync(built, { force: true });
  const compiler = join(folder, '../node_modules/typescript/bin/tsc');
  const { stdout } = spawnSync(process.execPath, [compiler, '-p', folder], { encoding: 'utf8' });
  if (existsSync(built)) return built;
  console.error(`the benchmark cannot be built:\n${stdout}`);
  process.exit(1);
}
