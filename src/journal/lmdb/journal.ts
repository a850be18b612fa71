/** The journal on disk: one LMDB environment in one directory, for one shard. */
import { defined } from '../../base/defined.ts';
import { rewrapKeys } from '../encryption/stored-keys.ts';
import { EngineJournal } from '../engine-journal.ts';
import type { Journal } from '../journal.ts';
import { openLmdbEngine } from './engine.ts';
import type { LmdbOptions } from './environment.ts';

/** The options of an LMDB journal: the directory, created when missing, and the durability of an acknowledgement. */
export type LmdbJournalOptions = LmdbOptions;

/**
 * Opens or creates a store, and fences off an earlier owner (J5). The journal belongs to the calling thread, main
 * or worker. Another process could fence off this journal too, so take `acquireStoreLock` on the data directory first.
 *
 * Rejects with `StoreCorruptError` (damaged or foreign files, left as they are), `StoreVersionError` (newer format,
 * nothing written), `StoreFullError` (the device refuses).
 */
export async function openLmdbJournal(options: LmdbJournalOptions): Promise<Journal> {
  const engine = await openLmdbEngine(options);
  try {
    const { encryption, shard = 0 } = options;
    // `setImmediate` (below) runs after all callbacks of the tick, so all callers of one tick share one write.
    if (encryption?.isRotating === true) await rewrapKeys(engine, encryption, { at: Date.now(), shard });
    return new EngineJournal(engine, { schedule: (run) => void setImmediate(run), shard, ...defined({ encryption }) });
  } catch (error) {
    await engine.close();
    throw error;
  }
}
