/**
 * Writes the changes of packed batches (`stored-batch.ts`) into the tables of an environment, the LMDB file of one
 * shard.
 */

import type { StoredChange } from '../engine.ts';
import { sealText } from '../rows/sealed-text.ts';
import { encodeBlob } from '../rows/stored-text.ts';
import type { LmdbEnvironment } from './environment.ts';

/** The option that puts a row after all others. */
const APPEND = { append: true } as const;

/**
 * Puts changes. Call it inside `ifVersion`, `batch` or `transactionSync`, so that all puts are one transaction; the
 * promises of single puts can be ignored. `lastRow`: the last row of the log before these changes.
 */
export function putChanges(environment: LmdbEnvironment, changes: readonly StoredChange[], lastRow: number): void {
  // `changes` may be those of several commits, which may put a row and then rewrite it.
  let last = lastRow;
  for (const change of changes) {
    if (typeof change.key !== 'number') {
      putByName(environment, change, change.key);
      continue;
    }
    putByNumber(environment, change, change.key, last);
    if (change.table === 'log') last = Math.max(last, change.key);
  }
}

function putByNumber(environment: LmdbEnvironment, change: StoredChange, key: number, lastRow: number): void {
  const { table, value } = change;
  switch (table) {
    case 'log':
      if (value === undefined) void environment.log.remove(key);
      // Numbers rise (E2). With `append` LMDB fills its pages instead of leaving half of each free.
      // The promise of such a put rejects together with the commit's promise. The caller handles only the commit's.
      else if (key > lastRow) environment.log.put(key, bytesOf(value), APPEND).catch(() => undefined);
      else void environment.log.put(key, bytesOf(value));
      return;
    case 'keys':
    case 'heads':
    case 'lastRows':
    case 'runnable':
    case 'drafts':
    case 'erasures':
    case 'dataKeys':
    case 'starts':
    case 'origins':
    case 'audit':
      if (value === undefined) void environment[table].remove(key);
      else void environment[table].put(key, sealText(table, key, textOf(value)));
      return;
    default:
      throw new Error(`the table ${table} has no numbers as keys`);
  }
}

function putByName(environment: LmdbEnvironment, { table, value }: StoredChange, key: string): void {
  switch (table) {
    case 'names':
      if (value === undefined) void environment.names.remove(key);
      else void environment.names.put(key, sealText('names', key, textOf(value)));
      return;
    case 'blobs':
      if (value === undefined) void environment.blobs.remove(key);
      else void environment.blobs.put(key, typeof value === 'string' ? encodeBlob(value) : value);
      return;
    case 'media':
      if (value === undefined) void environment.media.remove(key);
      else void environment.media.put(key, bytesOf(value));
      return;
    case 'meta':
      if (value === undefined) void environment.meta.remove(key);
      else void environment.meta.put(key, sealText('meta', key, textOf(value)), 0);
      return;
    default:
      throw new Error(`the table ${table} has no texts as keys`);
  }
}

function bytesOf(value: string | Buffer): Buffer {
  return typeof value === 'string' ? Buffer.from(value) : value;
}

function textOf(value: string | Buffer): string {
  return typeof value === 'string' ? value : value.toString();
}
