/**
 * Makes a data directory into a store. Its shards are made first, then its manifest. So a shard that is missing
 * although there is a manifest was removed, and is never mistaken for a new shard.
 *
 * Owns: `creating.json`. This file has the number of shards that the store is made with. It is written before the
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
  type ClusterRecord,
  readBegunManifest,
  readManifest,
  type StoreManifest,
  shardDirectory,
  writeManifest,
} from './manifest.ts';
import type { EncryptionRecord } from './store-key.ts';

/**
 * The manifest of a data directory. A directory without one becomes a store with `shards` shards, encrypted with
 * `encryption` if that is given. The caller holds the directory's lock. An interrupted change of the number of shards
 * is undone or finished. Rejects like `readManifest`, and with the errors of `openError` when a store cannot be made.
 * Rejects with `ConfigError` for the directory of a backup, or of a cluster.
 */
export async function openManifest(
  directory: string,
  shards: number,
  encryption?: EncryptionRecord,
): Promise<StoreManifest> {
  const known = await readManifest(directory);
  const begun = await readBegunManifest(directory);
  if (known?.cluster !== undefined) throw otherCluster(directory, known.cluster);
  if (known !== undefined && begun === undefined) return settled(directory, known);
  await refuseBackup(directory);
  try {
    return await writeManifest(directory, known?.shards ?? (await createShards(directory, shards)), encryption);
  } catch (error) {
    throw await openError(directory, directory, error);
  }
}

/**
 * Checks that a directory can hold the copies of a cluster's shards: it is new, or it was opened with a cluster before.
 * Resolves to the id of that cluster. Rejects with `ConfigError` for any other store, and like `readManifest`.
 */
export async function clusterOf(directory: string): Promise<string | undefined> {
  const known = await readManifest(directory);
  if (known === undefined) {
    await refuseBackup(directory);
    return undefined;
  }
  if (known.cluster === undefined) throw otherCluster(directory, undefined);
  return known.cluster.id;
}

/**
 * Writes the manifest of a directory for the copies of a cluster's shards, if it has none. A missing copy is not
 * damage, so no copy is made here. The caller has checked the directory with `clusterOf`.
 */
export async function openCopyManifest(
  directory: string,
  shards: number,
  cluster: ClusterRecord,
  encryption?: EncryptionRecord,
): Promise<StoreManifest> {
  try {
    return await writeManifest(directory, shards, encryption, cluster);
  } catch (error) {
    throw await openError(directory, directory, error);
  }
}

/** The error for a directory that was opened without a cluster, and is to be opened with one, or the reverse. */
function otherCluster(directory: string, found: ClusterRecord | undefined): ConfigError {
  const is = found === undefined ? 'is a store without a cluster' : `has copies of the cluster ${found.id}`;
  const remedy = found === undefined ? 'give another directory' : 'open it with this option';
  return new ConfigError(`option "cluster": ${directory} ${is}; ${remedy}. Nothing was written`, {
    data: { key: 'cluster', path: directory },
  });
}

async function refuseBackup(directory: string): Promise<void> {
  if ((await readBackupRecord(directory)) === undefined) return;
  throw new ConfigError(`${directory} is a backup: \`troupe restore ${directory} DIR\` makes a store of it`, {
    data: { path: directory },
  });
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

/** Resolves to the number of shards. If an earlier opener was killed during the creation, its number counts. */
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
