/** `runtime.backup`: checks the directory, and lets each shard copy its journal into it. */
import { relative, resolve, sep } from 'node:path';
import { defined } from '../../base/defined.ts';
import { ConfigError, describeValue } from '../../base/errors.ts';
import type { BackupReport, WriteBackup } from '../../journal/store/backup.ts';
import type { ShardCaller } from '../protocol/protocol.ts';

/** The parts of a runtime that a backup reads. */
export interface BackupParts {
  readonly links: readonly ShardCaller[];
  /** The data directory; undefined: the store is in memory. */
  readonly store: string | undefined;
  readonly now: () => number;
  readonly writeBackup: WriteBackup;
  /** The membership in a cluster; undefined: the runtime is in no cluster. */
  readonly cluster: object | undefined;
}

/** See `Runtime.backup`. */
export async function backupStore(parts: BackupParts, directory: string): Promise<BackupReport> {
  const { links, store, now, writeBackup, cluster } = parts;
  if (store === undefined) throw new ConfigError('a store in memory has no files to back up');
  if (cluster !== undefined) {
    throw new ConfigError('the data of a cluster are in its database: back up the database', { data: { path: store } });
  }
  if (typeof directory !== 'string' || directory.trim() === '') {
    throw new ConfigError(`the directory of a backup must be a path, got ${describeValue(directory)}`);
  }
  const path = resolve(directory);
  if (isWithin(path, store) || isWithin(store, path)) {
    throw new ConfigError(`${path} lies in the store ${store}, or the store in it: choose another directory`, {
      data: { path },
    });
  }
  return writeBackup(path, {
    store,
    shards: links.length,
    copyShard: async (shard, to, known) => {
      const link = links[shard];
      if (link === undefined) throw new Error(`no shard ${shard}`);
      return link.call('runtime.copy', { directory: to, ...defined({ known }) }, true);
    },
    now,
  });
}

function isWithin(path: string, directory: string): boolean {
  const way = relative(directory, path);
  return way === '' || !(way === '..' || way.startsWith(`..${sep}`) || resolve(way) === way);
}
