/**
 * The stores that the logs of a cluster stand for: each entry is put into them as a node with an empty copy would put it.
 *
 * Owns: the stores, and how far they are. Does not own: the logs.
 */
import { MemoryStore, putChange, putRows } from '../../../src/journal/memory-store.ts';
import { decodeBatch } from '../../../src/journal/replica/batch-codec.ts';
import type { SimulatedDatabase } from './simulated-database.ts';

/** See the head of this file. */
export class LogStores {
  readonly stores: readonly MemoryStore[];
  readonly #database: SimulatedDatabase;

  constructor(database: SimulatedDatabase) {
    this.#database = database;
    this.stores = database.logs.map(() => new MemoryStore());
  }

  /**
   * Brings the stores to the ends of the logs, which never go back here: see `SimulatedDatabase.isForked`. `most`: only
   * to this entry.
   */
  follow(most: number = Number.POSITIVE_INFINITY): void {
    for (const [shard, store] of this.stores.entries()) {
      for (const { bytes } of this.#database.logs[shard]?.slice(store.state.commit, most) ?? []) {
        const { state, changes } = decodeBatch(bytes);
        putRows(store, changes);
        for (const change of changes) putChange(store, change);
        store.state = state;
      }
    }
  }
}
