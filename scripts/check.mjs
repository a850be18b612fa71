/**
 * All checks of the sources, two lines of them side by side: the compiler takes as long as all others together. Each
 * check prints when it has ended, so that outputs do not mix. Exits with 1 if any check fails.
 */
import { spawn } from 'node:child_process';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const LINES = [
  ['tsc -p tsconfig.json', 'tsc -p src/observer/tsconfig.json'],
  [
    'biome check --error-on-warnings .',
    'node scripts/check-ranks.mjs',
    'node scripts/check-sizes.mjs',
    'node scripts/check-language.mjs',
    'node scripts/check-coverage.mjs',
    'node scripts/check-lock.mjs',
    'knip --production --include exports,types,files',
  ],
];

/** Resolves to true if the command succeeds. */
function succeeds(command) {
  const path = `${join(root, 'node_modules', '.bin')}${delimiter}${process.env.PATH}`;
  const child = spawn(command, { cwd: root, shell: true, env: { ...process.env, PATH: path } });
  const output = [];
  child.stdout.on('data', (chunk) => output.push(chunk));
  child.stderr.on('data', (chunk) => output.push(chunk));
  return new Promise((resolve) => {
    child.on('close', (code) => {
      process.stdout.write(Buffer.concat(output));
      if (code !== 0) process.stdout.write(`check failed: ${command}\n`);
      resolve(code === 0);
    });
  });
}

/** Runs commands one after another; all of them, so that one run shows every failure. Resolves to the failures. */
async function failuresOf(commands) {
  let failures = 0;
  for (const command of commands) if (!(await succeeds(command))) failures += 1;
  return failures;
}

const failures = await Promise.all(LINES.map(failuresOf));
process.exitCode = failures.some((count) => count > 0) ? 1 : 0;
