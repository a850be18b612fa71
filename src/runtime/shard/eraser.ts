/**
 * Erases removed sessions from the store beside the work of the shard, a slice at a time.
 *
 * Owns: the timer of the next slice. Does not own: the journal, which notes what is left to erase; the result store.
 *
 * Invariants:
 *  B1 one slice runs at a time. The next slice begins `ERASE_PAUSE_MS` after the flush of the slice before, so that
 *     erasing takes a small share of the thread;
 *  B2 no timer runs while nothing is left to erase (A11);
 *  B3 a removed session is forgotten only when no row, no stored result and no entry of the search index is left of it;
 *  B4 a failure is reported and leaves the journal's notes as they are. The next deletion, a recovered store or the
 *     next open begins again.
 */
import type { ResultShortener } from '../../../actors/result-store.ts';
import { ERASE_PAUSE_MS } from '../../base/bounds.ts';
import type { Clock } from '../../base/clock.ts';
import type { Journal } from '../../journal/journal.ts';
import type { SessionKey } from '../../journal/position.ts';
import type { Counters } from '../protocol/metrics.ts';
import type { CommitQueue } from './commit-queue.ts';

/** The parts that an eraser works with. */
export interface EraserParts {
  /** The number of the shard. */
  readonly shard: number;
  readonly journal: Journal;
  readonly results: ResultShortener;
  readonly commits: CommitQueue;
  readonly clock: Clock;
  /** See `ShardHost`. */
  readonly eraseIndex: (sessions: readonly string[]) => Promise<void>;
  readonly counters: Counters;
  /** Called when rows may have been erased durably. */
  readonly erased: () => void;
  /** True while the store refuses writes. */
  readonly isDegraded: () => boolean;
  readonly failed: (thrown: unknown) => void;
}

/**
 * The name of a session in the files of its results. Keys are not reused, so no later session gets this name. A session
 * that was moved to another shard keeps the name.
 */
export function resultOwner(journal: Pick<Journal, 'originOf'>, shard: number, key: SessionKey): string {
  return journal.originOf(key) ?? `${shard}-${key}`;
}

/** See the head of the file. */
export class Eraser {
  readonly #parts: EraserParts;
  #timer: unknown;
  #isAtWork = false;
  #isClosed = false;

  constructor(parts: EraserParts) {
    this.#parts = parts;
  }

  /** Called after an open, a deletion and each slice, and when the store takes writes again. */
  begin(): void {
    const { journal, clock, counters, erased } = this.#parts;
    if (!this.#isClosed) erased();
    counters.set('sessionsErasing', journal.erasures().size);
    if (this.#isClosed || this.#isAtWork || this.#timer !== undefined || journal.erasures().size === 0) return;
    this.#timer = clock.setTimer(() => {
      this.#timer = undefined;
      void this.#step();
    }, ERASE_PAUSE_MS);
  }

  /** Ends the timer. No slice begins after this. */
  close(): void {
    this.#isClosed = true;
    if (this.#timer !== undefined) this.#parts.clock.clearTimer(this.#timer);
    this.#timer = undefined;
  }

  async #step(): Promise<void> {
    if (this.#isClosed || this.#parts.isDegraded()) return;
    this.#isAtWork = true;
    let hasMore = false;
    try {
      hasMore = this.#parts.journal.eraseSome() || (await this.#endSome());
    } catch (thrown) {
      // When the runtime closes, the pending work fails. Such a failure is not reported.
      if (!this.#isClosed) this.#parts.failed(thrown);
    }
    this.#isAtWork = false;
    if (!hasMore || this.#isClosed) return;
    // No caller waits for the next slice, so this item starts no flush itself.
    this.#parts.commits.add({ release: () => this.begin(), refuse: () => undefined }, true);
  }

  /**
   * Removes the results and indexed messages of sessions of which no row is left, and forgets these sessions (B3).
   * True if it forgot some.
   */
  async #endSome(): Promise<boolean> {
    const { journal, results, shard } = this.#parts;
    const keys = journal.erasable();
    if (keys.length === 0) return false;
    const notes = journal.erasures();
    // A session that lost only the older part of its log keeps its results.
    const gone = keys.filter((key) => notes.get(key)?.keeps !== true);
    await results.removeOf(new Set(gone.map((key) => resultOwner(journal, shard, key))));
    await this.#parts.eraseIndex(keys.flatMap((key) => notes.get(key)?.name ?? []));
    if (this.#isClosed || this.#parts.isDegraded()) return false;
    journal.erased(keys);
    return true;
  }
}
