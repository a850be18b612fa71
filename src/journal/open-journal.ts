/** Opens the journal that a shard's options ask for. */
import type { Journal, JournalOptions } from './journal.ts';
import { openMemoryJournal } from './memory-journal.ts';

/**
 * Opens a journal: in memory without a directory, otherwise on LMDB in that directory. Rejects like `openLmdbJournal`.
 * Call it on the thread that will own the journal.
 */
export async function openJournal(options: JournalOptions): Promise<Journal> {
  const { directory, ...how } = options;
  if (directory === undefined) return openMemoryJournal();
  // Imported only on use: loading the database takes as long as opening a store in memory.
  const { openLmdbJournal } = await import('./lmdb/journal.ts');
  return openLmdbJournal({ directory, ...how });
}
