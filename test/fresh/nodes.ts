/** The Nodes that `engines` admits, as programs on this machine: npm has each as a package without an install script. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { succeed } from './processes.ts';

/** The lowest Node that `engines` admits, and the newest of each supported major. */
export const NODES: readonly string[] = ['20.19.0', '20', '22', '24', '26'];

/** The longest step with the network. */
export const NETWORK_MS = 300_000;

/** A Node on this machine. */
export interface InstalledNode {
  readonly path: string;
  /** As `process.versions.node`. */
  readonly version: string;
}

/** Installs a Node below `cache`, unless an earlier run did. Rejects with npm's output. */
export async function installNode(version: string, cache: string): Promise<InstalledNode> {
  const directory = join(cache, 'nodes', version);
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, 'package.json'), '{"private":true}');
  const name = `node-${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`;
  const environment = { npm_config_cache: join(cache, 'npm') };
  const options = { directory, node: process.execPath, deadlineMs: NETWORK_MS, environment };
  await succeed(['npm', 'install', '--no-save', '--prefer-offline', `${name}@${version}`], options);
  const path = join(directory, 'node_modules', name, 'bin', 'node');
  return { path, version: (await succeed([path, '--version'], options)).trim().replace(/^v/u, '') };
}
