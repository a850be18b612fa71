/**
 * The log of a shard on PostgreSQL.
 *
 * Owns: its connection, and the token of its claim. Does not own: the lease, and the entries in memory.
 *
 * Invariants:
 *  PL1 an append is one statement. In the row of the shard, it compares the claim and the number of the previous entry,
 *     and sets the new number. So numbers have no gaps, and after a lost answer the same statement can be sent again.
 *     If the first statement still runs, the lock of the row makes the second one wait;
 *  PL2 if an append wrote no row, another claim was made, the first attempt took effect, or the database was set back
 *     to an earlier state. A second statement decides which;
 *  PL3 a new token is set only in place of the token that was read before. So a late attempt sets nothing. Once the new
 *     token is set, appends under the former token have no effect (SL4). If the database was set back to before the
 *     newest token, the claim still holds, and gets another token.
 */
import { randomBytes } from 'node:crypto';
import { LOG_BYTES_PER_MS, LOG_FETCH_BYTES_MAX, LOG_FETCH_ENTRIES_MAX, STATEMENT_MS } from '../base/bounds.ts';
import { StoreLostError } from '../base/errors.ts';
import type { ShardLogParts } from '../cluster/plan.ts';
import { LOG_START, type LogEnd, type LogEntry, type ShardLog } from '../journal/replica/shard-log.ts';
import type { Row, StatementPort } from './connection.ts';
import { bytesIn, Hold } from './hold.ts';
import type { Tables } from './schema.ts';
import { digestOf, PostgresSnapshots } from './snapshots.ts';

const TOKEN_BYTES = 16;

interface Statements {
  readonly append: string;
  readonly end: string;
  readonly token: string;
  readonly fetch: string;
  readonly digest: string;
}

/** See the head of this file. */
export class PostgresShardLog implements ShardLog {
  readonly epoch: number;
  readonly snapshots: PostgresSnapshots;
  readonly #connection: StatementPort;
  readonly #parts: ShardLogParts;
  readonly #hold: Hold;
  readonly #statements: Statements;
  #token: Buffer;

  /** `connect`: makes a connection, which connects when it is used. */
  constructor(connect: () => StatementPort, tables: Tables, parts: ShardLogParts) {
    this.#connection = connect();
    this.#parts = parts;
    this.#hold = new Hold(parts);
    this.#statements = statementsOf(tables);
    this.#token = Buffer.from(parts.claim.token, 'hex');
    this.epoch = parts.claim.epoch;
    this.snapshots = new PostgresSnapshots(connect(), tables, parts, () => this.#token);
  }

  async append(entry: LogEntry): Promise<LogEnd> {
    return this.#hold.run(() => this.#write(entry));
  }

  async reclaim(): Promise<LogEnd> {
    const token = randomBytes(TOKEN_BYTES);
    return this.#hold.run(() => this.#prove(token));
  }

  async fetch(after: number): Promise<readonly LogEntry[]> {
    const { shard } = this.#parts.claim;
    const values = [shard, after, LOG_FETCH_ENTRIES_MAX, LOG_FETCH_BYTES_MAX];
    const { rows } = await this.#hold.run((attempt) =>
      this.#connection.run('fetch', this.#statements.fetch, values, STATEMENT_MS * attempt),
    );
    return rows.map((row) => ({
      number: Number(row['no']),
      digest: bytesIn(row, 'digest'),
      bytes: bytesIn(row, 'bytes'),
    }));
  }

  async digestOf(number: number): Promise<Buffer | undefined> {
    const { shard } = this.#parts.claim;
    const { rows } = await this.#hold.run(() =>
      this.#connection.run('digest', this.#statements.digest, [shard, number]),
    );
    return rows[0] === undefined ? undefined : bytesIn(rows[0], 'digest');
  }

  async close(): Promise<void> {
    this.#hold.close();
    await Promise.all([this.#connection.close(), this.snapshots.close()]);
  }

  async #write(entry: LogEntry): Promise<LogEnd> {
    const { number, digest, bytes } = entry;
    const values = [this.#parts.claim.shard, this.epoch, this.#token, number, digest, bytes];
    const limitMs = STATEMENT_MS + Math.ceil(bytes.length / LOG_BYTES_PER_MS);
    const { rowCount } = await this.#connection.run('append', this.#statements.append, values, limitMs);
    return rowCount === 1 ? { number, digest } : this.#found(entry);
  }

  /** Finds the end of the log after an append that wrote no row (PL2). */
  async #found(entry: LogEntry): Promise<LogEnd> {
    const { number, digest } = entry;
    const row = await this.#endRow();
    if (row === undefined || !isClaim(row, this.epoch, this.#parts.claim.owner)) throw this.#hold.moved();
    if (!bytesIn(row, 'token').equals(this.#token)) {
      // Only this object gives the claim another token. So the database was set back to a state before the newest
      // token.
      await this.#prove(randomBytes(TOKEN_BYTES));
      return this.#write(entry);
    }
    const end = endIn(row);
    if (end.number < number) return end;
    const { rows } = await this.#connection.run('digest', this.#statements.digest, [this.#parts.claim.shard, number]);
    if (rows[0] !== undefined && bytesIn(rows[0], 'digest').equals(digest)) return { number, digest };
    throw new StoreLostError(`the log of shard ${this.#parts.claim.shard} has another entry ${number}`, {
      data: { reason: 'another entry', shard: this.#parts.claim.shard, entry: number },
    });
  }

  /** Gives the claim a new token, and resolves with the end of the log (PL3). */
  async #prove(token: Buffer): Promise<LogEnd> {
    const { shard, owner } = this.#parts.claim;
    for (;;) {
      const row = await this.#endRow();
      if (row === undefined || !isClaim(row, this.epoch, owner)) throw this.#hold.moved();
      const found = bytesIn(row, 'token');
      if (found.equals(token)) {
        this.#token = token;
        return endIn(row);
      }
      await this.#connection.run('token', this.#statements.token, [shard, this.epoch, owner, found, token]);
    }
  }

  async #endRow(): Promise<Row | undefined> {
    const { rows } = await this.#connection.run('end', this.#statements.end, [this.#parts.claim.shard]);
    return rows[0];
  }
}

function statementsOf({ shard, log, snapshot }: Tables): Statements {
  return {
    append:
      `WITH f AS (UPDATE ${shard} SET last = $4 WHERE shard = $1 AND epoch = $2 AND token = $3 AND last = $4::bigint - 1 ` +
      `RETURNING 1) INSERT INTO ${log} (shard, no, epoch, digest, bytes) SELECT $1, $4, $2, $5::bytea, $6::bytea FROM f`,
    end:
      `SELECT s.epoch, s.token, s.owner, s.last, (${digestOf(log, snapshot, 's.last')} LIMIT 1) AS digest ` +
      `FROM ${shard} s WHERE s.shard = $1`,
    token: `UPDATE ${shard} SET token = $5 WHERE shard = $1 AND epoch = $2 AND owner = $3 AND token = $4`,
    // The length of a stored value is read without the value.
    fetch:
      'SELECT no, digest, bytes FROM (SELECT no, digest, bytes, ' +
      'sum(octet_length(bytes)) OVER (ORDER BY no) - octet_length(bytes) AS before ' +
      `FROM (SELECT no, digest, bytes FROM ${log} WHERE shard = $1 AND no > $2 ORDER BY no LIMIT $3) page) sized ` +
      'WHERE before < $4 ORDER BY no',
    digest: digestOf(log, snapshot, '$2'),
  };
}

function isClaim(row: Row, epoch: number, owner: string): boolean {
  return Number(row['epoch']) === epoch && row['owner'] === owner;
}

function endIn(row: Row): LogEnd {
  const number = Number(row['last']);
  return number === 0 ? LOG_START : { number, digest: bytesIn(row, 'digest') };
}
