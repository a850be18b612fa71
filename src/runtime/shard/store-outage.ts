/**
 * A store that refuses writes: the state during an outage, and the attempts to write again.
 *
 * Owns: the refusal, the times at which the device is tried again, which heads are older than their logs. Does not own:
 * the actors, which the shard drops and reads again (H3), nor the resumption of sessions afterwards.
 * Invariants:
 *  O1 however many flushes fail, one attempt at a time tries the store again, and everything is resumed once;
 *  O2 during the outage no actor holds state that the log does not have. All actors are dropped when the outage begins.
 *     They are dropped again when the outage ends, since a refused write may have reached the disk nevertheless;
 *  O3 a lost store (`StoreLostError`) and a shard that another node has (`ShardMovedError`) are not tried again: the
 *     outage lasts until the store is opened again.
 */
import type { Clock } from '../../base/clock.ts';
import {
  CancelledError,
  ShardMovedError,
  StoreCorruptError,
  StoreFullError,
  StoreLostError,
  type TroupeError,
} from '../../base/errors.ts';
import type { Journal } from '../../journal/journal.ts';
import type { SessionKey } from '../../journal/position.ts';

/** Wait between attempts to write to a device that refused, in ms. */
const DEVICE_RETRY_MS = 1_000;

/**
 * The reason why a store refuses writes. The store may accept writes again by itself (full, failing), or only after the
 * next open (lost, moved).
 */
export type StoreRefusal = StoreFullError | FinalRefusal;

/** The reasons that last until the store is opened again (O3). */
type FinalRefusal = StoreLostError | ShardMovedError;

function isFinal(error: unknown): error is FinalRefusal {
  return error instanceof StoreLostError || error instanceof ShardMovedError;
}

/** The parts that an outage works with. */
export interface OutageParts {
  readonly journal: Journal;
  readonly clock: Clock;
  /** Drops every actor in memory. */
  readonly dropAll: () => void;
  /** Called with the error when the outage begins, and without an error when it is over. */
  readonly notify: (error: StoreRefusal | undefined) => void;
  /** Called when the store takes writes again. */
  readonly over: () => void;
  readonly failed: (message: string, error: unknown) => void;
}

/** See the head of the file. */
export class StoreOutage {
  readonly #parts: OutageParts;
  #error: StoreRefusal | undefined;
  /** Sessions whose stored heads may be older than their logs: they changed since the last checkpoint, or can run. */
  #staleHeads: ReadonlySet<SessionKey> = new Set();
  #timer: unknown;
  #isLost = false;
  #isClosed = false;

  constructor(parts: OutageParts) {
    this.#parts = parts;
  }

  /** The reason why nothing can be written; undefined while writes work. */
  get error(): StoreRefusal | undefined {
    return this.#error;
  }

  /** True if the stored head of this session may be older than its log. */
  isStale(key: SessionKey): boolean {
    return this.#staleHeads.has(key);
  }

  /** Called when a flush failed. */
  flushFailed(error: Error): void {
    // The shard is closed, and its last flush failed. Nothing is written any more.
    if (this.#isClosed) {
      this.#parts.dropAll();
      return;
    }
    const isKnown = this.#error !== undefined;
    const refusal = storeError(error);
    this.#error = refusal;
    this.#parts.dropAll();
    this.#noteStaleHeads();
    if (isFinal(refusal)) {
      this.#announceLost(refusal);
      return;
    }
    // Only one recovery runs at a time. Otherwise everything would be resumed twice.
    if (isKnown) return;
    this.#parts.failed('the store refuses writes', refusal);
    this.#parts.notify(refusal);
    this.#recoverLater();
  }

  /** Called when the store was found lost, or moved, while nothing was being written. */
  lost(error: FinalRefusal): void {
    if (!this.#isClosed && !isFinal(this.#error)) this.flushFailed(error);
  }

  /** Ends the attempts to write. */
  close(): void {
    this.#isClosed = true;
    this.#parts.clock.clearTimer(this.#timer);
  }

  #announceLost(error: FinalRefusal): void {
    if (this.#isLost) return;
    this.#isLost = true;
    this.#parts.clock.clearTimer(this.#timer);
    this.#parts.failed(error instanceof StoreLostError ? 'the store is lost' : 'the shard has moved', error);
    this.#parts.notify(error);
  }

  #noteStaleHeads(): void {
    const { journal } = this.#parts;
    try {
      const stale = new Set(journal.runnable());
      for (const key of journal.tailKeys(journal.checkpointed())) stale.add(key);
      this.#staleHeads = stale;
    } catch (error) {
      // Without the stale heads, lists show sessions as of the last checkpoint until the store takes writes again.
      this.#parts.failed('the tail of the log cannot be read', error);
    }
  }

  #recoverLater(): void {
    this.#timer = this.#parts.clock.setTimer(() => void this.#recover(), DEVICE_RETRY_MS);
  }

  async #recover(): Promise<void> {
    if (this.#isClosed || this.#isLost) return;
    try {
      await this.#parts.journal.recover();
    } catch (error) {
      if (isFinal(error)) this.lost(error);
      else if (!this.#isClosed && !this.#isLost) this.#recoverLater();
      return;
    }
    if (this.#isClosed || this.#isLost) return;
    // A refused write may have reached the disk nevertheless. Sessions read during the outage are then older than the
    // log, and the log may hold ends that were never published.
    this.#parts.dropAll();
    this.#error = undefined;
    this.#staleHeads = new Set();
    this.#parts.notify(undefined);
    try {
      this.#parts.over();
    } catch (error) {
      if (!(error instanceof StoreCorruptError)) throw error;
      // Damage that only this reading has found. In a cluster the next attempt builds the copy again.
      this.flushFailed(error);
    }
  }
}

/** The error of a failed write, as its waiting callers receive it. A closed journal does not count as a refusal. */
export function refusalOf(error: Error): TroupeError {
  return error instanceof CancelledError ? error : storeError(error);
}

function storeError(error: Error): StoreRefusal {
  if (error instanceof StoreFullError || isFinal(error)) return error;
  return new StoreFullError('the store refused a write', { cause: error });
}
