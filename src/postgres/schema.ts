/**
 * The tables of a cluster, in its own schema, and the numbered changes that make them. Changes only add. So a node of
 * an earlier version can use the tables of a later version, unless its version is below `lowest` in `troupe_version`.
 *
 * | table | one row |
 * | --- | --- |
 * | `troupe_version` | the number of the newest change, and the lowest version of a node that may use the tables |
 * | `troupe_cluster` | the cluster's id, its number of shards, the key id of its encryption |
 * | `troupe_node` | the stay of a node, with the end of its lease and the address at which it answers other nodes |
 * | `troupe_shard` | a shard: the newest claim, its owner's stay, and the number of its last log entry |
 * | `troupe_log` | a log entry of a shard |
 * | `troupe_snapshot` | the newest snapshot of a shard |
 * | `troupe_piece` | a piece of a snapshot, or of one that is being written |
 */
import { STATEMENT_MS } from '../base/bounds.ts';
import { StoreVersionError } from '../base/errors.ts';
import { type StatementPort, stateOf } from './connection.ts';

/** The names of the tables, quoted, with their schema. */
export interface Tables {
  readonly schema: string;
  readonly version: string;
  readonly cluster: string;
  readonly node: string;
  readonly shard: string;
  readonly log: string;
  readonly snapshot: string;
  readonly piece: string;
}

/** The names of the tables in a schema. The caller has checked the name of the schema. */
export function tablesOf(schema: string): Tables {
  const table = (name: string): string => `"${schema}".troupe_${name}`;
  return {
    schema: `"${schema}"`,
    version: table('version'),
    cluster: table('cluster'),
    node: table('node'),
    shard: table('shard'),
    log: table('log'),
    snapshot: table('snapshot'),
    piece: table('piece'),
  };
}

/** Partitions of the log, so that busy shards have separate indexes and are vacuumed separately. */
const LOG_PARTITIONS = 16;

/** The changes, in order; the first has number 1. */
const CHANGES: readonly ((tables: Tables) => readonly string[])[] = [
  ({ version, cluster, node, shard, log }) => [
    `CREATE TABLE ${version} (one boolean PRIMARY KEY DEFAULT true CHECK (one), number integer NOT NULL, lowest integer NOT NULL)`,
    `INSERT INTO ${version} (number, lowest) VALUES (0, 1)`,
    `CREATE TABLE ${cluster} (one boolean PRIMARY KEY DEFAULT true CHECK (one), id text NOT NULL, shards integer NOT NULL, key_id text)`,
    `CREATE TABLE ${node} (stay text PRIMARY KEY, name text NOT NULL, joined timestamptz NOT NULL, expires timestamptz NOT NULL)`,
    // Each append updates the row of its shard. With free room in the page, the update need not touch the index.
    `CREATE TABLE ${shard} (shard integer PRIMARY KEY, epoch bigint NOT NULL, token bytea NOT NULL, owner text, last bigint NOT NULL) WITH (fillfactor = 30)`,
    `CREATE TABLE ${log} (shard integer NOT NULL, no bigint NOT NULL, epoch bigint NOT NULL, digest bytea NOT NULL, bytes bytea NOT NULL, PRIMARY KEY (shard, no)) PARTITION BY HASH (shard)`,
    // The bytes are compressed already.
    `ALTER TABLE ${log} ALTER COLUMN bytes SET STORAGE EXTERNAL`,
    ...Array.from(
      { length: LOG_PARTITIONS },
      (_, index) =>
        `CREATE TABLE ${log}_${index} PARTITION OF ${log} FOR VALUES WITH (MODULUS ${LOG_PARTITIONS}, REMAINDER ${index})`,
    ),
  ],
  // A node of version 1 does not expect a log without its first entries. It would conclude that the database has lost
  // the commits of its copy.
  ({ version, snapshot, piece }) => [
    `CREATE TABLE ${snapshot} (shard integer PRIMARY KEY, id text NOT NULL, no bigint NOT NULL, digest bytea NOT NULL, pieces integer NOT NULL, hash bytea NOT NULL, format integer NOT NULL, taken timestamptz NOT NULL)`,
    `CREATE TABLE ${piece} (shard integer NOT NULL, id text NOT NULL, no integer NOT NULL, bytes bytea NOT NULL, PRIMARY KEY (shard, id, no))`,
    `ALTER TABLE ${piece} ALTER COLUMN bytes SET STORAGE EXTERNAL`,
    `UPDATE ${version} SET lowest = 2`,
  ],
  // A node of version 2 enters without an address, as a node that answers no other nodes.
  ({ node }) => [`ALTER TABLE ${node} ADD COLUMN address text`],
];

/** The version of the tables that this version makes. */
const VERSION = CHANGES.length;
const NO_TABLE = '42P01';
const NO_SCHEMA = '3F000';

/** The row of `troupe_version`. */
interface TablesVersion {
  readonly number: number;
  readonly lowest: number;
}

/** The version that tables had, 0 for none, and the version that they have now. */
export interface TablesChange {
  readonly from: number;
  readonly to: number;
}

/**
 * Makes the tables, or the changes that are missing, and checks that this version may use them. Rejects with
 * `StoreVersionError` if a later version has changed the tables so that this version may not use them.
 */
export async function prepareTables(connection: StatementPort, tables: Tables): Promise<TablesChange> {
  const found = await findVersion(connection, tables);
  if (found === undefined || found.number < VERSION) {
    await connection.runAll(changesFrom(found?.number ?? 0, tables), STATEMENT_MS * 4).catch((error: unknown) => {
      // Another node made the same changes meanwhile; the check below decides.
      if (!isRace(error)) throw error;
    });
  }
  const now = (await findVersion(connection, tables)) ?? { number: 0, lowest: 0 };
  checkVersion(now);
  return { from: found?.number ?? 0, to: now.number };
}

/**
 * True if the schema has tables that this version may read. Makes nothing. Rejects with `StoreVersionError` for tables
 * of another version.
 */
export async function hasTables(connection: StatementPort, tables: Tables): Promise<boolean> {
  const found = await findVersion(connection, tables);
  if (found !== undefined) checkVersion(found);
  return found !== undefined;
}

function checkVersion({ number, lowest }: TablesVersion): void {
  if (number >= VERSION && lowest <= VERSION) return;
  throw new StoreVersionError(
    `the tables of the cluster have version ${number} and need at least version ${lowest} of a node; ` +
      `this one has version ${VERSION}. Nothing was written`,
    { data: { found: number, supported: VERSION } },
  );
}

/** The changes as one transaction. Nodes that open a new cluster at the same time wait for each other. */
function changesFrom(number: number, tables: Tables): readonly string[] {
  const { schema, version } = tables;
  const changes = CHANGES.slice(number).flatMap((change) => change(tables));
  const created = number === 0 ? [`CREATE SCHEMA IF NOT EXISTS ${schema}`] : [];
  const updated = `UPDATE ${version} SET number = ${VERSION} WHERE number = ${number}`;
  return [...created, ...changes, updated];
}

/**
 * True if another node made the same change at the same time: a table, schema, type or column exists already, or the
 * two nodes waited for each other (a deadlock).
 */
function isRace(error: unknown): boolean {
  return ['42P07', '42P06', '42710', '42701', '23505', '40P01'].includes(stateOf(error) ?? '');
}

/** The version of the tables; undefined if the schema has none. Makes nothing. */
export async function findVersion(connection: StatementPort, { version }: Tables): Promise<TablesVersion | undefined> {
  try {
    const { rows } = await connection.run('version', `SELECT number, lowest FROM ${version}`, []);
    const [row] = rows;
    return row === undefined ? undefined : { number: Number(row['number']), lowest: Number(row['lowest']) };
  } catch (error) {
    const state = stateOf(error);
    if (state === NO_TABLE || state === NO_SCHEMA) return undefined;
    throw error;
  }
}
