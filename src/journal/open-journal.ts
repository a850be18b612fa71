/** Opens the journal that a shard's options ask for. */
import { defined } from '../base/defined.ts';
import type { Journal, JournalOptions } from './journal.ts';
import { openMemoryJournal } from './memory-journal.ts';

/**
 * Loads the code of the database on this thread. Loading takes as long as opening a store in memory, so callers begin
 * to load early, beside other work.
 */
export function loadDatabase(): Promise<typeof import('./lmdb/journal.ts')> {
  return import('./lmdb/journal.ts');
}

/**
 * Opens a journal: in memory without a directory, otherwise on LMDB in that directory. Rejects like `openLmdbJournal`.
 * Call it on the thread that will own the journal.
 */
export async function openJournal(options: JournalOptions): Promise<Journal> {
  const { directory, ...how } = options;
  if (directory === undefined) return openMemoryJournal(defined({ shard: how.shard, encryption: how.encryption }));
  const { openLmdbJournal } = await loadDatabase();
  return openLmdbJournal({ directory, ...how });
}
