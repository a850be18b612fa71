/** Repeats the statements of a shard until the database answers, for a bounded time. */
import { LOG_RETRY_MS } from '../base/bounds.ts';
import { CancelledError, ShardMovedError, StoreCorruptError, StoreFullError, StoreLostError } from '../base/errors.ts';
import type { ShardLogParts } from '../cluster/plan.ts';
import { isPassing, type Row } from './connection.ts';

/** See the head of this file. */
export class Hold {
  readonly #parts: ShardLogParts;
  #isClosed = false;

  constructor(parts: ShardLogParts) {
    this.#parts = parts;
  }

  /**
   * Runs `work` again and again until the database answers. `attempt`: 1 for the first run. Gives up after about
   * `holdMs`, and rejects with `StoreFullError`. Rejects at once with an error that another run would not change.
   */
  async run<T>(work: (attempt: number) => Promise<T>): Promise<T> {
    const { holdMs, isLost, claim, clock } = this.#parts;
    const deadlineMs = clock.monotonic() + holdMs;
    let retryMs = LOG_RETRY_MS.first;
    for (let attempt = 1; ; attempt += 1) {
      if (this.#isClosed) throw new CancelledError('the log of the shard is closed');
      if (isLost()) throw this.moved();
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

  /** No attempt begins after this. */
  close(): void {
    this.#isClosed = true;
  }

  /** The error for a shard that another node has. */
  moved(): ShardMovedError {
    const { shard, epoch } = this.#parts.claim;
    return new ShardMovedError(`another node has shard ${shard} of the cluster; what this node last wrote is unknown`, {
      data: { shard, epoch },
    });
  }
}

/** True for an error that another attempt does not change. */
function isVerdict(error: unknown): boolean {
  return (
    error instanceof ShardMovedError ||
    error instanceof StoreLostError ||
    error instanceof StoreCorruptError ||
    error instanceof CancelledError
  );
}

/** The bytes in a column. Throws `StoreCorruptError` if there are none. */
export function bytesIn(row: Row | undefined, name: string): Buffer {
  const value = row?.[name];
  if (Buffer.isBuffer(value)) return value;
  throw new StoreCorruptError(`a row of the cluster's log has no bytes in its column "${name}"`, {
    data: { reason: name },
  });
}
