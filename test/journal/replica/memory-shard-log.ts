/**
 * A shard's log in memory, with the claims and fences of one in a database. It outlives the nodes that use it, as a
 * database outlives their machines.
 */
import { randomBytes } from 'node:crypto';
import { ShardMovedError, StoreFullError, StoreLostError } from '../../../src/base/errors.ts';
import { LOG_START, type LogEnd, type LogEntry, type ShardLog } from '../../../src/journal/replica/shard-log.ts';

const TOKEN_BYTES = 16;

/** See the head of this file. */
export class MemoryShardLogs {
  readonly #entries: LogEntry[] = [];
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
        return this.#entries.slice(after);
      },
      digestOf: async (number) => {
        check();
        return this.#entries[number - 1]?.digest;
      },
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
  }

  #nextToken(): string {
    this.#token = randomBytes(TOKEN_BYTES).toString('hex');
    return this.#token;
  }

  #end(): LogEnd {
    const last = this.#entries.at(-1);
    return last === undefined ? LOG_START : { number: last.number, digest: last.digest };
  }

  #append(entry: LogEntry): LogEnd {
    const known = this.#entries[entry.number - 1];
    if (known !== undefined && !known.digest.equals(entry.digest)) {
      throw new StoreLostError(`the log has another entry ${entry.number}`);
    }
    if (entry.number === this.#entries.length + 1) this.#entries.push(entry);
    return this.#end();
  }
}
