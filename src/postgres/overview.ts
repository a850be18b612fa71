/** Reads the tables of a cluster without a place in it: who owns the shards, and what the log keeps. Writes nothing. */
import { OVERVIEW_MS } from '../base/bounds.ts';
import { defined } from '../base/defined.ts';
import type { NodeAddress } from '../cluster/plan.ts';
import type { Row } from './connection.ts';
import { addressIn } from './node-address.ts';
import { hasTables, type Tables } from './schema.ts';
import { type ClusterAddress, withTables } from './with-tables.ts';

/**
 * A node. `leaseLeftMs`: milliseconds until its lease ends if it is not renewed; negative if it has run out. `address`
 * missing: it answers no other nodes.
 */
export interface NodeOverview {
  readonly node: string;
  readonly leaseLeftMs: number;
  readonly address?: NodeAddress;
}

/** One shard. `owner` missing: no node has it. `snapshot` missing: none was taken yet. */
export interface ShardOverview {
  readonly shard: number;
  readonly owner?: NodeOverview;
  /** The number of times that a node has claimed the shard. */
  readonly epoch: number;
  /** The number of the last log entry; 0 if there was none yet. */
  readonly lastEntry: number;
  /** The entries that the database keeps. */
  readonly log: { readonly entries: number; readonly bytes: number };
  /** `entry`: the number of the last entry that it contains. `bytes`: as stored, compressed. */
  readonly snapshot?: { readonly entry: number; readonly bytes: number; readonly ageMs: number };
}

/** See the head of this file. */
export interface ClusterOverview {
  readonly cluster: string;
  readonly schema: string;
  readonly isEncrypted: boolean;
  readonly shards: readonly ShardOverview[];
  /** The nodes with a lease that have no shard: each waits to be the next owner. */
  readonly standbys: readonly NodeOverview[];
}

/**
 * Resolves to undefined if the schema has no cluster. Rejects with `ConfigError` for a bad option, for a missing
 * package, and if the database refuses the role; with `StoreVersionError` for tables of another version; with
 * `StoreFullError` if the database does not answer.
 */
export function readOverview(address: ClusterAddress): Promise<ClusterOverview | undefined> {
  return withTables(address, async (connection, tables, schema) => {
    if (!(await hasTables(connection, tables))) return undefined;
    const results = await connection.runAll(statementsOf(tables), OVERVIEW_MS);
    const [shards = [], standbys = []] = results.slice(1).map(({ rows }) => rows);
    const [row] = shards;
    return row === undefined
      ? undefined
      : {
          cluster: String(row['id']),
          schema,
          isEncrypted: row['encrypted'] === true,
          shards: shards.map(shardIn),
          standbys: standbys.map(nodeIn),
        };
  });
}

/** One transaction, so that all rows are of one moment. The database refuses writes in it. */
function statementsOf({ cluster, node, shard, log, snapshot, piece }: Tables): readonly string[] {
  // The clock at the begin of the transaction belongs to the rows: counting may take longer than a lease.
  const left = '(extract(epoch FROM o.expires - now()) * 1000)::float8 AS left';
  // The length of a stored value is read without the value.
  const size = 'coalesce(sum(octet_length(bytes)), 0) AS bytes';
  return [
    'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY',
    `SELECT c.id, c.key_id IS NOT NULL AS encrypted, s.shard, s.epoch, s.last, o.name, o.address, ${left}, ` +
      'l.entries, l.bytes, n.no AS covers, p.bytes AS packed, (extract(epoch FROM now() - n.taken) * 1000)::float8 AS age ' +
      `FROM ${cluster} c CROSS JOIN ${shard} s LEFT JOIN ${node} o ON o.stay = s.owner ` +
      `LEFT JOIN ${snapshot} n ON n.shard = s.shard ` +
      `CROSS JOIN LATERAL (SELECT count(*) AS entries, ${size} FROM ${log} WHERE shard = s.shard) l ` +
      `CROSS JOIN LATERAL (SELECT ${size} FROM ${piece} WHERE shard = s.shard AND id = n.id) p ORDER BY s.shard`,
    `SELECT o.name, o.address, ${left} FROM ${node} o WHERE o.expires > now() AND ` +
      `NOT EXISTS (SELECT 1 FROM ${shard} s WHERE s.owner = o.stay) ORDER BY o.joined`,
    'COMMIT',
  ];
}

function shardIn(row: Row): ShardOverview {
  return {
    shard: Number(row['shard']),
    ...defined({ owner: row['name'] === null ? undefined : nodeIn(row) }),
    epoch: Number(row['epoch']),
    lastEntry: Number(row['last']),
    log: { entries: Number(row['entries']), bytes: Number(row['bytes']) },
    ...defined({
      snapshot:
        row['covers'] === null
          ? undefined
          : {
              entry: Number(row['covers']),
              bytes: Number(row['packed']),
              ageMs: Math.max(0, Math.round(Number(row['age']))),
            },
    }),
  };
}

function nodeIn(row: Row): NodeOverview {
  return {
    node: String(row['name']),
    leaseLeftMs: Math.round(Number(row['left'])),
    ...defined({ address: addressIn(row['address']) }),
  };
}
