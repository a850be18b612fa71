/**
 * Encrypted stores (I36 of `invariants.ts`). In two seeds of ten the store is encrypted. When a process has ended, its
 * stores have no plain value, and no data key of a deleted session, unless a fork shared the session's results.
 *
 * Owns: nothing. Does not own: the stores and the disk of results, which outlive processes.
 */
import { isSealed } from '../../../journal/encryption/data-key.ts';
import type { StoreEncryption } from '../../../journal/encryption/master-keys.ts';
import type { MemoryStore } from '../../../journal/memory-store.ts';
import { dataStart } from '../../../journal/rows/row-codec.ts';
import type { ErasureParts } from './erasures.ts';
import { drawnFor } from './life-actions.ts';

const STREAM = 0x5ea1_ed36;
const SHARE = 0.2;
const KEY_BYTES = 32;
/** Each plain entry and each plain head has one of these texts. */
const PLAIN: readonly string[] = ['{"v":', '"at":', '"summary":'];

/** The keys of a run's store; undefined: it is not encrypted. */
export function encryptionOf(seed: number): StoreEncryption | undefined {
  if (drawnFor(seed, STREAM, SHARE) === undefined) return undefined;
  return {
    key: new Uint8Array(KEY_BYTES).fill(seed % 251),
    previousKeys: [],
    storeId: `00000000-0000-4000-8000-${String(seed).padStart(12, '0').slice(-12)}`,
    isRotating: false,
    dataKeySeed: `${seed}`,
  };
}

/** Checks the stores of a run that is encrypted. */
export function checkSealed({ stores, results, ledger }: ErasureParts): void {
  for (const [shard, store] of stores.entries()) {
    for (const what of plainValues(store)) ledger.violate('failed', `shard ${shard}: ${what} is not encrypted (I36)`);
    for (const key of store.dataKeys.keys()) {
      // The key 0 belongs to no session: it encrypts the audit log.
      const isKept = key === 0 || store.names.has(key) || (store.erasures.get(key)?.heirs ?? []).length > 0;
      if (!isKept) ledger.violate('failed', `shard ${shard}: the deleted session ${key} has a data key (I36)`);
    }
  }
  for (const path of results.plainPaths()) ledger.violate('failed', `the result ${path} is not encrypted (I36)`);
}

function* plainValues({ rows, heads, drafts, blobs, media, audit }: MemoryStore): Iterable<string> {
  for (const [number, bytes] of rows) {
    const data = bytes.subarray(dataStart(bytes));
    // About one encrypted entry in a billion has one of these texts by chance. So a plain row must have two of them.
    if (data.length > 0 && PLAIN.filter((text) => data.includes(text)).length > 1) yield `row ${number}`;
  }
  for (const [key, { data }] of heads) if (PLAIN.some((text) => data.includes(text))) yield `the head of ${key}`;
  for (const [key, draft] of drafts) if (!isSealed(Buffer.from(draft, 'base64'))) yield `the draft of ${key}`;
  for (const [number, row] of audit) if (!isSealed(Buffer.from(row, 'base64'))) yield `row ${number} of the audit log`;
  for (const [address, blob] of blobs) if (typeof blob === 'string' || !isSealed(blob)) yield `blob ${address}`;
  for (const own of media.values()) {
    for (const [address, bytes] of own) if (!isSealed(bytes)) yield `medium ${address}`;
  }
}
