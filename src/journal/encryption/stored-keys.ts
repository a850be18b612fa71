/**
 * The wrapped data keys of a journal. They are in its engine or, if they are not durable yet, in the batches of its
 * gate (`lmdb/commit-gate.ts`).
 */
import { type AuditAct, auditText } from '../../base/audit/audit-entry.ts';
import { REWRAPPED_KEYS_MAX } from '../../base/bounds.ts';
import { createBatch, type Engine, type WriteBatch } from '../engine.ts';
import type { CommitGate } from '../lmdb/commit-gate.ts';
import type { SessionKey } from '../position.ts';
import { auditNumber, newestAudit } from '../stored-audit.ts';
import { MasterKeys, type StoreEncryption } from './master-keys.ts';
import { type KeyRecords, unreadable, Vault } from './vault.ts';

/** The parts of its journal that a vault needs. */
export interface VaultParts {
  readonly engine: Engine;
  /** The gate of the journal. It is a function, because the gate is made after the vault. */
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
    // A value that a refused journal seals is never stored, so its key is not stored either (V3).
    put: (key, wrapped) => void (gate().isRefused || gate().open.dataKeys.set(key, wrapped)),
  });
}

/**
 * Wraps all data keys again, by the present master key. A crash may come before all are wrapped again; the next open
 * with both master keys continues. The write of the last keys also has an entry of the audit log. So the shard has one
 * such entry for each replacement of the master key. `at`: epoch ms of the entry. Rejects like `Engine.write`.
 */
export async function rewrapKeys(
  engine: Engine,
  encryption: StoreEncryption,
  { at, shard }: { readonly at: number; readonly shard: number },
): Promise<void> {
  const masters = new MasterKeys(encryption);
  /**
   * The keys that were wrapped again last. They are written only when it is known whether more keys follow, because
   * the last write has the entry of the audit log.
   */
  let batch = createBatch();
  for (let after = -1; ; ) {
    const found = engine.dataKeys(after, REWRAPPED_KEYS_MAX);
    const last = found.at(-1);
    if (last === undefined) break;
    for (const [key, wrapped] of found) {
      if (masters.isCurrent(wrapped)) continue;
      const bytes = masters.unwrap(key, wrapped);
      if (bytes === undefined) throw unreadable(`the data key of session key ${key}`);
      if (batch.dataKeys.size >= REWRAPPED_KEYS_MAX) {
        await engine.write(batch);
        batch = createBatch();
      }
      batch.dataKeys.set(key, masters.wrap(key, bytes));
    }
    [after] = last;
  }
  if (batch.dataKeys.size === 0) return;
  const act: AuditAct = { action: 'keys.rotated', details: { shard } };
  const number = auditNumber(newestAudit(engine), at, shard);
  const records: KeyRecords = {
    find: (key) => batch.dataKeys.get(key) ?? engine.dataKey(key),
    isRemoved: () => false,
    put: (key, wrapped) => void batch.dataKeys.set(key, wrapped),
  };
  batch.audit.set(number, new Vault(encryption, records).sealAudit(number, auditText(at, act)));
  await engine.write(batch);
}
