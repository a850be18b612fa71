/**
 * `npm run sim`: the simulation of a single machine, as `troupe sim` has it, and that of a cluster, which is no part of the
 * package. Both get the same arguments. Exits with 1 if either fails.
 */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const PROGRAMS = [
  ['dist/cli.js', 'sim'],
  ['--import', './test/loader/register.mjs', 'test/cluster/simulation/run.ts'],
];

/** Resolves to true if the program succeeds. */
function succeeds(program) {
  const child = spawn(process.execPath, [...program, ...process.argv.slice(2)], { cwd: root, stdio: 'inherit' });
  return new Promise((resolve) => {
    child.on('close', (code) => resolve(code === 0));
  });
}

let isClean = true;
for (const program of PROGRAMS) if (!(await succeeds(program))) isClean = false;
process.exitCode = isClean ? 0 : 1;
