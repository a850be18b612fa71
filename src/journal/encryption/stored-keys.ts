/** The wrapped data keys of a journal: in the batches of its gate, or in its engine. */
import { REWRAPPED_KEYS_MAX } from '../../base/bounds.ts';
import { createBatch, type Engine, type WriteBatch } from '../engine.ts';
import type { CommitGate } from '../lmdb/commit-gate.ts';
import type { SessionKey } from '../position.ts';
import { MasterKeys, type StoreEncryption } from './master-keys.ts';
import { unreadable, Vault } from './vault.ts';

/** The parts of its journal that a vault needs. */
export interface VaultParts {
  readonly engine: Engine;
  /** The gate of the journal, which is made after its vault. */
  readonly gate: () => CommitGate<WriteBatch>;
  readonly isRemoved: (key: SessionKey) => boolean;
}

/** The vault of a journal; undefined if its store is not encrypted. */
export function vaultOf(
  encryption: StoreEncryption | undefined,
  { engine, gate, isRemoved }: VaultParts,
): Vault | undefined {
  if (encryption === undefined) return undefined;
  return new Vault(encryption, {
    find: (key) => {
      const pending = gate().find(({ dataKeys }) => (dataKeys.has(key) ? { wrapped: dataKeys.get(key) } : undefined));
      return pending === undefined ? engine.dataKey(key) : pending.wrapped;
    },
    isRemoved,
    // A value that a refused journal seals is never stored (V3).
    put: (key, wrapped) => void (gate().isRefused || gate().open.dataKeys.set(key, wrapped)),
  });
}

/**
 * Wraps all data keys by the present master key. A crash leaves some done, and the next open with both keys continues.
 * Rejects like `Engine.write`.
 */
export async function rewrapKeys(engine: Engine, encryption: StoreEncryption): Promise<void> {
  const masters = new MasterKeys(encryption);
  for (let after = -1; ; ) {
    const found = engine.dataKeys(after, REWRAPPED_KEYS_MAX);
    const last = found.at(-1);
    if (last === undefined) return;
    const batch = createBatch();
    for (const [key, wrapped] of found) {
      if (masters.isCurrent(wrapped)) continue;
      const bytes = masters.unwrap(key, wrapped);
      if (bytes === undefined) throw unreadable(`the data key of session key ${key}`);
      batch.dataKeys.set(key, masters.wrap(key, bytes));
    }
    if (batch.dataKeys.size > 0) await engine.write(batch);
    [after] = last;
  }
}
