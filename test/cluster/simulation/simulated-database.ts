/**
 * The database of a simulated cluster: the rows of `src/postgres/schema.ts`, and the statements of `src/postgres` on them.
 * A statement, and a message of several, takes effect at one moment, as if it held its locks for no time.
 *
 * Owns: the rows, the database's clock, the states that it may go back to, and the entries that it lost with one of
 * them. Does not own: the ways of statements and answers (`simulated-connection.ts`).
 *
 * Checks, at each append:
 *  C1 the log of a shard has no gap, no second entry of a number, and an unbroken chain of digests; epochs do not fall
 *     along it;
 *  C2 after the first entry of a claim there is no entry of an earlier claim.
 */
import { digestAfter, LOG_START } from '../../../src/journal/replica/shard-log.ts';
import { runSql, type SqlResult, type SqlRow, type SqlTables } from './sql.ts';

/** States that the database may go back to: the newest ones. */
const STATES_KEPT = 400;

/** Spreads the ids of stays. */
const STAY_STEP = 0x9e37_79b1;

/** An entry of the log. */
interface LogRow {
  readonly epoch: number;
  /** The stay that had the shard. */
  readonly stay: string | null;
  readonly digest: Buffer;
  readonly bytes: Buffer;
}

/** The lease of a stay. */
interface NodeRow extends SqlRow {
  readonly stay: string;
  readonly name: string;
  /** World time. */
  readonly joined: number;
  readonly expires: number;
  readonly address: string | null;
}

interface ShardRow extends SqlRow {
  readonly shard: number;
  readonly epoch: number;
  readonly token: Buffer;
  readonly owner: string | null;
  readonly last: number;
}

interface DatabaseState {
  readonly nodes: readonly NodeRow[];
  readonly shards: readonly ShardRow[];
}

/** Shards that a stay has claimed, and that another one had not given back. Both are named as they joined. */
export interface Takeover {
  readonly by: string;
  readonly from: string;
  readonly shards: readonly number[];
}

/** The listener of a database. */
interface DatabaseListener {
  violate(what: string): void;
  /** Called when a stay has claimed this shard. */
  claimed(shard: number, by: string): void;
  /** Called when a stay that shares the shards has given one back. */
  gaveAway(shard: number, from: string): void;
  /** Called for each former owner whose shards a stay has claimed. */
  tookOver(takeover: Takeover): void;
  trace(text: string): void;
}

/** See the head of this file. */
export class SimulatedDatabase {
  /** The entries of each shard; entry n has index n - 1. */
  readonly logs: LogRow[][];
  /** The entries that going back has removed, by shard and number, until they are appended again. */
  readonly lost: Map<string, Buffer> = new Map();
  /** True once entries that were acknowledged can never come back. */
  isForked = false;
  readonly #listener: DatabaseListener;
  readonly #now: () => number;
  readonly #states: DatabaseState[] = [];
  /** Every digest that the log ever had, by shard and number. */
  readonly #had = new Set<string>();
  /** The claims that going back has taken from their stays, by shard and name. */
  readonly #reverted = new Set<string>();
  /** The name under which each stay joined. */
  readonly #names = new Map<string, string>();
  #nodes: readonly NodeRow[] = [];
  #shards: readonly ShardRow[];
  #hasFacts = false;
  #stays = 0;

  constructor(shards: number, now: () => number, listener: DatabaseListener) {
    this.#now = now;
    this.#listener = listener;
    this.logs = Array.from({ length: shards }, () => []);
    this.#shards = this.logs.map((_, shard) => ({ shard, epoch: 0, token: Buffer.alloc(0), owner: null, last: 0 }));
  }

  /** Makes the id of a stay. The ids have no order in time, as those of a real database have none. */
  readonly makeStay = (): string => {
    this.#stays += 1;
    return `${(Math.imul(this.#stays, STAY_STEP) >>> 0).toString(16).padStart(8, '0')}-${this.#stays}`;
  };

  /** The name of the node that has a shard now. */
  ownerOf(shard: number): string | undefined {
    return this.#nameOf(this.#shards[shard]?.owner ?? null);
  }

  /** The number of shards of each node that shares them, by its name. */
  get shares(): ReadonlyMap<string, number> {
    const sharing = this.#nodes.filter(({ address }) => address !== null);
    return new Map(sharing.map(({ stay, name }) => [name, this.#shards.filter(({ owner }) => owner === stay).length]));
  }

  #nameOf(stay: string | null): string | undefined {
    return stay === null ? undefined : this.#names.get(stay);
  }

  /** True if the log of a shard has, or once had, this entry. */
  everHad(shard: number, number: number, digest: string): boolean {
    return this.#had.has(`${shard}/${number}/${digest}`);
  }

  /** True if going back has taken a claim of this shard from the node of this name, which cannot know it yet. */
  hasReverted(shard: number, name: string): boolean {
    return this.#reverted.has(`${shard}/${name}`);
  }

  /** Goes back by a number of writes. Returns the number of entries that it lost. */
  goBack(writes: number): number {
    const state = this.#states[Math.max(0, this.#states.length - writes)];
    if (state === undefined) return 0;
    this.#states.length = Math.max(0, this.#states.length - writes);
    for (const [shard, { owner }] of this.#shards.entries()) {
      if (owner !== null && state.shards[shard]?.owner !== owner)
        this.#reverted.add(`${shard}/${this.#nameOf(owner) ?? ''}`);
    }
    this.#nodes = state.nodes;
    this.#shards = state.shards;
    let entries = 0;
    for (const [shard, log] of this.logs.entries()) {
      const { last } = this.#shards[shard] ?? { last: 0 };
      for (const [index, { digest }] of log.splice(last).entries()) {
        const place = `${shard}/${last + index + 1}`;
        // The first of two losses is the one that was acknowledged.
        if (!this.lost.has(place)) this.lost.set(place, digest);
        entries += 1;
      }
    }
    return entries;
  }

  /** Runs one statement. */
  run(name: string, text: string, values: readonly unknown[]): SqlResult {
    switch (name) {
      case 'version':
        return rowsOf([{ number: 3, lowest: 2 }]);
      case 'found':
        return this.#found();
      case 'facts':
        return rowsOf([{ id: 'cluster', shards: this.logs.length, key_id: null }]);
      case 'shards':
      case 'forget':
        return rowsOf([]);
      case 'join':
        return this.#join(values);
      case 'append':
        return this.#append(text, values);
      case 'end':
        return this.#end(Number(values[0]));
      case 'fetch':
        return this.#fetch(values.map(Number));
      case 'digest': {
        const digest = this.logs[Number(values[0])]?.[Number(values[1]) - 1]?.digest;
        return rowsOf(digest === undefined ? [] : [{ digest }]);
      }
      default:
        return this.#change(() => this.#sql(text, values), name === 'renew');
    }
  }

  /** Runs the statements of one message as one transaction. */
  runAll(texts: readonly string[]): readonly SqlResult[] {
    return this.#change(() => texts.map((text) => this.#sql(text)), true);
  }

  #sql(text: string, values: readonly unknown[] = []): SqlResult {
    const tables: SqlTables = {
      nowMs: this.#now(),
      rows: (table) => this.#rowsOf(table),
      put: (table, row, changed) => {
        if (table === 'node') this.#nodes = withRow(this.#nodes, row as NodeRow, changed as NodeRow | undefined);
        else this.#shards = withRow(this.#shards, row as ShardRow, changed as ShardRow | undefined);
      },
    };
    return runSql(text, values, tables);
  }

  #rowsOf(table: string): readonly SqlRow[] {
    if (table === 'cluster') return [{ id: 'cluster', shards: this.logs.length }];
    if (table === 'node') return this.#nodes;
    if (table === 'shard') return this.#shards;
    throw new Error(`the simulated database has no table ${table}`);
  }

  // ---- nodes and claims ---------------------------------------------------------------------------------------------

  #found(): SqlResult {
    const rowCount = this.#hasFacts ? 0 : 1;
    this.#hasFacts = true;
    return { rows: [], rowCount };
  }

  #join(values: readonly unknown[]): SqlResult {
    const [stay, name, leaseMs, address] = values as readonly [string, string, number, string | null];
    const nowMs = this.#now();
    this.#changing();
    this.#names.set(stay, name);
    this.#nodes = [...this.#nodes, { stay, name, joined: nowMs, expires: nowMs + leaseMs, address }];
    return rowsOf([{ now: nowMs }]);
  }

  /** Runs statements that may change the nodes and the claims. `isWrite`: also one that changes no row is a write. */
  #change<T>(run: () => T, isWrite = false): T {
    const before: DatabaseState = { nodes: this.#nodes, shards: this.#shards };
    const result = run();
    const isSame = this.#nodes === before.nodes && this.#shards === before.shards;
    if (!isSame || isWrite) this.#keep(before);
    this.#noteGifts(before.shards);
    this.#noteClaims(before.shards);
    return result;
  }

  #noteGifts(before: readonly ShardRow[]): void {
    for (const { shard, owner } of this.#shards) {
      const former = before[shard]?.owner ?? null;
      const from = this.#nodes.find(({ stay }) => stay === former);
      if (owner === null && from !== undefined && from.address !== null) this.#listener.gaveAway(shard, from.name);
    }
  }

  #noteClaims(before: readonly ShardRow[]): void {
    const taken = new Map<string, number[]>();
    let by: string | null = null;
    for (const [shard, { owner, epoch }] of this.#shards.entries()) {
      const former = before[shard];
      if (owner === null || former === undefined || epoch === former.epoch) continue;
      by = owner;
      this.#listener.claimed(shard, this.#nameOf(owner) ?? '');
      // Another node builds on the state without them.
      if ([...this.lost.keys()].some((place) => place.startsWith(`${shard}/`))) this.fork('a claim');
      if (former.owner !== null && former.owner !== owner)
        taken.set(former.owner, [...(taken.get(former.owner) ?? []), shard]);
    }
    for (const [from, shards] of taken)
      this.#listener.tookOver({ by: this.#nameOf(by) ?? '', from: this.#nameOf(from) ?? '', shards });
  }

  // ---- logs ---------------------------------------------------------------------------------------------------------

  #append(text: string, values: readonly unknown[]): SqlResult {
    const [shard, epoch, , number, digest, bytes] = values as [number, number, Buffer, number, Buffer, Buffer];
    const row = this.#shards[shard];
    const log = this.logs[shard];
    if (row === undefined || log === undefined) throw new Error(`there is no shard ${shard}`);
    const before: DatabaseState = { nodes: this.#nodes, shards: this.#shards };
    if (this.#sql(text, values).rowCount === 0) return { rows: [], rowCount: 0 };
    this.#keep(before);
    this.#checkAppend(shard, { epoch, stay: row.owner, digest, bytes }, number);
    log.push({ epoch, stay: row.owner, digest, bytes });
    this.#had.add(`${shard}/${number}/${digest.toString('hex')}`);
    const place = `${shard}/${number}`;
    const had = this.lost.get(place);
    if (had !== undefined && !had.equals(digest)) this.fork(`another entry ${place}`);
    this.lost.delete(place);
    return { rows: [], rowCount: 1 };
  }

  #checkAppend(shard: number, entry: LogRow, number: number): void {
    const log = this.logs[shard] ?? [];
    const what = `entry ${number} of shard ${shard}`;
    if (number !== log.length + 1) this.#listener.violate(`${what} follows entry ${log.length} (C1)`);
    const before = log.at(-1);
    if (!digestAfter((before ?? LOG_START).digest, entry.bytes).equals(entry.digest))
      this.#listener.violate(`the digest of ${what} does not follow from the entry before (C1)`);
    if (before === undefined) return;
    if (entry.epoch < before.epoch) this.#listener.violate(`${what} has a lower epoch than the one before (C1)`);
    // A stay may claim a shard again, with another epoch. After going back two stays may have the same epoch.
    const isOfClaim = ({ stay, epoch }: LogRow): boolean => stay === entry.stay && epoch === entry.epoch;
    if (log.some(isOfClaim) && !isOfClaim(before))
      this.#listener.violate(`${what} is of an earlier claim than the one before (C2)`);
  }

  #end(shard: number): SqlResult {
    const row = this.#shards[shard];
    if (row === undefined) return rowsOf([]);
    return rowsOf([{ ...row, digest: this.logs[shard]?.[row.last - 1]?.digest ?? null }]);
  }

  #fetch([shard = 0, after = 0, entriesMax = 0, bytesMax = 0]: readonly number[]): SqlResult {
    const rows: SqlRow[] = [];
    let before = 0;
    for (const [index, { digest, bytes }] of (this.logs[shard] ?? []).slice(after, after + entriesMax).entries()) {
      if (before >= bytesMax) break;
      rows.push({ no: after + index + 1, digest, bytes });
      before += bytes.length;
    }
    return rowsOf(rows);
  }

  // ---- states -------------------------------------------------------------------------------------------------------

  /** Called before a write. */
  #changing(): void {
    this.#keep({ nodes: this.#nodes, shards: this.#shards });
  }

  /** Keeps the state before a write. */
  #keep(state: DatabaseState): void {
    this.#states.push(state);
    if (this.#states.length > STATES_KEPT) this.#states.shift();
  }

  /** Notes that entries that were acknowledged can never come back. */
  fork(why: string): void {
    if (this.isForked) return;
    this.isForked = true;
    this.#listener.trace(`the database has lost acknowledged entries for good: ${why}`);
  }
}

function rowsOf(rows: readonly SqlRow[]): SqlResult {
  return { rows, rowCount: rows.length };
}

function withRow<Row>(rows: readonly Row[], row: Row, changed: Row | undefined): readonly Row[] {
  return rows.flatMap((each) => (each !== row ? [each] : (changed ?? [])));
}
