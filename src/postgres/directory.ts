/**
 * The register of nodes and shards on PostgreSQL.
 *
 * Owns: the id of its node's stay (`src/cluster/plan.ts`). Does not own: the decisions when the lease is renewed and
 * when shards are claimed (`src/cluster/stay.ts`).
 *
 * Invariants:
 *  PD1 only the database's clock ends a lease. It is read with `clock_timestamp()`. `now()` would be the time at which
 *     the transaction began, before it waited for a lock;
 *  PD2 a lease is ended by the removal of its row, in the transaction that claims its shards, and only by a stay whose
 *     own lease holds then. A renewal at the same time either comes first, and the lease holds, or finds no row;
 *  PD3 a claim is one message to the database, which runs it as one transaction. So a node that freezes holds no lock;
 *  PD4 claims wait for each other at the row of the cluster. So a standby has all shards or none, and nodes that share
 *     the shards at the same time do not claim more than their shares;
 *  PD5 a claim ends no lease once half of a lease has passed since the last renewal whose answer this node has. If the
 *     database stood still, it may run a claim before the owner's renewal, which waits there too. By then, the claim
 *     ends no lease;
 *  PD6 a stay claims each shard once. If the answer of a claim is lost, the claim is sent again, and the answer names
 *     the claims that the first one made. A second claim changes nothing. A new token would fence the node's own log.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { LEASE_ATTEMPT_SHARE, LEASE_GAP_SHARE, NODE_ROWS_KEPT_MS, STATEMENT_MS } from '../base/bounds.ts';
import { defined } from '../base/defined.ts';
import { ConfigError, StoreKeyError } from '../base/errors.ts';
import type {
  ClaimRequest,
  ClusterBirth,
  ClusterFacts,
  NodeAddress,
  OtherNode,
  ShardClaim,
  ShardDirectory,
  ShardMap,
} from '../cluster/plan.ts';
import type { Result, Row, StatementPort } from './connection.ts';
import { addressIn, addressText } from './node-address.ts';
import { prepareTables, type Tables } from './schema.ts';

/** Bytes of the token of a claim. */
const TOKEN_BYTES = 16;

/** See the head of this file. */
export class PostgresDirectory implements ShardDirectory {
  readonly #connection: StatementPort;
  readonly #tables: Tables;
  readonly #makeStay: () => string;
  /** The id of this node's stay: letters, digits and `-`. */
  #stay = '';
  #shards = 0;
  /**
   * Milliseconds for one attempt to renew, claim or release. The lease must not end, and no shard must stay free, while
   * one attempt waits for a connection that was cut.
   */
  #attemptMs = STATEMENT_MS;
  /** The moment until which a claim may end leases (PD5): milliseconds on the database's clock. */
  #endsUntilMs = 0;

  /** `makeStay`: makes the id of a stay. A simulator gives its own. */
  constructor(connection: StatementPort, tables: Tables, makeStay: () => string = randomUUID) {
    this.#connection = connection;
    this.#tables = tables;
    this.#makeStay = makeStay;
  }

  async prepare(birth: ClusterBirth, isGiven: boolean): Promise<ClusterFacts> {
    const { cluster, shard } = this.#tables;
    await prepareTables(this.#connection, this.#tables);
    await this.#connection.run(
      'found',
      `INSERT INTO ${cluster} (id, shards, key_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
      [randomUUID(), birth.shards, birth.keyId ?? null],
    );
    const { rows } = await this.#connection.run('facts', `SELECT id, shards, key_id FROM ${cluster}`, []);
    const facts = factsOf(rows[0]);
    await this.#connection.run(
      'shards',
      `INSERT INTO ${shard} (shard, epoch, token, last) SELECT n, 0, ''::bytea, 0 FROM generate_series(0, $1::integer - 1) n ` +
        'ON CONFLICT DO NOTHING',
      [facts.shards],
    );
    this.#shards = facts.shards;
    checkFacts(facts, birth, isGiven);
    return facts;
  }

  async join(name: string, leaseMs: number, address?: NodeAddress): Promise<void> {
    const { node, shard } = this.#tables;
    this.#stay = this.#makeStay();
    this.#attemptMs = Math.min(STATEMENT_MS, leaseMs * LEASE_ATTEMPT_SHARE);
    const { rows } = await this.#connection.run(
      'join',
      `INSERT INTO ${node} (stay, name, joined, expires, address) ` +
        `VALUES ($1, $2, clock_timestamp(), ${afterMs('$3')}, $4) RETURNING ${NOW_MS} AS now`,
      [this.#stay, name, leaseMs, address === undefined ? null : addressText(address)],
    );
    this.#noteRenewal(rows[0], leaseMs);
    // Removes the rows of nodes that ended without leaving.
    await this.#connection.run(
      'forget',
      `DELETE FROM ${node} n WHERE n.expires < ${afterMs('$1')} AND NOT EXISTS ` +
        `(SELECT 1 FROM ${shard} s WHERE s.owner = n.stay)`,
      [-NODE_ROWS_KEPT_MS],
    );
  }

  async renew(leaseMs: number): Promise<boolean> {
    const { node } = this.#tables;
    const { rowCount, rows } = await this.#connection.run(
      'renew',
      `UPDATE ${node} SET expires = ${afterMs('$2')} WHERE stay = $1 RETURNING ${NOW_MS} AS now`,
      [this.#stay, leaseMs],
      this.#attemptMs,
    );
    this.#noteRenewal(rows[0], leaseMs);
    return rowCount === 1;
  }

  async claim({ mayEndOthers, want }: ClaimRequest): Promise<ShardMap> {
    const { cluster, node, shard } = this.#tables;
    const me = literal(this.#stay);
    const tokens = Array.from({ length: this.#shards }, () => randomBytes(TOKEN_BYTES).toString('hex'));
    const offered = tokens.map((token, index) => `(${index}, '\\x${token}'::bytea)`).join(', ');
    const held = `SELECT 1 FROM ${node} m WHERE m.stay = ${me} AND m.expires > clock_timestamp()`;
    const results = await this.#connection.runAll(
      [
        `SELECT 1 FROM ${cluster} FOR UPDATE`,
        ...(mayEndOthers
          ? [
              `DELETE FROM ${node} WHERE stay <> ${me} AND expires < clock_timestamp() ` +
                `AND ${NOW_MS} < ${this.#endsUntilMs} AND EXISTS (${held})`,
            ]
          : []),
        `UPDATE ${shard} s SET owner = ${me}, epoch = s.epoch + 1, token = c.token ` +
          `FROM (VALUES ${offered}) c (shard, token) WHERE c.shard = s.shard AND s.owner IS DISTINCT FROM ${me} ` +
          `AND ${want === 'all' ? this.#allFree(me) : this.#inShare(me)} ` +
          `AND EXISTS (SELECT 1 FROM ${node} WHERE stay = ${me})`,
        ...this.#mapOf(me),
      ],
      this.#attemptMs,
    );
    return this.#mapIn(results.slice(-2));
  }

  async release({ shard: index, epoch }: Pick<ShardClaim, 'shard' | 'epoch'>): Promise<void> {
    const { shard } = this.#tables;
    await this.#connection.run(
      'release',
      `UPDATE ${shard} SET owner = NULL WHERE shard = $1 AND owner = $2 AND epoch = $3`,
      [index, this.#stay, epoch],
      this.#attemptMs,
    );
  }

  async retire(): Promise<void> {
    const { node } = this.#tables;
    await this.#connection.run('retire', `UPDATE ${node} SET address = NULL WHERE stay = $1`, [this.#stay]);
  }

  async look(): Promise<ShardMap> {
    return this.#mapIn(await this.#connection.runAll(this.#mapOf(literal(this.#stay))));
  }

  async leave(): Promise<void> {
    // Before the first statement of a stay there is nothing to give back.
    if (this.#stay === '') return;
    const { node, shard } = this.#tables;
    const me = literal(this.#stay);
    await this.#connection.runAll([
      `UPDATE ${shard} SET owner = NULL WHERE owner = ${me}`,
      `DELETE FROM ${node} WHERE stay = ${me}`,
    ]);
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  #noteRenewal(row: Row | undefined, leaseMs: number): void {
    if (row !== undefined) this.#endsUntilMs = Number(row['now']) + leaseMs * LEASE_GAP_SHARE;
  }

  /** The condition that no shard belongs to another node. */
  #allFree(me: string): string {
    const { node, shard } = this.#tables;
    return `NOT EXISTS (SELECT 1 FROM ${shard} o JOIN ${node} n ON n.stay = o.owner WHERE o.owner <> ${me})`;
  }

  /**
   * The condition that a shard is one of those that this node may add to its share. A node that has the fewest shards of
   * a share leaves the others to a node that has fewer.
   */
  #inShare(me: string): string {
    const { node, shard } = this.#tables;
    const sharing = `p.stay <> ${me} AND p.address IS NOT NULL AND p.expires > clock_timestamp()`;
    const nodes = `(1 + (SELECT count(*) FROM ${node} p WHERE ${sharing}))`;
    const least = `(${this.#shards} / ${nodes})`;
    const most = `((${this.#shards} - 1 + ${nodes}) / ${nodes})`;
    const own = `(SELECT count(*) FROM ${shard} WHERE owner = ${me})`;
    const lacks = `EXISTS (SELECT 1 FROM ${node} p WHERE ${sharing} AND (SELECT count(*) FROM ${shard} o WHERE o.owner = p.stay) < ${least})`;
    const free = `SELECT f.shard FROM ${shard} f WHERE NOT EXISTS (SELECT 1 FROM ${node} n WHERE n.stay = f.owner)`;
    const room = `greatest(0, CASE WHEN ${lacks} THEN ${least} ELSE ${most} END - ${own})`;
    return `s.shard IN (${free} ORDER BY f.shard LIMIT ${room})`;
  }

  /** The statements that read the owners. A stay that another node has ended has no claims. */
  #mapOf(me: string): readonly string[] {
    const { node, shard } = this.#tables;
    return [
      `SELECT shard, epoch, encode(token, 'hex') AS token FROM ${shard} WHERE owner = ${me} ` +
        `AND EXISTS (SELECT 1 FROM ${node} WHERE stay = ${me}) ORDER BY shard`,
      'SELECT n.stay, n.name, n.address, (extract(epoch FROM n.expires - clock_timestamp()) * 1000)::float8 AS left, s.shard ' +
        `FROM ${node} n LEFT JOIN ${shard} s ON s.owner = n.stay WHERE n.stay <> ${me} ` +
        'AND (s.shard IS NOT NULL OR n.expires > clock_timestamp()) ORDER BY n.joined, n.stay, s.shard',
    ];
  }

  #mapIn([claims, others]: readonly Result[]): ShardMap {
    return {
      claims: (claims?.rows ?? []).map((row) => ({
        shard: Number(row['shard']),
        epoch: Number(row['epoch']),
        token: String(row['token']),
        owner: this.#stay,
      })),
      others: othersIn(others?.rows ?? []),
    };
  }
}

/** Milliseconds on the database's clock. */
const NOW_MS = '(extract(epoch FROM clock_timestamp()) * 1000)::float8';

/** The expression for the moment so many milliseconds from now, on the database's clock (PD1). */
function afterMs(parameter: string): string {
  return `clock_timestamp() + ${parameter}::float8 * interval '1 millisecond'`;
}

/** A stay as a literal in the text of a statement. Throws for a text that is not an identifier of a stay. */
function literal(stay: string): string {
  if (!/^[0-9a-f-]+$/u.test(stay)) throw new ConfigError(`the stay ${JSON.stringify(stay)} is no identifier`);
  return `'${stay}'`;
}

/** The other nodes, from one row for each of their shards, or one for a node without shards. */
function othersIn(rows: readonly Row[]): readonly OtherNode[] {
  const shards = new Map<string, number[]>();
  const nodes: OtherNode[] = [];
  for (const row of rows) {
    const stay = String(row['stay']);
    const known = shards.get(stay);
    const own = known ?? [];
    if (row['shard'] !== null) own.push(Number(row['shard']));
    if (known !== undefined) continue;
    shards.set(stay, own);
    nodes.push({
      stay,
      node: String(row['name']),
      leaseLeftMs: Math.max(0, Math.round(Number(row['left']))),
      ...defined({ address: addressIn(row['address']) }),
      shards: own,
    });
  }
  return nodes;
}

function factsOf(row: Row | undefined): ClusterFacts {
  const keyId = row?.['key_id'];
  return {
    id: String(row?.['id']),
    shards: Number(row?.['shards']),
    ...defined({ keyId: typeof keyId === 'string' ? keyId : undefined }),
  };
}

function checkFacts(facts: ClusterFacts, birth: ClusterBirth, isGiven: boolean): void {
  if (isGiven && birth.shards !== facts.shards) {
    throw new ConfigError(
      `the cluster has ${facts.shards} shards, and ${birth.shards} were asked for. The number is given once, when the ` +
        'cluster is made: leave it out. Nothing was written',
      { data: { key: 'cluster', value: birth.shards, expected: facts.shards } },
    );
  }
  if (facts.keyId === birth.keyId) return;
  const reason =
    facts.keyId === undefined
      ? 'is not encrypted, but a key was given'
      : birth.keyId === undefined
        ? 'is encrypted, and no key was given: give it as "encryption.key"'
        : 'is encrypted with another key. The key of a cluster cannot be replaced yet';
  throw new StoreKeyError(`the cluster ${reason}. Nothing was written`, { data: { cluster: facts.id } });
}
