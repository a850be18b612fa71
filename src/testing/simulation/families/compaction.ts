/**
 * Compactions of open stores (I41 of `invariants.ts`), in one seed of four. The stores of such a run keep the bytes of
 * removed and replaced rows until a compaction, as the free pages of a file do. All other invariants check that a
 * compaction loses no commit.
 */
import type { MemoryStore } from '../../../journal/memory-store.ts';
import { rowSessions } from '../../../journal/rows/row-codec.ts';
import type { StoreOptions } from '../../../runtime/protocol/store-option.ts';
import { SeededRandom } from '../seeded-random.ts';
import type { ErasureParts } from './erasures.ts';

/** Separates these draws from all others, so that they change no other draw. */
const STREAM = 0x2f1d_c0de;
const SHARE = 0.25;
/** The share of actions that delete a session: with compactions, and in all other runs. */
const DELETES = [0.4, 0.05] as const;
/** Short times, so that many compactions meet faults. */
const WITHIN_MS = [200, 1_000, 10_000] as const;
/**
 * Maximum number of looks at the stores, and the virtual ms between two looks. All looks together take longer than any
 * wait of the runtime after failures.
 */
const LOOKS_MAX = 1_500;
const LOOK_MS = 1_000;

/** See the head of the file. */
export class SimulatedCompaction {
  readonly option: StoreOptions;

  private constructor(eraseWithinMs: number) {
    this.option = { eraseWithinMs };
  }

  /** The compactions of a run; undefined if its stores keep no bytes of removed rows. */
  static draw(seed: number): SimulatedCompaction | undefined {
    const random = new SeededRandom((seed ^ STREAM) >>> 0);
    return random.chance(SHARE) ? new SimulatedCompaction(random.pick(WITHIN_MS)) : undefined;
  }

  /** The share of an embedder's actions that delete a session. */
  static deleteShareOf(compaction: SimulatedCompaction | undefined): number {
    return DELETES[compaction === undefined ? 1 : 0];
  }

  /**
   * Waits until every store was compacted after its last erasure. A process without faults needs a bounded time for
   * that.
   */
  async untilCompacted({ stores, world, harness }: ErasureParts): Promise<void> {
    for (let looks = 0; looks < LOOKS_MAX && stores.some(isOwing); looks += 1) await world.sleep(harness, LOOK_MS);
  }

  /** Checks that a store has no byte of deleted sessions if it was compacted after its last erasure. */
  check({ stores, ledger }: Pick<ErasureParts, 'stores' | 'ledger'>): void {
    for (const [shard, store] of stores.entries()) {
      if (store.erasures.size > 0 || isOwing(store)) continue;
      for (const key of freedKeys(store))
        ledger.violate('lost', `shard ${shard}: a free page has entries of the deleted session ${key} (I41)`);
    }
  }

  /** Checks, at the end of a run, that every store was compacted after its last erasure. */
  checkFinished({ stores, ledger }: Pick<ErasureParts, 'stores' | 'ledger'>): void {
    this.check({ stores, ledger });
    for (const [shard, store] of stores.entries()) {
      if (isOwing(store)) ledger.violate('stuck', `shard ${shard}: free pages of deleted sessions stay (I41)`);
    }
  }
}

function isOwing({ state }: MemoryStore): boolean {
  return state.erased > state.compacted;
}

/** The deleted sessions that have entries in freed rows. */
function freedKeys({ freedRows = [], names }: MemoryStore): ReadonlySet<number> {
  return new Set(
    freedRows.flatMap(({ row, bytes }) => rowSessions(bytes, row).flatMap(([key]) => (names.has(key) ? [] : key))),
  );
}
