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
import { fits, type SqlValue } from './statement-conditions.ts';

/** States that the database may go back to: the newest ones. */
const STATES_KEPT = 400;

/** The result of one statement. */
export interface StatementResult {
  readonly rows: readonly Readonly<Record<string, unknown>>[];
  readonly rowCount: number;
}

/** An entry of the log. */
interface LogRow {
  readonly epoch: number;
  /** The stay that had the shard. */
  readonly stay: string | null;
  readonly digest: Buffer;
  readonly bytes: Buffer;
}

/** The lease of a stay. */
interface NodeRow {
  readonly name: string;
  /** World time. */
  readonly expires: number;
}

interface ShardRow {
  readonly epoch: number;
  readonly token: Buffer;
  readonly owner: string | null;
  readonly last: number;
}

interface DatabaseState {
  readonly nodes: ReadonlyMap<string, NodeRow>;
  readonly shards: readonly ShardRow[];
}

/** A claim of all shards. */
export interface Takeover {
  readonly stay: string;
  /** The stay that had the shards before, if it had not left. */
  readonly from: string | undefined;
}

/** The listener of a database. */
interface DatabaseListener {
  violate(what: string): void;
  /** Called when a stay has claimed all shards. */
  claimed(takeover: Takeover): void;
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
  /** The stays whose claims going back has taken from them. */
  readonly #reverted = new Set<string>();
  #nodes = new Map<string, NodeRow>();
  #shards: ShardRow[];
  #hasFacts = false;

  constructor(shards: number, now: () => number, listener: DatabaseListener) {
    this.#now = now;
    this.#listener = listener;
    this.logs = Array.from({ length: shards }, () => []);
    this.#shards = this.logs.map(() => ({ epoch: 0, token: Buffer.alloc(0), owner: null, last: 0 }));
  }

  /** The stay that has a shard now. */
  ownerOf(shard: number): string | null {
    return this.#shards[shard]?.owner ?? null;
  }

  /** True if the log of a shard has, or once had, this entry. */
  everHad(shard: number, number: number, digest: string): boolean {
    return this.#had.has(`${shard}/${number}/${digest}`);
  }

  /** True if going back has taken the claim of this stay, which cannot know it yet. */
  hasReverted(stay: string | undefined): boolean {
    return stay !== undefined && this.#reverted.has(stay);
  }

  /** Goes back by a number of writes. Returns the number of entries that it lost. */
  goBack(writes: number): number {
    const state = this.#states[Math.max(0, this.#states.length - writes)];
    if (state === undefined) return 0;
    this.#states.length = Math.max(0, this.#states.length - writes);
    for (const [shard, { owner }] of this.#shards.entries()) {
      if (owner !== null && state.shards[shard]?.owner !== owner) this.#reverted.add(owner);
    }
    this.#nodes = new Map(state.nodes);
    this.#shards = [...state.shards];
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
  run(name: string, text: string, values: readonly unknown[]): StatementResult {
    switch (name) {
      case 'version':
        return rowsOf([{ number: 2, lowest: 2 }]);
      case 'found':
        return this.#found();
      case 'facts':
        return rowsOf([{ id: 'cluster', shards: this.logs.length, key_id: null }]);
      case 'shards':
      case 'forget':
        return rowsOf([]);
      case 'join':
        this.#changing();
        this.#nodes.set(String(values[0]), { name: String(values[1]), expires: this.#now() + Number(values[2]) });
        return rowsOf([{ now: this.#now() }]);
      case 'renew':
        return this.#renew(text, values);
      case 'owner':
        return this.#owner(text);
      case 'append':
        return this.#append(text, values);
      case 'token':
        return this.#setToken(text, values);
      case 'end':
        return this.#end(Number(values[0]));
      case 'fetch':
        return this.#fetch(values.map(Number));
      case 'digest': {
        const digest = this.logs[Number(values[0])]?.[Number(values[1]) - 1]?.digest;
        return rowsOf(digest === undefined ? [] : [{ digest }]);
      }
      default:
        throw new Error(`the simulated database does not know the statement ${name}`);
    }
  }

  /** Runs the statements of one message as one transaction. */
  runAll(texts: readonly string[]): readonly StatementResult[] {
    this.#changing();
    return texts.map((text) => {
      if (text.startsWith('DELETE FROM')) return this.#deleteNodes(text);
      if (text.includes('SELECT n.name')) return this.#owner(text);
      if (text.includes('SET owner = NULL')) return this.#release(text);
      if (text.includes('SET owner =')) return this.#claim(text);
      if (text.startsWith('SELECT shard, epoch')) return this.#claims(text);
      if (text.endsWith('FOR UPDATE')) return rowsOf([]);
      throw new Error(`the simulated database does not know the statement ${text}`);
    });
  }

  // ---- nodes and claims ---------------------------------------------------------------------------------------------

  #found(): StatementResult {
    const rowCount = this.#hasFacts ? 0 : 1;
    this.#hasFacts = true;
    return { rows: [], rowCount };
  }

  #renew(text: string, values: readonly unknown[]): StatementResult {
    let rowCount = 0;
    this.#changing();
    for (const [stay, node] of this.#nodes) {
      if (!fits(text, 'UPDATE', this.#scope({ stay, ...node }, values))) continue;
      this.#nodes.set(stay, { ...node, expires: this.#now() + Number(values[1]) });
      rowCount += 1;
    }
    return { rows: Array.from({ length: rowCount }, () => ({ now: this.#now() })), rowCount };
  }

  #deleteNodes(text: string): StatementResult {
    const [deletion = '', exists] = text.split(' AND EXISTS (SELECT ');
    const nodes = [...this.#nodes].map(([stay, node]) => this.#scope({ stay, ...node }));
    const isMet = exists === undefined || nodes.some((scope) => fits(exists.slice(0, -1), 'FROM', scope));
    let rowCount = 0;
    for (const [stay, node] of isMet ? this.#nodes : []) {
      if (!fits(deletion, 'DELETE', this.#scope({ stay, ...node }))) continue;
      this.#nodes.delete(stay);
      rowCount += 1;
    }
    return { rows: [], rowCount };
  }

  #owner(text: string): StatementResult {
    for (const { owner } of this.#shards) {
      const node = owner === null ? undefined : this.#nodes.get(owner);
      if (node === undefined || !fits(text, 'SELECT', this.#scope({ owner }))) continue;
      return rowsOf([{ name: node.name, left: node.expires - this.#now() }]);
    }
    return rowsOf([]);
  }

  #release(text: string): StatementResult {
    let rowCount = 0;
    for (const [shard, row] of this.#shards.entries()) {
      if (!fits(text, 'UPDATE', this.#scope({ owner: row.owner }))) continue;
      this.#shards[shard] = { ...row, owner: null };
      rowCount += 1;
    }
    return { rows: [], rowCount };
  }

  #claim(text: string): StatementResult {
    const stay = /SET owner = '([^']+)'/u.exec(text)?.[1] ?? '';
    const tokens = [...text.matchAll(/\((\d+), '\\x([0-9a-f]+)'::bytea\)/gu)];
    const others = this.#shards.flatMap(({ owner }) => (owner === null || owner === stay ? [] : [owner]));
    if (others.some((each) => this.#nodes.has(each)) || !this.#nodes.has(stay)) return rowsOf([]);
    const [from] = others;
    const isOnce = text.includes('s.owner IS DISTINCT FROM');
    let rowCount = 0;
    for (const [, index = '', token = ''] of tokens) {
      const row = this.#shards[Number(index)];
      if (row === undefined) throw new Error(`there is no shard ${index}`);
      if (isOnce && row.owner === stay) continue;
      this.#shards[Number(index)] = { ...row, owner: stay, epoch: row.epoch + 1, token: Buffer.from(token, 'hex') };
      rowCount += 1;
    }
    if (rowCount === 0) return rowsOf([]);
    // Another node builds on the state without them.
    if (this.lost.size > 0) this.fork('a claim');
    this.#listener.claimed({ stay, from });
    return { rows: [], rowCount };
  }

  /** The claims of a stay. */
  #claims(text: string): StatementResult {
    const rows = this.#shards.flatMap(({ owner, epoch, token }, shard) =>
      fits(text, 'SELECT', this.#scope({ owner })) ? [{ shard, epoch, token: token.toString('hex') }] : [],
    );
    return rowsOf(rows);
  }

  // ---- logs ---------------------------------------------------------------------------------------------------------

  #append(text: string, values: readonly unknown[]): StatementResult {
    const [shard, epoch, , number, digest, bytes] = values as [number, number, Buffer, number, Buffer, Buffer];
    const row = this.#shards[shard];
    const log = this.logs[shard];
    if (row === undefined || log === undefined) throw new Error(`there is no shard ${shard}`);
    if (!fits(text, 'UPDATE', this.#scope({ shard, ...row }, values))) return { rows: [], rowCount: 0 };
    this.#changing();
    this.#checkAppend(shard, { epoch, stay: row.owner, digest, bytes }, number);
    this.#shards[shard] = { ...row, last: number };
    log.push({ epoch, stay: row.owner, digest, bytes });
    this.#had.add(`${shard}/${number}/${digest.toString('hex')}`);
    const place = `${shard}/${number}`;
    const before = this.lost.get(place);
    if (before !== undefined && !before.equals(digest)) this.fork(`another entry ${place}`);
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
    const isLater = log.some(({ stay }) => stay === entry.stay) && before.stay !== entry.stay;
    if (isLater) this.#listener.violate(`${what} is of an earlier claim than the one before (C2)`);
  }

  #setToken(text: string, values: readonly unknown[]): StatementResult {
    const shard = Number(values[0]);
    const row = this.#shards[shard];
    if (row === undefined || !fits(text, 'UPDATE', this.#scope({ shard, ...row }, values)))
      return { rows: [], rowCount: 0 };
    this.#changing();
    this.#shards[shard] = { ...row, token: values[4] as Buffer };
    return { rows: [], rowCount: 1 };
  }

  #end(shard: number): StatementResult {
    const row = this.#shards[shard];
    if (row === undefined) return rowsOf([]);
    return rowsOf([{ ...row, digest: this.logs[shard]?.[row.last - 1]?.digest ?? null }]);
  }

  #fetch([shard = 0, after = 0, entriesMax = 0, bytesMax = 0]: readonly number[]): StatementResult {
    const rows: Readonly<Record<string, unknown>>[] = [];
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
    this.#states.push({ nodes: new Map(this.#nodes), shards: [...this.#shards] });
    if (this.#states.length > STATES_KEPT) this.#states.shift();
  }

  /** Notes that entries that were acknowledged can never come back. */
  fork(why: string): void {
    if (this.isForked) return;
    this.isForked = true;
    this.#listener.trace(`the database has lost acknowledged entries for good: ${why}`);
  }

  #scope(
    row: Readonly<Record<string, SqlValue>>,
    values: readonly unknown[] = [],
  ): { readonly row: Readonly<Record<string, SqlValue>>; readonly values: readonly unknown[]; readonly nowMs: number } {
    return { row, values, nowMs: this.#now() };
  }
}

function rowsOf(rows: readonly Readonly<Record<string, unknown>>[]): StatementResult {
  return { rows, rowCount: rows.length };
}
