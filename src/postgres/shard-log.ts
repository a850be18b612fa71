/**
 * The log of a shard on PostgreSQL.
 *
 * Owns: its connection, and the token of its claim. Does not own: the lease, and the entries in memory.
 *
 * Invariants:
 *  PL1 an append is one statement: it compares the claim and the number before, and sets the number, in the row of the
 *     shard. So numbers have no gaps, and after a lost answer the same statement can be sent again. The lock of that row
 *     makes it wait for the first one if that still runs;
 *  PL2 no row written means one of these, and a second statement decides which: another claim was made, the first attempt
 *     took effect, or the database went back;
 *  PL3 a new token is set only in place of the token that was read before. So an attempt that is late sets nothing, and
 *     appends under the token before end with it (SL4). The newest token may be gone with a state of the database that
 *     it went back from: the claim still holds, and gets another token.
 */
import { randomBytes } from 'node:crypto';
import {
  LOG_BYTES_PER_MS,
  LOG_FETCH_BYTES_MAX,
  LOG_FETCH_ENTRIES_MAX,
  LOG_RETRY_MS,
  STATEMENT_MS,
} from '../base/bounds.ts';
import { CancelledError, ShardMovedError, StoreCorruptError, StoreFullError, StoreLostError } from '../base/errors.ts';
import type { ShardLogParts } from '../cluster/plan.ts';
import { LOG_START, type LogEnd, type LogEntry, type ShardLog } from '../journal/replica/shard-log.ts';
import { isPassing, type Result, type Row, type StatementPort } from './connection.ts';
import type { Tables } from './schema.ts';

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
  readonly #connection: StatementPort;
  readonly #parts: ShardLogParts;
  readonly #statements: Statements;
  #token: Buffer;
  #isClosed = false;

  constructor(connection: StatementPort, tables: Tables, parts: ShardLogParts) {
    this.#connection = connection;
    this.#parts = parts;
    this.#statements = statementsOf(tables);
    this.#token = Buffer.from(parts.claim.token, 'hex');
    this.epoch = parts.claim.epoch;
  }

  async append(entry: LogEntry): Promise<LogEnd> {
    return this.#held(() => this.#write(entry));
  }

  async reclaim(): Promise<LogEnd> {
    const token = randomBytes(TOKEN_BYTES);
    return this.#held(() => this.#prove(token));
  }

  async fetch(after: number): Promise<readonly LogEntry[]> {
    const { shard } = this.#parts.claim;
    const values = [shard, after, LOG_FETCH_ENTRIES_MAX, LOG_FETCH_BYTES_MAX];
    const { rows } = await this.#held((attempt) =>
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
    const { rows } = await this.#held(() => this.#connection.run('digest', this.#statements.digest, [shard, number]));
    return rows[0] === undefined ? undefined : bytesIn(rows[0], 'digest');
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#connection.close();
  }

  async #write(entry: LogEntry): Promise<LogEnd> {
    const { number, digest, bytes } = entry;
    const values = [this.#parts.claim.shard, this.epoch, this.#token, number, digest, bytes];
    const limitMs = STATEMENT_MS + Math.ceil(bytes.length / LOG_BYTES_PER_MS);
    const { rowCount } = await this.#connection.run('append', this.#statements.append, values, limitMs);
    return rowCount === 1 ? { number, digest } : this.#found(entry);
  }

  /** PL2: the end of the log, after an append that wrote no row. */
  async #found(entry: LogEntry): Promise<LogEnd> {
    const { number, digest } = entry;
    const row = await this.#endRow();
    if (row === undefined || !isClaim(row, this.epoch, this.#parts.claim.owner)) throw this.#moved();
    if (!bytesIn(row, 'token').equals(this.#token)) {
      // Only this log gives its claim another token, so the database went back to before the newest one.
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
      if (row === undefined || !isClaim(row, this.epoch, owner)) throw this.#moved();
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

  /** Runs work until the database answers, for at most `holdMs`. `attempt`: 1 for the first. */
  async #held<T extends LogEnd | Result>(work: (attempt: number) => Promise<T>): Promise<T> {
    const { holdMs, isLost, claim, clock } = this.#parts;
    const deadlineMs = clock.monotonic() + holdMs;
    let retryMs = LOG_RETRY_MS.first;
    for (let attempt = 1; ; attempt += 1) {
      if (this.#isClosed) throw new CancelledError('the log of the shard is closed');
      if (isLost()) throw this.#moved();
      try {
        return await work(attempt);
      } catch (error) {
        if (isVerdict(error)) throw error;
        if (!isPassing(error) || clock.monotonic() >= deadlineMs) {
          throw new StoreFullError(`the database does not take what shard ${claim.shard} writes`, {
            cause: error,
            data: { reason: 'database', shard: claim.shard },
          });
        }
      }
      const waitMs = retryMs;
      await new Promise<void>((resolve) => {
        clock.setTimer(resolve, waitMs);
      });
      retryMs = Math.min(retryMs * 2, LOG_RETRY_MS.longest);
    }
  }

  #moved(): ShardMovedError {
    const { shard } = this.#parts.claim;
    return new ShardMovedError(`another node has shard ${shard} of the cluster; what this node last wrote is unknown`, {
      data: { shard, epoch: this.epoch },
    });
  }
}

function statementsOf({ shard, log }: Tables): Statements {
  return {
    append:
      `WITH f AS (UPDATE ${shard} SET last = $4 WHERE shard = $1 AND epoch = $2 AND token = $3 AND last = $4::bigint - 1 ` +
      `RETURNING 1) INSERT INTO ${log} (shard, no, epoch, digest, bytes) SELECT $1, $4, $2, $5::bytea, $6::bytea FROM f`,
    end:
      `SELECT s.epoch, s.token, s.owner, s.last, l.digest FROM ${shard} s LEFT JOIN ${log} l ` +
      'ON l.shard = s.shard AND l.no = s.last WHERE s.shard = $1',
    token: `UPDATE ${shard} SET token = $5 WHERE shard = $1 AND epoch = $2 AND owner = $3 AND token = $4`,
    // The length of a stored value is read without the value.
    fetch:
      'SELECT no, digest, bytes FROM (SELECT no, digest, bytes, ' +
      'sum(octet_length(bytes)) OVER (ORDER BY no) - octet_length(bytes) AS before ' +
      `FROM (SELECT no, digest, bytes FROM ${log} WHERE shard = $1 AND no > $2 ORDER BY no LIMIT $3) page) sized ` +
      'WHERE before < $4 ORDER BY no',
    digest: `SELECT digest FROM ${log} WHERE shard = $1 AND no = $2`,
  };
}

/** True for an error that another attempt does not change. */
function isVerdict(error: unknown): boolean {
  return error instanceof ShardMovedError || error instanceof StoreLostError || error instanceof StoreCorruptError;
}

function isClaim(row: Row, epoch: number, owner: string): boolean {
  return Number(row['epoch']) === epoch && row['owner'] === owner;
}

function endIn(row: Row): LogEnd {
  const number = Number(row['last']);
  return number === 0 ? LOG_START : { number, digest: bytesIn(row, 'digest') };
}

function bytesIn(row: Row, name: string): Buffer {
  const value = row[name];
  if (Buffer.isBuffer(value)) return value;
  throw new StoreCorruptError(`a row of the cluster's log has no bytes in its column "${name}"`, {
    data: { reason: name },
  });
}
