/**
 * A store that refuses writes: what is true meanwhile, and the attempts to write again.
 *
 * Owns: the refusal, when the device is tried again, which heads are older than their logs. Does not own: the actors, which
 * the shard drops and reads again (H3), nor what goes on when it is over.
 * Invariants:
 *  O1 however many flushes fail, the store is tried again one attempt at a time, and everything is resumed once;
 *  O2 while it lasts no actor holds what a refused write would have made true: all are dropped when it begins, and again when
 *     it is over, as what a device refused may be on the disk all the same.
 */
import type { Clock } from '../base/clock.ts';
import { StoreFullError } from '../base/errors.ts';
import type { Journal, SessionKey } from '../journal/journal.ts';

/** Wait between attempts to write to a device that refused, in ms. */
const DEVICE_RETRY_MS = 1_000;

/** What an outage has to do with. */
export interface OutageParts {
  readonly journal: Journal;
  readonly clock: Clock;
  /** Forgets every actor in memory. */
  readonly dropAll: () => void;
  /** It began (with its error), or is over. */
  readonly told: (error: StoreFullError | undefined) => void;
  /** The store takes writes again. */
  readonly over: () => void;
  readonly failed: (message: string, error: unknown) => void;
}

/** See the head of the file. */
export class StoreOutage {
  readonly #parts: OutageParts;
  #error: StoreFullError | undefined;
  /** Sessions that were dropped, whose heads are as old as the last checkpoint, or older. */
  #staleHeads: ReadonlySet<SessionKey> = new Set();
  #timer: unknown;
  #isClosed = false;

  constructor(parts: OutageParts) {
    this.#parts = parts;
  }

  /** Why nothing can be written; undefined: it can. */
  get error(): StoreFullError | undefined {
    return this.#error;
  }

  /** The head of this session is older than its log. */
  isStale(key: SessionKey): boolean {
    return this.#staleHeads.has(key);
  }

  /** A flush failed. */
  flushFailed(error: Error): void {
    const isKnown = this.#error !== undefined;
    const refusal = storeError(error);
    this.#error = refusal;
    this.#parts.dropAll();
    // The last flush of a close: the journal answers nothing any more.
    if (this.#isClosed) return;
    this.#noteStaleHeads();
    // Recovered once, or everything would be resumed twice.
    if (isKnown) return;
    this.#parts.failed('the store refuses writes', refusal);
    this.#parts.told(refusal);
    this.#recoverLater();
  }

  /** The store is not tried any more. */
  close(): void {
    this.#isClosed = true;
    this.#parts.clock.clearTimer(this.#timer);
  }

  #noteStaleHeads(): void {
    const { journal } = this.#parts;
    try {
      const stale = new Set(journal.runnable());
      for (const key of journal.tailKeys(journal.checkpointed())) stale.add(key);
      this.#staleHeads = stale;
    } catch (error) {
      // Lists tell of these sessions as of the last checkpoint until the store takes writes again.
      this.#parts.failed('the tail of the log cannot be read', error);
    }
  }

  #recoverLater(): void {
    this.#timer = this.#parts.clock.setTimer(() => void this.#recover(), DEVICE_RETRY_MS);
  }

  async #recover(): Promise<void> {
    if (this.#isClosed) return;
    try {
      await this.#parts.journal.recover();
    } catch {
      if (!this.#isClosed) this.#recoverLater();
      return;
    }
    if (this.#isClosed) return;
    // What a device refused may be on the disk all the same: sessions read meanwhile are older than the log, and there may be
    // ends that nobody was told of.
    this.#parts.dropAll();
    this.#error = undefined;
    this.#staleHeads = new Set();
    this.#parts.told(undefined);
    this.#parts.over();
  }
}

/** What a write failed with, as those who wait for it are told. */
export function storeError(error: Error): StoreFullError {
  if (error instanceof StoreFullError) return error;
  return new StoreFullError('the store refused a write', { cause: error });
}
