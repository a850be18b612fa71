/**
 * Brings the peers into this folder, never into the package: first a Node of their own, as some need a newer one than troupe
 * does, then the peers with it. Each peer is optional: what cannot be had is left out, and found missing when it is tried.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { basename, delimiter, dirname, join } from 'node:path';

/** What was installed. */
export interface Installation {
  /** The Node that runs every system. */
  readonly node: string;
  readonly nodeVersion: string;
  /** What a reader must know of the installation. */
  readonly notes: readonly string[];
}

/** Installs into the folder of the peers what is not there yet. */
export function install(folder: string): Installation {
  const runtime = join(folder, 'runtime');
  const own = join(runtime, 'node_modules/node/bin/node');
  const notes: string[] = [];
  if (versionOf(own) === undefined) {
    // The package brings its binary by an install script, so that one is run by name.
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

/** Plain JavaScript of a project of the compiler. Where a peer is missing its types are too, and the rest is built. */
export function compile(project: string, compiler: string): string {
  return spawnSync(process.execPath, [compiler, '-p', project], { encoding: 'utf8' }).stdout.trim();
}

/** A reason as it may stand in a report: without the paths and the addresses of one machine. */
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

/** npm notes what it installed; a lock file that is newer has not been installed. */
function isInstalled(folder: string): boolean {
  const installed = join(folder, 'node_modules/.package-lock.json');
  return existsSync(installed) && statSync(installed).mtimeMs >= statSync(join(folder, 'package-lock.json')).mtimeMs;
}

function versionOf(node: string): string | undefined {
  const { status, stdout } = spawnSync(node, ['--version'], { encoding: 'utf8' });
  return status === 0 ? stdout.trim() : undefined;
}

/** Runs npm on the given Node; the end of what it said, when it failed. */
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
