/**
 * Makes a cluster, and changes its tables, without a place in the cluster. A role that may make tables does this once;
 * the nodes then need only to read and write the tables.
 */
import { ConfigError } from '../base/errors.ts';
import type { ClusterBirth, ClusterFacts } from '../cluster/plan.ts';
import type { StatementPort } from './connection.ts';
import { PostgresDirectory } from './directory.ts';
import { findVersion, prepareTables, type Tables, type TablesChange } from './schema.ts';
import { type ClusterAddress, withTables } from './with-tables.ts';

/** A cluster that was made, or was there. */
export interface MadeCluster extends ClusterFacts {
  readonly schema: string;
  /** False: the cluster existed, with these facts. */
  readonly isNew: boolean;
}

/**
 * Makes a cluster unless the schema has one with these facts. Rejects with `ConfigError` if it has one with another
 * number of shards, and with `StoreKeyError` for another key. Otherwise rejects like `readOverview`.
 */
export function makeCluster(address: ClusterAddress, birth: ClusterBirth): Promise<MadeCluster> {
  return withTables(address, async (connection, tables, schema) => {
    const isNew = !(await hasCluster(connection, tables));
    const facts = await new PostgresDirectory(connection, tables).prepare(birth, false);
    if (facts.shards === birth.shards) return { ...facts, schema, isNew };
    throw new ConfigError(
      `the schema ${schema} has a cluster of ${facts.shards} shards already, and ${birth.shards} were asked for. The ` +
        'number of shards of a cluster does not change: make the other cluster in another schema',
      { data: { key: 'shards', value: birth.shards, expected: facts.shards } },
    );
  });
}

/**
 * Makes the changes of the tables that are missing. Resolves to undefined, and makes nothing, if the schema has no
 * cluster. Rejects like `readOverview`.
 */
export function changeTables(address: ClusterAddress): Promise<TablesChange | undefined> {
  return withTables(address, async (connection, tables) =>
    (await hasCluster(connection, tables)) ? prepareTables(connection, tables) : undefined,
  );
}

async function hasCluster(connection: StatementPort, tables: Tables): Promise<boolean> {
  if ((await findVersion(connection, tables)) === undefined) return false;
  const { rows } = await connection.run('made', `SELECT 1 FROM ${tables.cluster}`, []);
  return rows.length > 0;
}
