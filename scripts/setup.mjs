/**
 * Makes a fresh clone ready: installs what package-lock.json names, then builds `dist`. Runs before `npm start` and
 * `npm test`; plain Node, because nothing is installed yet. Prints nothing if there is nothing to do, and one
 * line for each step: its name before it, the seconds it took after it. If a step fails, prints the whole output of its
 * tool. Exits with the failed step's code.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const lockFile = join(root, 'package-lock.json');
const installStamp = join(root, 'node_modules', '.troupe-lock');
const buildStamp = join(root, 'dist', '.sources');
/** Inputs of the emitted code. */
const buildInputs = [
  'src',
  'actors',
  'package-lock.json',
  'package.json',
  'tsconfig.json',
  'scripts/build.mjs',
  'scripts/build-observer.mjs',
  'scripts/package-entries.mjs',
  'scripts/thread-entries.mjs',
];

install();
build();

function install() {
  const wanted = createHash('sha256').update(readFileSync(lockFile)).digest('hex');
  if (readIfThere(installStamp) === wanted) return;
  if (!installedByHand()) {
    // --include=dev: the build and the tests need these packages, whatever NODE_ENV says.
    run('npm ci', 'installing dependencies', ...npm(['ci', '--include=dev', '--no-audit', '--no-fund']));
  }
  // This mark is written last, so that an interrupted install is repeated; npm ci empties node_modules first.
  writeFileSync(installStamp, wanted);
}

/** npm writes its hidden lock file at the end of an install. If it is newer than ours, our lock file is installed. */
function installedByHand() {
  const hiddenLockFile = join(root, 'node_modules', '.package-lock.json');
  if (existsSync(installStamp) || !existsSync(hiddenLockFile)) return false;
  return statSync(hiddenLockFile).mtimeMs >= statSync(lockFile).mtimeMs;
}

function build() {
  const sources = fingerprint();
  if (readIfThere(buildStamp) === sources) return;
  run('build', 'building', process.execPath, [join(root, 'scripts', 'build.mjs')]);
  writeFileSync(buildStamp, sources);
}

/** Names, sizes and times of the build's inputs: enough to see any edit, checkout or removal. */
function fingerprint() {
  const hash = createHash('sha256');
  const visit = (path) => {
    const stat = statSync(join(root, path), { throwIfNoEntry: false });
    if (stat === undefined) return;
    if (!stat.isDirectory()) {
      hash.update(`${path}\0${stat.size}\0${stat.mtimeMs}\n`);
      return;
    }
    for (const name of readdirSync(join(root, path)).sort()) visit(`${path}/${name}`);
  };
  buildInputs.forEach(visit);
  return hash.digest('hex');
}

/** The npm that started this script, if any: the npm on PATH may belong to another Node. */
function npm(commandLine) {
  const own = process.env['npm_execpath'];
  if (own?.endsWith('.js')) return [process.execPath, [own, ...commandLine]];
  return [process.platform === 'win32' ? 'npm.cmd' : 'npm', commandLine];
}

/** `doing`: the words shown while the step runs. */
function run(step, doing, command, commandLine) {
  const shell = command.endsWith('.cmd');
  const begun = performance.now();
  process.stderr.write(`setup: ${doing}...`);
  const result = spawnSync(command, commandLine, { cwd: root, encoding: 'utf8', shell, maxBuffer: 64 * 1024 * 1024 });
  if (result.status === 0) {
    process.stderr.write(` ${((performance.now() - begun) / 1_000).toFixed(1)} s\n`);
    return;
  }
  process.stderr.write(`\n${result.stdout ?? ''}${result.stderr ?? ''}`);
  const why =
    result.error?.message ?? (result.signal === null ? `exit code ${result.status}` : `signal ${result.signal}`);
  process.stderr.write(`setup: ${step} failed: ${why}\n`);
  process.exit(result.status ?? 1);
}

function readIfThere(path) {
  return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
}
