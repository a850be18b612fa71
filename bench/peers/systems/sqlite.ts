/** The SQLite driver for peers that need one: better-sqlite3. */
import { createRequire } from 'node:module';
import { join } from 'node:path';

/** The used part of the driver. */
export interface Sqlite {
  pragma(text: string): unknown;
  exec(text: string): unknown;
  prepare(text: string): SqliteStatement;
  transaction<T extends readonly unknown[]>(work: (...values: T) => void): (...values: T) => void;
  close(): unknown;
}

/** A prepared statement. */
export interface SqliteStatement {
  run(...values: readonly unknown[]): unknown;
  get(...values: readonly unknown[]): unknown;
  all(...values: readonly unknown[]): readonly unknown[];
}

const Driver = createRequire(import.meta.url)('better-sqlite3') as new (path: string) => Sqlite;

/** Opens a database in a directory. With the driver's defaults a commit in WAL mode is not synced. */
export function openSqlite(directory: string): Sqlite {
  return new Driver(join(directory, 'peer.sqlite'));
}

/** From now on each commit is synced before it returns. */
export function syncEachCommit(database: Sqlite): void {
  database.pragma('journal_mode = WAL');
  database.pragma('synchronous = FULL');
}
