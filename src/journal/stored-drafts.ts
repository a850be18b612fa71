/**
 * The drafts of a journal: for each session at most one text. A new draft replaces the earlier one. Drafts are not in
 * the log. The journal does not know the meaning of a draft.
 *
 * Owns: nothing. Drafts that are not durable yet are in the batches of the gate (`lmdb/commit-gate.ts`), the others in
 * the engine.
 *
 * Invariants:
 *  T1 `put` writes into the open batch. The next transition is in the same batch. So a draft is replaced or removed
 *     together with the transition that made it obsolete. `put` never closes a batch and starts no flush;
 *  T2 a session's draft is removed with the session, in the same batch.
 */
import type { Vault } from './encryption/vault.ts';
import type { Engine, WriteBatch } from './engine.ts';
import type { CommitGate } from './lmdb/commit-gate.ts';
import type { SessionKey } from './position.ts';
import { storedJson } from './rows/stored-text.ts';

/** The drafts of the sessions; see the head of the file. */
export interface Drafts {
  /** Replaces the draft of a session; `undefined` removes it. `json`: a JSON text. Durable with the next flush. */
  put(key: SessionKey, json: string | undefined): void;
  /** The draft of a session; undefined if it has none. Throws `StoreCorruptError` if it cannot be decrypted. */
  get(key: SessionKey): string | undefined;
  /** The sessions that have a draft. */
  keys(): ReadonlySet<SessionKey>;
}

/** The parts of its journal that the drafts need. */
export interface StoredDraftsParts {
  readonly engine: Engine;
  readonly gate: CommitGate<WriteBatch>;
  /** Missing: the store is not encrypted. */
  readonly vault: Vault | undefined;
  /** Undefined for a session that was removed. */
  readonly nameOf: (key: SessionKey) => string | undefined;
}

/** See the head of the file. */
export class StoredDrafts implements Drafts {
  readonly #parts: StoredDraftsParts;

  constructor(parts: StoredDraftsParts) {
    this.#parts = parts;
  }

  put(key: SessionKey, json: string | undefined): void {
    const { gate, vault, nameOf } = this.#parts;
    if (gate.isRefused || nameOf(key) === undefined) return;
    const batch = gate.open;
    if (json === undefined) {
      batch.drafts.set(key, undefined);
      return;
    }
    const plain = storedJson(json);
    const sealed = vault?.sealDraft(key, plain.text);
    batch.drafts.set(key, sealed ?? plain.text);
    // If the batch is full now, the next transition closes it (T1).
    batch.bytes += sealed?.length ?? plain.bytes;
  }

  get(key: SessionKey): string | undefined {
    const { engine, gate, vault, nameOf } = this.#parts;
    if (nameOf(key) === undefined) return undefined;
    const pending = gate.find(({ drafts }) => (drafts.has(key) ? { text: drafts.get(key) } : undefined));
    const stored = pending === undefined ? engine.draft(key) : pending.text;
    return stored === undefined || vault === undefined ? stored : vault.draft(key, stored);
  }

  keys(): ReadonlySet<SessionKey> {
    const keys = new Set(this.#parts.engine.draftKeys());
    this.#parts.gate.each(({ drafts }) => {
      for (const [key, text] of drafts) {
        if (text === undefined) keys.delete(key);
        else keys.add(key);
      }
    });
    return keys;
  }
}
