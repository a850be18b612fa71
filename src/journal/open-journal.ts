/** The journal a shard asks for by its options. */
import type { Journal, JournalOptions } from './journal.ts';
import { openLmdbJournal } from './lmdb/journal.ts';
import { openMemoryJournal } from './memory-journal.ts';

/** In memory when there is no directory, else on LMDB in it; rejects as `openLmdbJournal`. On the thread that will own it. */
export async function openJournal(options: JournalOptions): Promise<Journal> {
  const { directory, ...how } = options;
  return directory === undefined ? openMemoryJournal() : openLmdbJournal({ directory, ...how });
}
