/**
 * A shard's log in memory, with the claims and fences of one in a database. It outlives the nodes that use it, as a
 * database outlives their machines.
 */
import { randomBytes } from 'node:crypto';
import {
  CancelledError,
  ShardMovedError,
  StoreCorruptError,
  StoreFullError,
  StoreLostError,
} from '../../../src/base/errors.ts';
import {
  LOG_START,
  type LogEnd,
  type LogEntry,
  type LogHistory,
  type LogSnapshot,
  type ShardLog,
  type SnapshotStore,
} from '../../../src/journal/replica/shard-log.ts';

const TOKEN_BYTES = 16;
/** Entries that one `trim` removes: few, so that a test can stop between two slices. */
const TRIMMED_AT_ONCE = 2;

/** See the head of this file. */
export class MemoryShardLogs {
  #entries: LogEntry[] = [];
  #last: LogEnd = LOG_START;
  #snapshot: LogSnapshot | undefined;
  #pieces: { readonly id: string; readonly number: number; readonly bytes: Buffer }[] = [];
  #epoch = 0;
  #token = '';
  #outage: Error | undefined;

  /** Claims the shard: earlier claims are fenced. */
  claim(): ShardLog {
    this.#epoch += 1;
    const epoch = this.#epoch;
    let token = this.#nextToken();
    const check = (): void => {
      if (this.#outage !== undefined) throw new StoreFullError('the log does not answer', { cause: this.#outage });
    };
    const checkClaim = (): void => {
      check();
      if (token !== this.#token) throw new ShardMovedError('another claim of the shard was made');
    };
    return {
      epoch,
      append: async (entry) => {
        checkClaim();
        return this.#append(entry);
      },
      reclaim: async () => {
        checkClaim();
        token = this.#nextToken();
        return this.#end();
      },
      fetch: async (after) => {
        check();
        return this.#entries.filter(({ number }) => number > after);
      },
      digestOf: async (number) => {
        check();
        return this.#digestOf(number);
      },
      snapshots: this.#snapshots(check, checkClaim),
      close: async () => undefined,
    };
  }

  /** While there is an outage, no call succeeds; `undefined` ends it. */
  set outage(cause: Error | undefined) {
    this.#outage = cause;
  }

  /** Removes the newest entries, as a database does that goes back to an earlier state. */
  goBack(entries: number): void {
    this.#entries.splice(this.#entries.length - entries);
    this.#last = this.#entries.at(-1) ?? LOG_START;
    if ((this.#snapshot?.number ?? 0) > this.#last.number) this.#snapshot = undefined;
  }

  /** The texts of everything that is stored. */
  contents(): readonly Buffer[] {
    return [...this.#entries, ...this.#pieces].map(({ bytes }) => bytes);
  }

  /** The pieces that no snapshot has. */
  get loosePieces(): number {
    return this.#pieces.filter(({ id }) => id !== this.#snapshot?.id).length;
  }

  #snapshots(check: () => void, checkClaim: () => void): SnapshotStore {
    return {
      history: async () => {
        check();
        return this.#history();
      },
      piece: async (id, number) => {
        check();
        const found = this.#pieces.find((each) => each.id === id && each.number === number);
        if (found === undefined) throw new StoreCorruptError('the piece is missing');
        return found.bytes;
      },
      putPiece: async (id, number, bytes) => {
        checkClaim();
        if (!this.#pieces.some((each) => each.id === id && each.number === number)) {
          this.#pieces.push({ id, number, bytes });
        }
      },
      put: async (snapshot) => {
        checkClaim();
        const pieces = this.#pieces.filter(({ id }) => id === snapshot.id).length;
        const isThere = this.#digestOf(snapshot.number)?.equals(snapshot.digest) === true;
        if (pieces !== snapshot.pieces || !isThere) throw new CancelledError('the snapshot is not whole');
        this.#snapshot = snapshot;
      },
      trim: async (upTo) => {
        checkClaim();
        return this.#trim(upTo);
      },
      rest: async () => undefined,
      close: async () => undefined,
    };
  }

  #history(): LogHistory {
    const { number = 0 } = this.#snapshot ?? {};
    const newer = this.#entries.filter((entry) => entry.number > number);
    return {
      ...(this.#snapshot === undefined ? {} : { snapshot: this.#snapshot }),
      first: this.#entries[0]?.number ?? this.#last.number + 1,
      bytes: newer.reduce((sum, { bytes }) => sum + bytes.length, 0),
    };
  }

  #trim(upTo: number): boolean {
    const snapshot = this.#snapshot;
    if (snapshot === undefined) return false;
    const loose = this.#pieces.findIndex(({ id }) => id !== snapshot.id);
    if (loose >= 0) {
      this.#pieces.splice(loose, 1);
      return true;
    }
    const covered = this.#entries.filter(({ number }) => number <= Math.min(upTo, snapshot.number));
    this.#entries = this.#entries.slice(Math.min(covered.length, TRIMMED_AT_ONCE));
    return covered.length > 0;
  }

  #digestOf(number: number): Buffer | undefined {
    const entry = this.#entries.find((each) => each.number === number);
    return entry?.digest ?? (this.#snapshot?.number === number ? this.#snapshot.digest : undefined);
  }

  #nextToken(): string {
    this.#token = randomBytes(TOKEN_BYTES).toString('hex');
    return this.#token;
  }

  #end(): LogEnd {
    return { number: this.#last.number, digest: this.#last.digest };
  }

  #append(entry: LogEntry): LogEnd {
    const known = this.#digestOf(entry.number);
    if (known !== undefined && !known.equals(entry.digest)) {
      throw new StoreLostError(`the log has another entry ${entry.number}`);
    }
    if (entry.number === this.#last.number + 1) {
      this.#entries.push(entry);
      this.#last = entry;
    }
    return this.#end();
  }
}
