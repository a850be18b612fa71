/**
 * The register of nodes and shards on PostgreSQL.
 *
 * Owns: the stay of its node. Does not own: the decisions when the lease is renewed and when shards are claimed
 * (`stay.ts`).
 *
 * Invariants:
 *  PD1 only the database's clock ends a lease. It is read with `clock_timestamp()`, because `now()` is the start of the
 *     transaction, from before the transaction waited for a lock;
 *  PD2 a lease is ended by the removal of its row, in the transaction that claims its shards, and only by a stay whose
 *     own lease holds then. A renewal at the same time either comes first, and the lease holds, or finds no row;
 *  PD3 a claim is one message to the database, which runs it as one transaction. A node that freezes holds no lock;
 *  PD4 claims wait for each other at the row of the cluster, so a node has all shards or none;
 *  PD5 a claim ends no lease once half of a lease has passed since the last renewal whose answer this node has. So a claim
 *     that the database works off after it stood still ends none: the owner's renewal waits beside it;
 *  PD6 a stay claims each shard once. A claim whose answer was lost is repeated and answered with what it made. A late
 *     claim changes nothing: it would fence the log of the node that sent it.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { LEASE_ATTEMPT_SHARE, LEASE_GAP_SHARE, NODE_ROWS_KEPT_MS, STATEMENT_MS } from '../base/bounds.ts';
import { defined } from '../base/defined.ts';
import { ConfigError, StoreKeyError } from '../base/errors.ts';
import type { ClaimResult, ClusterBirth, ClusterFacts, ShardDirectory, ShardOwner } from '../cluster/plan.ts';
import type { Row, StatementPort } from './connection.ts';
import { prepareTables, type Tables } from './schema.ts';

/** Bytes of the token of a claim. */
const TOKEN_BYTES = 16;

/** See the head of this file. */
export class PostgresDirectory implements ShardDirectory {
  readonly #connection: StatementPort;
  readonly #tables: Tables;
  /** Names the stay of this node: letters, digits and `-`. */
  #stay = '';
  #shards = 0;
  /** The moment until which a claim may end leases (PD5): milliseconds on the database's clock. */
  #endsUntilMs = 0;

  constructor(connection: StatementPort, tables: Tables) {
    this.#connection = connection;
    this.#tables = tables;
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

  async join(name: string, leaseMs: number): Promise<void> {
    const { node, shard } = this.#tables;
    this.#stay = randomUUID();
    const { rows } = await this.#connection.run(
      'join',
      `INSERT INTO ${node} (stay, name, joined, expires) VALUES ($1, $2, clock_timestamp(), ${afterMs('$3')}) ` +
        `RETURNING ${NOW_MS} AS now`,
      [this.#stay, name, leaseMs],
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
      // The lease must not end while one attempt waits for a connection that was cut.
      Math.min(STATEMENT_MS, leaseMs * LEASE_ATTEMPT_SHARE),
    );
    this.#noteRenewal(rows[0], leaseMs);
    return rowCount === 1;
  }

  async claimAll(mayEndOthers: boolean): Promise<ClaimResult> {
    const { cluster, node, shard } = this.#tables;
    const owner = this.#stay;
    const me = literal(owner);
    const tokens = Array.from({ length: this.#shards }, () => randomBytes(TOKEN_BYTES).toString('hex'));
    const claimed = tokens.map((token, index) => `(${index}, '\\x${token}'::bytea)`).join(', ');
    const others = `SELECT 1 FROM ${shard} o JOIN ${node} n ON n.stay = o.owner WHERE o.owner <> ${me}`;
    const held = `SELECT 1 FROM ${node} m WHERE m.stay = ${me} AND m.expires > clock_timestamp()`;
    const results = await this.#connection.runAll([
      `SELECT 1 FROM ${cluster} FOR UPDATE`,
      ...(mayEndOthers
        ? [
            `DELETE FROM ${node} WHERE stay <> ${me} AND expires < clock_timestamp() ` +
              `AND ${NOW_MS} < ${this.#endsUntilMs} AND EXISTS (${held})`,
          ]
        : []),
      this.#ownerOf(`WHERE s.owner <> ${me}`),
      `UPDATE ${shard} s SET owner = ${me}, epoch = s.epoch + 1, token = c.token ` +
        `FROM (VALUES ${claimed}) c (shard, token) WHERE c.shard = s.shard AND s.owner IS DISTINCT FROM ${me} ` +
        `AND NOT EXISTS (${others}) AND EXISTS (SELECT 1 FROM ${node} WHERE stay = ${me})`,
      `SELECT shard, epoch, encode(token, 'hex') AS token FROM ${shard} WHERE owner = ${me} ORDER BY shard`,
    ]);
    const rows = results.at(-1)?.rows ?? [];
    if (rows.length < this.#shards) return { owner: ownerIn(results.at(-3)?.rows[0]) };
    const claims = rows.map((row) => ({
      shard: Number(row['shard']),
      epoch: Number(row['epoch']),
      token: String(row['token']),
      owner,
    }));
    return { claims };
  }

  async owner(): Promise<ShardOwner | undefined> {
    const { rows } = await this.#connection.run('owner', this.#ownerOf(''), []);
    return ownerIn(rows[0]);
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

  /** The statement that finds one owner of shards. The lease of this owner may have run out. */
  #ownerOf(where: string): string {
    const { node, shard } = this.#tables;
    return (
      `SELECT n.name, (extract(epoch FROM n.expires - clock_timestamp()) * 1000)::float8 AS left FROM ${shard} s ` +
      `JOIN ${node} n ON n.stay = s.owner ${where} LIMIT 1`
    );
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

function ownerIn(row: Row | undefined): ShardOwner | undefined {
  if (row === undefined) return undefined;
  return { node: String(row['name']), leaseLeftMs: Math.max(0, Math.round(Number(row['left']))) };
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
