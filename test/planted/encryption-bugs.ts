/** Planted bugs of encryption at rest (I36). */
import type { PlantedBug } from './planted-bug.ts';

const JOURNAL = 'src/journal/engine-journal.ts';
const VAULT = 'src/journal/encryption/vault.ts';

/** See the head of the file. */
export const encryptionBugs: readonly PlantedBug[] = [
  {
    name: 'head-not-encrypted',
    what: 'the head of an encrypted session is stored as plain text',
    file: JOURNAL,
    find: 'this.#vault?.sealHead(plain) ?? plain',
    replace: 'plain',
  },
  {
    name: 'data-key-outlives-session',
    what: 'the data key of a deleted session stays in the store',
    file: VAULT,
    find: 'batch.dataKeys.set(owner, undefined);',
    replace: '',
  },
  {
    name: 'draft-not-encrypted',
    what: 'the draft of an answer is stored as plain text',
    file: 'src/journal/stored-drafts.ts',
    find: 'sealed ?? plain.text',
    replace: 'plain.text',
  },
  {
    name: 'removed-history-takes-data-key',
    what: 'the data key of a session goes when the removed part of its log is erased',
    file: JOURNAL,
    find: `      if (this.nameOf(key) !== undefined) continue;
      this.#blobs.removeAll(key, batch, false);`,
    replace: `      this.#vault?.remove(key, batch);
      if (this.nameOf(key) !== undefined) continue;
      this.#blobs.removeAll(key, batch, false);`,
  },
];
