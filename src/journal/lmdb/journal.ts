/** The journal on disk: one LMDB environment in one directory, for one shard. */
import { EngineJournal } from '../engine-journal.ts';
import type { Journal } from '../journal.ts';
import { openLmdbEngine } from './engine.ts';
import type { LmdbOptions } from './environment.ts';

/** How an LMDB journal is opened: the directory, made when missing, and how durable an acknowledgement is. */
export type LmdbJournalOptions = LmdbOptions;

/**
 * Opens a store, or makes it, and fences off whoever had it open (J5). Belongs to the calling thread, main or worker. Nothing
 * keeps a second process from doing the same: take `acquireStoreLock` on the data directory first.
 *
 * Rejects with `StoreCorruptError` (damaged or foreign files, left as they are), `StoreVersionError` (newer format, nothing
 * written), `StoreFullError` (the device refuses).
 */
export async function openLmdbJournal(options: LmdbJournalOptions): Promise<Journal> {
  const engine = await openLmdbEngine(options);
  try {
    // `setImmediate` comes after all callbacks of the turn: its callers share one write.
    return new EngineJournal(engine, { schedule: (run) => void setImmediate(run) });
  } catch (error) {
    await engine.close();
    throw error;
  }
}
