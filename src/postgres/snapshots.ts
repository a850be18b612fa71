/**
 * The snapshots of a shard's log on PostgreSQL.
 *
 * Owns: its own connection, so that no commit waits behind a piece. Does not own: the token of the claim, which is the
 * log's.
 *
 * Invariants:
 *  PS1 `put`, and the removal of entries, lock the row of the shard for one short statement. A claim waits for the end
 *     of such a statement. If the statement runs after the claim, it finds another token and changes nothing (SL8);
 *  PS2 writing a piece locks only the key of that row, so appends do not wait meanwhile. A piece of an earlier claim
 *     may therefore arrive after a later claim. `trim` waits for such pieces before it looks for pieces to remove. No
 *     snapshot is made of them, because `put` is refused (PS1);
 *  PS3 the snapshot of a shard is its row of `troupe_snapshot`. Pieces that no such row names are no snapshot (SL6).
 */
import {
  LOG_FETCH_BYTES_MAX,
  LOG_FETCH_ENTRIES_MAX,
  SNAPSHOT_ENTRIES_MIN,
  SNAPSHOT_PIECES_REMOVED_MAX,
  STATEMENT_MS,
} from '../base/bounds.ts';
import { CancelledError, StoreVersionError } from '../base/errors.ts';
import type { ShardLogParts } from '../cluster/plan.ts';
import type { LogHistory, LogSnapshot, SnapshotStore } from '../journal/replica/shard-log.ts';
import type { Row, StatementPort } from './connection.ts';
import { bytesIn, Hold } from './hold.ts';
import type { Tables } from './schema.ts';

/** The form of the pieces: Brotli, each by itself. */
const SNAPSHOT_FORMAT = 1;

/** See the head of this file. */
export class PostgresSnapshots implements SnapshotStore {
  readonly #connection: StatementPort;
  readonly #parts: ShardLogParts;
  readonly #hold: Hold;
  readonly #token: () => Buffer;
  readonly #statements: ReturnType<typeof statementsOf>;

  /** `token` returns the present token of the claim. */
  constructor(connection: StatementPort, tables: Tables, parts: ShardLogParts, token: () => Buffer) {
    this.#connection = connection;
    this.#parts = parts;
    this.#hold = new Hold(parts);
    this.#token = token;
    this.#statements = statementsOf(tables);
  }

  async history(): Promise<LogHistory> {
    const values = [this.#parts.claim.shard, SNAPSHOT_ENTRIES_MIN];
    const { rows } = await this.#hold.run((attempt) =>
      this.#connection.run('history', this.#statements.history, values, STATEMENT_MS * attempt),
    );
    const [row] = rows;
    const past = { first: Number(row?.['first']), bytes: Number(row?.['bytes']) };
    return row?.['id'] === null ? past : { ...past, snapshot: snapshotIn(row) };
  }

  async piece(id: string, number: number): Promise<Buffer> {
    const values = [this.#parts.claim.shard, id, number];
    const { rows } = await this.#hold.run((attempt) =>
      this.#connection.run('piece', this.#statements.piece, values, STATEMENT_MS * attempt),
    );
    return bytesIn(rows[0], 'bytes');
  }

  async putPiece(id: string, number: number, bytes: Buffer): Promise<void> {
    await this.#fenced('put_piece', this.#statements.putPiece, [id, number, bytes]);
  }

  async put({ id, number, digest, pieces, hash }: LogSnapshot): Promise<void> {
    const written = await this.#fenced('put', this.#statements.put, [
      id,
      number,
      digest,
      pieces,
      hash,
      SNAPSHOT_FORMAT,
    ]);
    if (written === 1) return;
    throw new CancelledError('the log has not all pieces of the snapshot, or has another entry under its number', {
      data: { shard: this.#parts.claim.shard, entry: number },
    });
  }

  async trim(upTo: number): Promise<boolean> {
    const { trimPieces, trim } = this.#statements;
    if ((await this.#fenced('trim_pieces', trimPieces, [SNAPSHOT_PIECES_REMOVED_MAX])) > 0) return true;
    const removed = await this.#fenced('trim', trim, [upTo, LOG_FETCH_ENTRIES_MAX, LOG_FETCH_BYTES_MAX]);
    return removed > 0;
  }

  rest(): Promise<void> {
    return this.#connection.rest();
  }

  async close(): Promise<void> {
    this.#hold.close();
    await this.#connection.close();
  }

  /** Runs a statement that finds the claim, and resolves to the rows that it wrote. */
  #fenced(name: string, text: string, values: readonly unknown[]): Promise<number> {
    const { shard, epoch, owner } = this.#parts.claim;
    return this.#hold.run(async (attempt) => {
      const all = [shard, epoch, this.#token(), ...values];
      const { rows } = await this.#connection.run(name, text, all, STATEMENT_MS * attempt);
      if (Number(rows[0]?.['held']) === 1) return Number(rows[0]?.['written']);
      const { rows: claims } = await this.#connection.run('claim', this.#statements.claim, [shard, epoch, owner]);
      if (claims.length === 0) throw this.#hold.moved();
      throw new CancelledError('the claim of the shard was made again meanwhile', { data: { shard } });
    });
  }
}

function snapshotIn(row: Row | undefined): LogSnapshot {
  const format = Number(row?.['format']);
  if (format !== SNAPSHOT_FORMAT) {
    throw new StoreVersionError(
      `a snapshot of the cluster has format ${format}; this version reads ${SNAPSHOT_FORMAT}. Nothing was written`,
      { data: { found: format, supported: SNAPSHOT_FORMAT } },
    );
  }
  return {
    id: String(row?.['id']),
    number: Number(row?.['no']),
    digest: bytesIn(row, 'digest'),
    pieces: Number(row?.['pieces']),
    hash: bytesIn(row, 'hash'),
  };
}

/** In the fenced statements, the first three parameters are the claim. */
function statementsOf({ shard, log, snapshot, piece }: Tables): {
  readonly [Name in 'claim' | 'history' | 'piece' | 'putPiece' | 'put' | 'trimPieces' | 'trim']: string;
} {
  const fenced = (lock: string, work: string): string =>
    `WITH f AS (SELECT 1 FROM ${shard} WHERE shard = $1 AND epoch = $2 AND token = $3 FOR ${lock}), ` +
    `w AS (${work} RETURNING 1) SELECT (SELECT count(*) FROM f) AS held, (SELECT count(*) FROM w) AS written`;
  return {
    claim: `SELECT 1 FROM ${shard} WHERE shard = $1 AND epoch = $2 AND owner = $3`,
    // The length of a stored value is read without the value. The sum covers a bounded number of entries, because a log
    // without a snapshot may be very long.
    history:
      'SELECT n.id, n.no, n.digest, n.pieces, n.hash, n.format, ' +
      `coalesce((SELECT min(no) FROM ${log} WHERE shard = $1), s.last + 1) AS first, ` +
      `(SELECT coalesce(sum(size), 0) FROM (SELECT octet_length(bytes) AS size FROM ${log} ` +
      `WHERE shard = $1 AND no > coalesce(n.no, 0) ORDER BY no LIMIT $2) newer) AS bytes ` +
      `FROM ${shard} s LEFT JOIN ${snapshot} n ON n.shard = s.shard WHERE s.shard = $1`,
    piece: `SELECT bytes FROM ${piece} WHERE shard = $1 AND id = $2 AND no = $3`,
    putPiece: fenced(
      'KEY SHARE',
      `INSERT INTO ${piece} (shard, id, no, bytes) SELECT $1, $4, $5, $6::bytea FROM f ON CONFLICT DO NOTHING`,
    ),
    put: fenced(
      'SHARE',
      `INSERT INTO ${snapshot} (shard, id, no, digest, pieces, hash, format, taken) ` +
        'SELECT $1, $4, $5, $6::bytea, $7, $8::bytea, $9, clock_timestamp() FROM f ' +
        `WHERE (SELECT count(*) FROM ${piece} WHERE shard = $1 AND id = $4) = $7::integer AND ` +
        `EXISTS (${digestOf(log, snapshot, '$5', 'AND digest = $6')}) ` +
        'ON CONFLICT (shard) DO UPDATE SET id = excluded.id, no = excluded.no, digest = excluded.digest, ' +
        'pieces = excluded.pieces, hash = excluded.hash, format = excluded.format, taken = excluded.taken',
    ),
    trimPieces: fenced(
      'UPDATE',
      `DELETE FROM ${piece} WHERE shard = $1 AND EXISTS (SELECT 1 FROM f) AND (id, no) IN ` +
        `(SELECT p.id, p.no FROM ${piece} p JOIN ${snapshot} n ON n.shard = p.shard WHERE p.shard = $1 AND p.id <> n.id ` +
        'ORDER BY p.id, p.no LIMIT $4)',
    ),
    trim: fenced(
      'SHARE',
      `DELETE FROM ${log} WHERE shard = $1 AND EXISTS (SELECT 1 FROM f) AND no <= (SELECT max(no) FROM ` +
        '(SELECT no, sum(octet_length(bytes)) OVER (ORDER BY no) - octet_length(bytes) AS before FROM ' +
        `(SELECT l.no, l.bytes FROM ${log} l JOIN ${snapshot} n ON n.shard = l.shard AND l.no <= n.no ` +
        'WHERE l.shard = $1 AND l.no <= $4 ORDER BY l.no LIMIT $5) page) sized WHERE before < $6)',
    ),
  };
}

/** Selects the digest of an entry. A snapshot has the digest of the entry that it ends with, if the log removed it. */
export function digestOf(log: string, snapshot: string, number: string, and = ''): string {
  const from = (table: string): string => `SELECT digest FROM ${table} WHERE shard = $1 AND no = ${number} ${and}`;
  return `${from(log)} UNION ALL ${from(snapshot)}`;
}
