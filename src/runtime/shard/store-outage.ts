/**
 * A store that refuses writes: what is true meanwhile, and the attempts to write again.
 *
 * Owns: the refusal, when the device is tried again, which heads are older than their logs. Does not own: the actors, which
 * the shard drops and reads again (H3), nor what goes on when it is over.
 * Invariants:
 *  O1 however many flushes fail, the store is tried again one attempt at a time, and everything is resumed once;
 *  O2 while it lasts no actor holds what a refused write would have made true: all are dropped when it begins, and again when
 *     it is over, as what a device refused may be on the disk all the same;
 *  O3 a store that is lost (`StoreLostError`) is not tried again: the outage lasts until the store is opened anew.
 */
import type { Clock } from '../../base/clock.ts';
import { StoreFullError, StoreLostError } from '../../base/errors.ts';
import type { Journal } from '../../journal/journal.ts';
import type { SessionKey } from '../../journal/position.ts';

/** Wait between attempts to write to a device that refused, in ms. */
const DEVICE_RETRY_MS = 1_000;

/** Why a store takes no writes: it may take them again (full, failing), or never in this life (lost). */
export type StoreRefusal = StoreFullError | StoreLostError;

/** What an outage has to do with. */
export interface OutageParts {
  readonly journal: Journal;
  readonly clock: Clock;
  /** Forgets every actor in memory. */
  readonly dropAll: () => void;
  /** It began (with its error), or is over. */
  readonly told: (error: StoreRefusal | undefined) => void;
  /** The store takes writes again. */
  readonly over: () => void;
  readonly failed: (message: string, error: unknown) => void;
}

/** See the head of the file. */
export class StoreOutage {
  readonly #parts: OutageParts;
  #error: StoreRefusal | undefined;
  /** Sessions that were dropped, whose heads are as old as the last checkpoint, or older. */
  #staleHeads: ReadonlySet<SessionKey> = new Set();
  #timer: unknown;
  #isLost = false;
  #isClosed = false;

  constructor(parts: OutageParts) {
    this.#parts = parts;
  }

  /** Why nothing can be written; undefined: it can. */
  get error(): StoreRefusal | undefined {
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
    if (refusal instanceof StoreLostError) {
      this.#announceLost(refusal);
      return;
    }
    // Recovered once, or everything would be resumed twice.
    if (isKnown) return;
    this.#parts.failed('the store refuses writes', refusal);
    this.#parts.told(refusal);
    this.#recoverLater();
  }

  /** The store was found lost while nothing was being written. */
  lost(error: StoreLostError): void {
    if (!this.#isClosed && !(this.#error instanceof StoreLostError)) this.flushFailed(error);
  }

  /** The store is not tried any more. */
  close(): void {
    this.#isClosed = true;
    this.#parts.clock.clearTimer(this.#timer);
  }

  #announceLost(error: StoreLostError): void {
    if (this.#isLost) return;
    this.#isLost = true;
    this.#parts.clock.clearTimer(this.#timer);
    this.#parts.failed('the store is lost', error);
    this.#parts.told(error);
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
    if (this.#isClosed || this.#isLost) return;
    try {
      await this.#parts.journal.recover();
    } catch (error) {
      if (error instanceof StoreLostError) this.lost(error);
      else if (!this.#isClosed && !this.#isLost) this.#recoverLater();
      return;
    }
    if (this.#isClosed || this.#isLost) return;
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
export function storeError(error: Error): StoreRefusal {
  if (error instanceof StoreFullError || error instanceof StoreLostError) return error;
  return new StoreFullError('the store refused a write', { cause: error });
}
