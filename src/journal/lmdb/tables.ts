/**
 * The tables of a journal's environment (the LMDB file of one shard), their flags, and the version of the environment.
 */

/**
 * Version of the whole environment. A store with a higher version is not opened. A lower version is raised when the
 * store is opened for writing. From version 2 rows and blobs may be packed. From version 3 media have their own table.
 * From version 4 the entries of removed sessions are erased from rows; the table `erasures` notes what is left to
 * erase.
 *
 * Version 5 adds:
 * - the table `starts`: the older part of a session's log may be removed;
 * - the table `drafts`;
 * - the table `origins`: sessions may have been moved from another layout, and keep the names of their results;
 * - the table `dataKeys`: a store may be encrypted, and this table has its wrapped data keys;
 * - the table `audit`: the audit log;
 * - in a shard of a cluster, blobs with the whole texts of results (`stored-results.ts`);
 * - `lost` records in logs;
 * - `decided` records in logs with the author of the decision. They publish one more event.
 */
export const STORE_FORMAT = 5;
/** The tables that stores of earlier formats may lack, each with the first format that always has it. */
export const TABLE_SINCE: Readonly<Partial<Record<TableName, number>>> = Object.freeze({
  media: 3,
  erasures: 4,
  dataKeys: 5,
  drafts: 5,
  starts: 5,
  origins: 5,
  // Not 5: the first stores of version 5 were made without this table. They get it when they are opened.
  audit: 6,
});

/** The file of an environment. */
export const DATA_FILE = 'data.mdb';
/** LMDB's own lock file beside the data file. It holds the table of readers. */
export const LOCK_FILE = 'lock.mdb';

/** A folder of a shard: here a compact copy is made before it takes the place of the data file. */
export const COPY_FOLDER = 'compacting';
/** A folder of a shard in a cluster: here the file of a snapshot is made before it is written to the log. */
export const SNAPSHOT_FOLDER = 'snapshot';

/** Flags of each table: 0x08 for integer keys, 0x100 (of the npm package, not of LMDB) for versioned values. */
export const TABLE_FLAGS: Readonly<Record<TableName, number>> = Object.freeze({
  log: 0,
  names: 0,
  keys: 0x08,
  heads: 0x08,
  lastRows: 0x08,
  runnable: 0x08,
  blobs: 0,
  media: 0,
  drafts: 0x08,
  erasures: 0x08,
  dataKeys: 0x08,
  starts: 0x08,
  origins: 0x08,
  audit: 0,
  meta: 0x100,
});

/** Name of a table of a journal. */
export type TableName =
  | 'log'
  | 'names'
  | 'keys'
  | 'heads'
  | 'lastRows'
  | 'runnable'
  | 'blobs'
  | 'media'
  | 'drafts'
  | 'erasures'
  | 'dataKeys'
  | 'starts'
  | 'origins'
  | 'audit'
  | 'meta';

/** True for the name of one of our tables. */
export function isTableName(name: string): name is TableName {
  return Object.hasOwn(TABLE_FLAGS, name);
}
