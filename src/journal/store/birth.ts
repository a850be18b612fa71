/**
 * A data directory from nothing to a store: its shards are made first, then its manifest, so that a shard missing beside a
 * manifest is one that was taken away, and is never taken for a new one.
 *
 * Owns: `creating.json`, which is there from before the first shard until after the manifest, and says with how many shards the
 * store is made. A process killed in between leaves shards that hold nothing and no manifest; the next opener goes on.
 */
import { mkdir } from 'node:fs/promises';
import { asError } from '../../base/errors.ts';
import { PRIVATE_DIRECTORY_MODE } from '../../base/private-files.ts';
import { createLmdbStore } from '../lmdb/environment.ts';
import { writeError } from '../lmdb/errors.ts';
import {
  beginManifest,
  readBegunManifest,
  readManifest,
  type StoreManifest,
  shardDirectory,
  writeManifest,
} from './manifest.ts';

/**
 * The manifest of a data directory, which is made with `shards` shards where there is none yet. The caller holds its lock. Rejects
 * as `readManifest` does, and with `StoreFullError` when a store cannot be made.
 */
export async function openManifest(directory: string, shards: number): Promise<StoreManifest> {
  const known = await readManifest(directory);
  const begun = await readBegunManifest(directory);
  if (known !== undefined && begun === undefined) return known;
  try {
    return await writeManifest(directory, known?.shards ?? (await createShards(directory, shards)));
  } catch (error) {
    throw await writeError(directory, asError(error));
  }
}

/** Resolves to their number, which is that of an opener before who was killed at it. */
async function createShards(directory: string, wanted: number): Promise<number> {
  await mkdir(directory, { recursive: true, mode: PRIVATE_DIRECTORY_MODE });
  const { shards } = await beginManifest(directory, wanted);
  for (let shard = 0; shard < shards; shard += 1) {
    await createLmdbStore({ directory: shardDirectory(directory, shard), durability: 'flush' });
  }
  return shards;
}
