/** Deletes sessions from a journal, and erases everything of them. */
import type { Journal } from '../../../src/journal/journal.ts';
import type { SessionKey } from '../../../src/journal/position.ts';

/** Resolves when nothing of the sessions is left in the rows, durably. */
export async function removeAndErase(journal: Journal, keys: readonly SessionKey[]): Promise<void> {
  journal.remove(keys);
  await journal.flushed();
  while (journal.eraseSome()) await journal.flushed();
  journal.erased(journal.erasable());
  await journal.flushed();
}
