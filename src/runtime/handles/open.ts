/** `open`: a data directory becomes a runtime. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { ConfigError, describeValue } from '../../base/errors.ts';
import { openManifest } from '../../journal/store/birth.ts';
import { acquireStoreLock } from '../../journal/store/lock.ts';
import { findWideRights } from '../../journal/store/rights.ts';
import { type CheckedOptions, checkOptions, type OpenOptions } from '../protocol/options.ts';
import { assembleRuntime, MEMORY, type Place } from './assemble.ts';
import type { Runtime } from './runtime.ts';

/**
 * Opens a data directory, made if need be, or `':memory:'`, and goes on with everything that was interrupted. Rejects with
 * `ConfigError` (an option, an agent, a tool), `StoreLockedError` (somebody has it open), `StoreCorruptError`,
 * `StoreVersionError`, `StoreFullError`.
 */
export async function open(directory: string, options: OpenOptions = {}): Promise<Runtime> {
  if (typeof directory !== 'string' || directory.trim() === '') {
    throw new ConfigError(`the data directory must be a path or ':memory:', got ${describeValue(directory)}`);
  }
  const checked = checkOptions(options);
  const place = await openPlace(directory, Math.max(1, checked.threads.sessions));
  try {
    // Before anything of this life is made: a store that was made wider is told of, whoever made it.
    if (place.directory !== undefined) await warnOfWideRights(place.directory, checked);
    if (checked.definitions === undefined) return await assembleRuntime(checked, place);
    // Loaded by those who use it: the YAML parser is half as large as the rest.
    const { openWithDefinitions } = await import('./open-definitions.ts');
    return await openWithDefinitions(checked, checked.definitions, place);
  } catch (error) {
    await place.release();
    throw error;
  }
}

/** A store holds what users said. Rights that were given to others may be meant, so they are told of and left. */
async function warnOfWideRights(directory: string, { logger }: CheckedOptions): Promise<void> {
  const found = await findWideRights(directory);
  if (found === undefined) return;
  logger?.warn(
    { path: found.path, mode: found.mode },
    `others than its owner may use the store ${directory}: ${found.path} has mode ${found.mode}. ` +
      `\`chmod -R go= ${directory}\` takes their rights away`,
  );
}

/** Takes the directory: lock first, then the manifest, whose shard count rules over the option once a store exists (A6). */
async function openPlace(directory: string, shards: number): Promise<Place> {
  if (directory === MEMORY) {
    const shelf = await mkdtemp(join(tmpdir(), 'troupe-'));
    return { shards, shelf, release: () => rm(shelf, { recursive: true, force: true }) };
  }
  const root = resolve(directory);
  const lock = await acquireStoreLock(root);
  try {
    const manifest = await openManifest(root, shards);
    return { directory: root, shelf: join(root, 'results'), shards: manifest.shards, release: () => lock.release() };
  } catch (error) {
    await lock.release();
    throw error;
  }
}
