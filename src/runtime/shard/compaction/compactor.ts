/**
 * Compacts the store of a shard while the shard works (`live-compaction.ts`): when bytes of deleted sessions are left
 * in free pages, and when at least half of a file that is not small is free. In a cluster a second compactor writes
 * snapshots to the log of the shard (`replica/snapshots.ts`): when bytes of deleted sessions, or of removed history,
 * are left in the log, and when the log is long.
 *
 * Owns: the timer of the next compaction, and the waits after the last compaction. Does not own: the copy, which the
 * engine makes and puts in place of the file; the order in which shards compact, which the host decides.
 *
 * Invariants:
 *  C1 one shard of a runtime compacts, or writes a snapshot, at a time;
 *  C2 bytes of a deleted session leave the file within `eraseWithinMs`. A compaction begins after half of that time, so
 *     one compaction serves all sessions that were erased in the meantime. If a former process left such bytes, the
 *     compaction begins at once;
 *  C3 compactions take at most a tenth of the time (`COMPACT_TIME_SHARE_MAX`), whatever the size of the file. So the
 *     bytes may stay in a large file for longer than C2 says;
 *  C4 each failure in a row makes the wait longer. A failure is logged and counted, and leaves the store as it was;
 *  C5 no timer runs while no compaction is due. The timer does not keep the process alive, because the next open
 *     begins at once (A11).
 */
import {
  COMPACT_FREE_BYTES_MIN,
  COMPACT_FREE_PAUSE_MS,
  COMPACT_FREE_SHARE_MIN,
  COMPACT_RETRY_MS_MAX,
  COMPACT_RETRY_MS_MIN,
  COMPACT_START_SHARE,
  COMPACT_TIME_SHARE_MAX,
} from '../../../base/bounds.ts';
import { type Clock, setIdleTimer } from '../../../base/clock.ts';
import { asError, errorShape, StoreFullError } from '../../../base/errors.ts';
import { growingWait } from '../../../base/growing-wait.ts';
import type { CompactionResult, StoreCompaction, StoreUse } from '../../../journal/engine.ts';
import type { Journal } from '../../../journal/journal.ts';
import type { Counters } from '../../protocol/metrics.ts';
import type { ShardHost } from '../shard-parts.ts';

/** The parts that a compactor works with. */
export interface CompactorParts {
  readonly journal: Pick<Journal, 'erasures'>;
  /** The compaction, or the snapshots, of the journal. */
  readonly copies: StoreCompaction;
  readonly kind: 'compaction' | 'snapshot';
  readonly clock: Clock;
  readonly counters: Counters;
  /** See `StoreOptions`. */
  readonly eraseWithinMs: number;
  readonly host: Pick<ShardHost, 'beginCompaction' | 'endCompaction' | 'log'>;
  /** True while the store refuses writes, and once the shard begins nothing more. */
  readonly isRefusing: () => boolean;
}

/** See the head of the file. */
export class Compactor {
  readonly #parts: CompactorParts;
  #timer: unknown;
  #isAtWork = false;
  #isClosed = false;
  #failures = 0;
  /** Bytes of deleted sessions have been left since this time, in monotonic ms; undefined: none are left. */
  #owedSince: number | undefined;
  /** No compaction begins before this time, in monotonic ms (C3, C4). */
  #notBefore = Number.NEGATIVE_INFINITY;
  /** No compaction that only makes the file smaller begins before this time, in monotonic ms. */
  #notForSpaceBefore = Number.NEGATIVE_INFINITY;

  constructor(parts: CompactorParts) {
    this.#parts = parts;
  }

  /** Called at open, and when the store takes writes again. */
  begin(): void {
    const { copies, clock, eraseWithinMs } = this.#parts;
    // The time at which a former process left these bytes is unknown, so the compaction is due now.
    if (copies.isOwed) this.#owedSince ??= clock.monotonic() - eraseWithinMs;
    this.look();
  }

  /** Called after each flush of an erasure. */
  erased(): void {
    const { copies, journal } = this.#parts;
    if (copies.isOwed || journal.erasures().size === 0) this.look();
  }

  /** Sets the timer if a compaction is due, now or later. Not called for each commit, because it reads table sizes. */
  look(): void {
    const { clock, isRefusing } = this.#parts;
    if (this.#isClosed || this.#isAtWork || isRefusing()) return;
    const now = clock.monotonic();
    const dueAt = this.#dueAt(now);
    if (dueAt === undefined) return;
    // A timer that is already set is replaced: the reason for the compaction, and thus its time, may have changed.
    if (this.#timer !== undefined) clock.clearTimer(this.#timer);
    this.#timer = setIdleTimer(
      clock,
      () => {
        this.#timer = undefined;
        void this.#run();
      },
      Math.max(0, Math.max(dueAt, this.#notBefore) - now),
    );
  }

  /** Ends the timer. No compaction begins after this, and the journal's close ends one that runs. */
  close(): void {
    this.#isClosed = true;
    if (this.#timer !== undefined) this.#parts.clock.clearTimer(this.#timer);
    this.#timer = undefined;
  }

  /** Monotonic ms at which the next compaction is due; undefined: none is. */
  #dueAt(now: number): number | undefined {
    const { copies, eraseWithinMs } = this.#parts;
    if (copies.isOwed) {
      this.#owedSince ??= now;
      return this.#owedSince + eraseWithinMs * COMPACT_START_SHARE;
    }
    this.#owedSince = undefined;
    if (now < this.#notForSpaceBefore) return undefined;
    return (copies.isDue?.() ?? isMostlyFree(copies.use())) ? now : undefined;
  }

  /** Runs one compaction, once no other shard of the runtime compacts (C1). */
  async #run(): Promise<void> {
    const { host, copies, clock, counters, isRefusing } = this.#parts;
    if (isRefusing()) return;
    this.#isAtWork = true;
    try {
      await host.beginCompaction();
      try {
        if (this.#isClosed || isRefusing()) return;
        counters.set('compactionsRunning', 1);
        const startedAt = clock.monotonic();
        const result = await copies.run();
        this.#succeeded(result, startedAt);
      } finally {
        counters.set('compactionsRunning', 0);
        await host.endCompaction();
      }
    } catch (thrown) {
      this.#failed(thrown);
    } finally {
      this.#isAtWork = false;
    }
    this.look();
  }

  #succeeded({ bytesBefore, bytes, sliceMs }: CompactionResult, startedAt: number): void {
    const { clock, counters, host, copies, kind } = this.#parts;
    const now = clock.monotonic();
    this.#failures = 0;
    // The copy has no bytes that were freed before it began. Bytes that were freed since then are still in the file.
    this.#owedSince = copies.isOwed ? startedAt : undefined;
    this.#notBefore = now + (now - startedAt) * (1 / COMPACT_TIME_SHARE_MAX - 1);
    counters.raise('compactionSliceMs', sliceMs);
    let message = `a snapshot of ${bytes} bytes was written to the log`;
    if (kind === 'compaction') {
      this.#notForSpaceBefore = now + COMPACT_FREE_PAUSE_MS;
      counters.add('compactions');
      counters.set('compactionBytesBefore', bytesBefore);
      counters.set('compactionBytes', bytes);
      message = `the file of the store was compacted from ${bytesBefore} to ${bytes} bytes`;
    } else counters.add('snapshots');
    host.log({ level: 'debug', message, ms: Math.ceil(now - startedAt) });
  }

  /** Logs and counts a failure, and sets the wait before the next attempt (C4). */
  #failed(thrown: unknown): void {
    const { clock, counters, host, isRefusing, eraseWithinMs, kind } = this.#parts;
    // A closing shard ends its compaction. A store that takes writes again calls `begin`.
    if (this.#isClosed || isRefusing()) return;
    this.#failures += 1;
    counters.add(kind === 'compaction' ? 'compactionsFailed' : 'snapshotsFailed');
    const first = Math.min(COMPACT_RETRY_MS_MIN, eraseWithinMs * COMPACT_START_SHARE);
    const waitMs = growingWait(this.#failures, { first, longest: COMPACT_RETRY_MS_MAX });
    this.#notBefore = clock.monotonic() + waitMs;
    this.#notForSpaceBefore = clock.monotonic() + Math.max(waitMs, COMPACT_FREE_PAUSE_MS);
    const cause =
      thrown instanceof StoreFullError && thrown.data['reason'] !== 'database'
        ? 'the device has too little space for a copy'
        : asError(thrown).message;
    const failure =
      kind === 'compaction' ? 'the file of the store was not compacted' : 'no snapshot was written to the log';
    host.log({
      level: 'warn',
      message: `${failure}: ${cause}. The next attempt begins in ${Math.ceil(waitMs / 1_000)} s`,
      error: errorShape(thrown),
    });
  }
}

/** True if at least half of a file is free, and the free bytes are enough to be worth a copy. */
function isMostlyFree({ bytes, freeBytes }: StoreUse): boolean {
  return freeBytes >= COMPACT_FREE_BYTES_MIN && freeBytes >= bytes * COMPACT_FREE_SHARE_MIN;
}
