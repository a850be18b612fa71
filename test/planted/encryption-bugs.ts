/** Planted bugs of encryption at rest (I36). */
import type { PlantedBug } from './planted-bug.ts';

const JOURNAL = 'src/journal/engine-journal.ts';
const VAULT = 'src/journal/encryption/vault.ts';
const STORED_KEYS = 'src/journal/encryption/stored-keys.ts';

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
    name: 'data-key-not-pending',
    what: 'a data key that is not durable yet is not found, so another one is made and stored in its place',
    file: STORED_KEYS,
    find: 'return pending === undefined ? engine.dataKey(key) : pending.wrapped;',
    replace: 'return engine.dataKey(key) ?? (pending === undefined || key % 2 === 0 ? undefined : pending.wrapped);',
  },
];
