/**
 * Makes a data directory into a store. Its shards are made first, then its manifest. So a shard that is missing
 * although there is a manifest was removed, and is never mistaken for a new shard.
 *
 * Owns: `creating.json`. This file names the number of shards that the store is made with. It is written before the
 * first shard and removed after the manifest. A process killed in between leaves empty shards and no manifest; the next
 * opener continues.
 */
import { mkdir } from 'node:fs/promises';
import { ConfigError } from '../../base/errors.ts';
import { PRIVATE_DIRECTORY_MODE } from '../../base/private-files.ts';
import { settleLayout } from '../layout/change-layout.ts';
import { openError } from '../lmdb/errors.ts';
import { readBackupRecord } from './backup-record.ts';
import {
  beginManifest,
  readBegunManifest,
  readManifest,
  type StoreManifest,
  shardDirectory,
  writeManifest,
} from './manifest.ts';
import type { EncryptionRecord } from './store-key.ts';

/**
 * The manifest of a data directory. A directory without one becomes a store with `shards` shards, encrypted with
 * `encryption` if that is given. The caller holds the directory's lock. An interrupted change of the
 * number of shards is undone or finished. Rejects like `readManifest`, with the errors of `openError` when a store cannot be made, and with
 * `ConfigError` for the directory of a backup.
 */
export async function openManifest(
  directory: string,
  shards: number,
  encryption?: EncryptionRecord,
): Promise<StoreManifest> {
  const known = await readManifest(directory);
  const begun = await readBegunManifest(directory);
  if (known !== undefined && begun === undefined) return settled(directory, known);
  if ((await readBackupRecord(directory)) !== undefined) {
    throw new ConfigError(`${directory} is a backup: \`troupe restore ${directory} DIR\` makes a store of it`, {
      data: { path: directory },
    });
  }
  try {
    return await writeManifest(directory, known?.shards ?? (await createShards(directory, shards)), encryption);
  } catch (error) {
    throw await openError(directory, directory, error);
  }
}

/**
 * Undoes or finishes an interrupted change of the number of shards, and then reads the manifest again to check it.
 */
async function settled(directory: string, known: StoreManifest): Promise<StoreManifest> {
  try {
    const manifest = await settleLayout(directory, known);
    return manifest === known ? known : ((await readManifest(directory)) ?? manifest);
  } catch (error) {
    throw await openError(directory, directory, error);
  }
}

/** Resolves to the number of shards. An earlier opener that was killed during creation has fixed that number. */
async function createShards(directory: string, wanted: number): Promise<number> {
  // Imported only on use: the host thread needs the database for nothing else.
  const { createLmdbStore } = await import('../lmdb/environment.ts');
  await mkdir(directory, { recursive: true, mode: PRIVATE_DIRECTORY_MODE });
  const { shards } = await beginManifest(directory, wanted);
  for (let shard = 0; shard < shards; shard += 1) {
    await createLmdbStore({ directory: shardDirectory(directory, shard), durability: 'flush' });
  }
  return shards;
}
