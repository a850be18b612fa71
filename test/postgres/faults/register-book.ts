/**
 * The database's own notes about its cluster, by its own clock: every lease and every claim, in tables of the loop that
 * triggers fill, and the time of every log entry, in a column that the loop adds. The nodes know nothing of them.
 */
import { digestAfter, LOG_START } from '../../../src/journal/replica/shard-log.ts';
import { Connection, type Row } from '../../../src/postgres/connection.ts';
import { prepareTables, type Tables, tablesOf } from '../../../src/postgres/schema.ts';
import type { Violation } from './findings.ts';

/** Log entries that one query reads. */
const PAGE = 2_000;
/** Milliseconds by which a time that was rounded may differ. */
const ROUNDING_MS = 2;

/** Attempts to read something. */
const ATTEMPTS = 3;

/** One lease as it was given, renewed or ended. */
interface LeaseRow {
  readonly atMs: number;
  /** Undefined: it was ended. */
  readonly expiresMs: number | undefined;
}

/** The sizes of a log that was checked. */
export interface LogSize {
  readonly entries: number;
  readonly bytes: number;
  readonly claims: number;
}

/** See the head of this file. */
export class RegisterBook {
  readonly #connection: Connection;
  readonly #tables: Tables;
  readonly #book: string;

  /** `url`: the address of the database, without any line between. */
  constructor(url: string, schema: string) {
    this.#connection = new Connection({ url, schema });
    this.#tables = tablesOf(schema);
    this.#book = `"${schema}_book"`;
  }

  /** Makes the tables of the cluster, and those of the book. */
  async open(): Promise<void> {
    const { log, node, shard } = this.#tables;
    const book = this.#book;
    await prepareTables(this.#connection, this.#tables);
    await this.#connection.runAll([
      `CREATE SCHEMA ${book}`,
      `CREATE TABLE ${book}.leases (at timestamptz NOT NULL, name text NOT NULL, expires timestamptz)`,
      `CREATE TABLE ${book}.claims (at timestamptz NOT NULL, shard integer NOT NULL, epoch bigint NOT NULL, last bigint NOT NULL)`,
      `CREATE FUNCTION ${book}.note_lease() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         IF TG_OP = 'DELETE' THEN INSERT INTO ${book}.leases VALUES (clock_timestamp(), OLD.name, NULL);
         ELSE INSERT INTO ${book}.leases VALUES (clock_timestamp(), NEW.name, NEW.expires); END IF;
         RETURN NULL; END $$`,
      `CREATE FUNCTION ${book}.note_claim() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         INSERT INTO ${book}.claims VALUES (clock_timestamp(), NEW.shard, NEW.epoch, NEW.last);
         RETURN NULL; END $$`,
      `CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON ${node} FOR EACH ROW EXECUTE FUNCTION ${book}.note_lease()`,
      `CREATE TRIGGER note AFTER UPDATE ON ${shard} FOR EACH ROW WHEN (OLD.epoch <> NEW.epoch) EXECUTE FUNCTION ${book}.note_claim()`,
      `ALTER TABLE ${log} ADD COLUMN at timestamptz NOT NULL DEFAULT clock_timestamp()`,
    ]);
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  /** The numbers of the claims of all shards, and of the last entries. */
  async ends(): Promise<{ readonly epochs: readonly number[]; readonly entries: number }> {
    const rows = await this.#rows(`SELECT epoch, last FROM ${this.#tables.shard} ORDER BY shard`);
    return {
      epochs: rows.map((row) => Number(row['epoch'])),
      entries: rows.reduce((sum, row) => sum + Number(row['last']), 0),
    };
  }

  /** Milliseconds for which a node has been in the register; undefined if it is not there. */
  async stayMs(name: string): Promise<number | undefined> {
    const [row] = await this.#rows(
      `SELECT ${epochMs('clock_timestamp()')} - ${epochMs('joined')} AS ms FROM ${this.#tables.node} WHERE name = '${name}'`,
    );
    return row === undefined ? undefined : Number(row['ms']);
  }

  /** The time of the first entry that a claim with a higher number than `epoch` made. */
  async firstEntryMs(epoch: number): Promise<number | undefined> {
    const [row] = await this.#rows(
      `SELECT ${epochMs('min(at)')} AS at FROM ${this.#tables.log} WHERE epoch > ${epoch}`,
    );
    return row?.['at'] == null ? undefined : Number(row['at']);
  }

  /** The time of the first entry after this moment. */
  async firstEntryAfterMs(ms: number): Promise<number | undefined> {
    const [row] = await this.#rows(
      `SELECT ${epochMs('min(at)')} AS at FROM ${this.#tables.log} WHERE at >= to_timestamp(${ms / 1_000})`,
    );
    return row?.['at'] == null ? undefined : Number(row['at']);
  }

  /** The time of the newest claim. */
  async claimMs(): Promise<number | undefined> {
    const [row] = await this.#rows(`SELECT ${epochMs('max(at)')} AS at FROM ${this.#book}.claims`);
    return row?.['at'] == null ? undefined : Number(row['at']);
  }

  /** Sets the log of a shard back by so many entries, as a fail-over to a replica that lags does. Returns the number. */
  async setBack(entries: number): Promise<number> {
    const { shard, log } = this.#tables;
    const results = await this.#connection.runAll([
      `UPDATE ${shard} SET last = last - ${entries} WHERE shard = 0 AND last >= ${entries}`,
      `DELETE FROM ${log} l USING ${shard} s WHERE s.shard = 0 AND l.shard = 0 AND l.no > s.last`,
    ]);
    return results[1]?.rowCount ?? 0;
  }

  /**
   * The violations of the log: a gap, a second row of a number, a digest that does not follow, a number of a claim that
   * falls, an entry of an earlier claim behind the end that the log had at a later one.
   */
  async checkLog(): Promise<{ readonly size: LogSize; readonly violations: readonly Violation[] }> {
    const { log, shard } = this.#tables;
    const violations: Violation[] = [];
    const claims = await this.#rows(`SELECT shard, epoch, last FROM ${this.#book}.claims ORDER BY at`);
    let [entries, bytes] = [0, 0];
    for (const row of await this.#rows(`SELECT shard, last FROM ${shard} ORDER BY shard`)) {
      const number = Number(row['shard']);
      const own = claims.filter((claim) => Number(claim['shard']) === number);
      let end = { ...LOG_START, epoch: 0 };
      for (;;) {
        const page = await this.#rows(
          `SELECT no, epoch, digest, bytes FROM ${log} WHERE shard = ${number} AND no > ${end.number} ORDER BY no LIMIT ${PAGE}`,
        );
        if (page.length === 0) break;
        for (const entry of page) {
          const next = {
            number: Number(entry['no']),
            epoch: Number(entry['epoch']),
            digest: entry['digest'] as Buffer,
          };
          const at = `shard ${number}, entry ${next.number}`;
          const stored = entry['bytes'] as Buffer;
          if (next.number !== end.number + 1) violations.push({ kind: 'gap', what: `${at} follows ${end.number}` });
          else if (!digestAfter(end.digest, stored).equals(next.digest)) {
            violations.push({ kind: 'digest', what: `${at} does not follow from the entry before` });
          }
          if (next.epoch < end.epoch) violations.push({ kind: 'epoch', what: `${at} is of claim ${next.epoch}` });
          const later = own.find((claim) => Number(claim['epoch']) > next.epoch && Number(claim['last']) < next.number);
          if (later !== undefined) {
            violations.push({ kind: 'epoch', what: `${at} of claim ${next.epoch} came after claim ${later['epoch']}` });
          }
          end = next;
          entries += 1;
          bytes += stored.length;
        }
      }
      if (end.number !== Number(row['last'])) {
        violations.push({ kind: 'gap', what: `shard ${number} ends at ${end.number}, not at ${row['last']}` });
      }
    }
    return { size: { entries, bytes, claims: claims.length }, violations };
  }

  /** The leases of each node, as the database gave and ended them. */
  async leases(): Promise<Leases> {
    const rows = await this.#rows(
      `SELECT name, ${epochMs('at')} AS at, ${epochMs('expires')} AS expires FROM ${this.#book}.leases ORDER BY at`,
    );
    const byNode = new Map<string, LeaseRow[]>();
    for (const row of rows) {
      const name = String(row['name']);
      const expires = row['expires'];
      const leases = byNode.get(name) ?? [];
      byNode.set(name, leases);
      leases.push({ atMs: Number(row['at']), expiresMs: expires == null ? undefined : Number(expires) });
    }
    return new Leases(byNode);
  }

  async #rows(text: string): Promise<readonly Row[]> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        // The package answers one statement with one result, and several with a list.
        const [result] = await this.#connection.runAll([text, 'SELECT 1']);
        return result?.rows ?? [];
      } catch (error) {
        // The first attempt finds a connection that a restart of the database has ended.
        if (attempt === ATTEMPTS) throw error;
      }
    }
  }
}

/** The leases of all nodes over time. */
export class Leases {
  readonly #byNode: ReadonlyMap<string, readonly LeaseRow[]>;

  constructor(byNode: ReadonlyMap<string, readonly LeaseRow[]>) {
    this.#byNode = byNode;
  }

  /** Milliseconds since the end of the lease that a node had at this moment; 0 if it held. */
  overMs(node: string, atMs: number): number {
    let endMs = Number.NEGATIVE_INFINITY;
    for (const lease of this.#byNode.get(node) ?? []) {
      if (lease.atMs > atMs + ROUNDING_MS) break;
      // An ended lease was over at the time of its end, and its own end may have come before.
      endMs = lease.expiresMs ?? Math.min(endMs, lease.atMs);
    }
    return atMs <= endMs + ROUNDING_MS ? 0 : atMs - endMs;
  }
}

function epochMs(expression: string): string {
  return `(extract(epoch FROM ${expression}) * 1000)::float8`;
}
