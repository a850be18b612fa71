/**
 * Installs the peers into this folder, never into the package. A newer Node comes first, since some peers need one.
 * Each peer is optional: if its installation fails, the comparison later finds it missing.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { basename, delimiter, dirname, join } from 'node:path';

/** The result of an installation. */
export interface Installation {
  /** The Node that runs every system. */
  readonly node: string;
  readonly nodeVersion: string;
  /** Remarks on the installation for the report. */
  readonly notes: readonly string[];
}

/** Installs the missing packages into the folder of the peers. */
export function install(folder: string): Installation {
  const runtime = join(folder, 'runtime');
  const own = join(runtime, 'node_modules/node/bin/node');
  const notes: string[] = [];
  if (versionOf(own) === undefined) {
    // This package gets its binary from an install script, so that script is run by name.
    const failed = npm(runtime, ['ci', '--ignore-scripts']) ?? npm(runtime, ['rebuild', 'node']);
    if (failed !== undefined) notes.push(`the pinned Node could not be installed, the host's is used (${failed})`);
  }
  const node = versionOf(own) === undefined ? process.execPath : own;
  if (!isInstalled(folder)) {
    const failed = npm(folder, ['ci', '--ignore-scripts'], node);
    if (failed !== undefined) notes.push(`the peers could not be installed (${failed})`);
  }
  return { node, nodeVersion: versionOf(node) ?? 'unknown', notes };
}

/** Compiles a project to plain JavaScript. A missing peer has no types; everything else is still built. */
export function compile(project: string, compiler: string): string {
  return spawnSync(process.execPath, [compiler, '-p', project], { encoding: 'utf8' }).stdout.trim();
}

/** Removes the paths and the addresses of one machine from a reason, for the report. */
export function tidy(reason: string): string {
  return reason.replaceAll(/(?:file|https?):\/\/\S+|(?<![\w.])\/[\w.@/+-]+/g, (found) =>
    basename(found.replace(/\W+$/, '')),
  );
}

/** The version of an installed package. */
export function packageVersion(folder: string, name: string): string | undefined {
  const path = join(folder, 'node_modules', name, 'package.json');
  if (!existsSync(path)) return undefined;
  const { version } = JSON.parse(readFileSync(path, 'utf8')) as { readonly version?: unknown };
  return typeof version === 'string' ? version : undefined;
}

/** npm writes this file when it installs. If the lock file is newer than this one, npm has not installed it yet. */
function isInstalled(folder: string): boolean {
  const installed = join(folder, 'node_modules/.package-lock.json');
  return existsSync(installed) && statSync(installed).mtimeMs >= statSync(join(folder, 'package-lock.json')).mtimeMs;
}

function versionOf(node: string): string | undefined {
  const { status, stdout } = spawnSync(node, ['--version'], { encoding: 'utf8' });
  return status === 0 ? stdout.trim() : undefined;
}

/** Runs npm on the given Node; returns the end of its output if it failed. */
function npm(folder: string, words: readonly string[], node: string = process.execPath): string | undefined {
  const PATH = [dirname(node), process.env['PATH'] ?? ''].join(delimiter);
  const { status, error, stdout, stderr } = spawnSync('npm', [...words, '--no-audit', '--no-fund'], {
    cwd: folder,
    encoding: 'utf8',
    env: { ...process.env, PATH },
  });
  if (status === 0) return undefined;
  return tidy((error?.message ?? `${stderr}${stdout}`).trim().split('\n').slice(-2).join(' '));
}
