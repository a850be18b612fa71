/**
 * The drafts of a journal: for each session at most one text. A new draft replaces the earlier one, and none is in
 * the log. The journal does not know their meaning.
 *
 * Owns: nothing. Drafts that are not durable yet are in the batches of the gate, the others in the engine.
 *
 * Invariants:
 *  T1 `put` writes into the open batch. The next transition is in the same batch. So a draft is replaced or removed
 *     together with the transition that made it obsolete. `put` never closes a batch and starts no flush;
 *  T2 a session's draft is removed with the session, in the same batch.
 */
import type { Engine, WriteBatch } from './engine.ts';
import type { CommitGate } from './lmdb/commit-gate.ts';
import type { SessionKey } from './position.ts';
import { storedJson } from './rows/stored-text.ts';

/** The drafts of the sessions; see the head of the file. */
export interface Drafts {
  /** Replaces the draft of a session; `undefined` removes it. `json`: a JSON text. Durable with the next flush. */
  put(key: SessionKey, json: string | undefined): void;
  /** The draft of a session; undefined if it has none. */
  get(key: SessionKey): string | undefined;
  /** The sessions that have a draft. */
  keys(): ReadonlySet<SessionKey>;
}

/** See the head of the file. */
export class StoredDrafts implements Drafts {
  readonly #engine: Engine;
  readonly #gate: CommitGate<WriteBatch>;
  readonly #isThere: (key: SessionKey) => boolean;

  /** `isThere`: true for a session that was not removed. */
  constructor(engine: Engine, gate: CommitGate<WriteBatch>, isThere: (key: SessionKey) => boolean) {
    this.#engine = engine;
    this.#gate = gate;
    this.#isThere = isThere;
  }

  put(key: SessionKey, json: string | undefined): void {
    if (this.#gate.isRefused || !this.#isThere(key)) return;
    const batch = this.#gate.open;
    if (json === undefined) {
      batch.drafts.set(key, undefined);
      return;
    }
    const { text, bytes } = storedJson(json);
    batch.drafts.set(key, text);
    // If the batch is full now, the next transition closes it (T1).
    batch.bytes += bytes;
  }

  get(key: SessionKey): string | undefined {
    if (!this.#isThere(key)) return undefined;
    const pending = this.#gate.find(({ drafts }) => (drafts.has(key) ? { text: drafts.get(key) } : undefined));
    return pending === undefined ? this.#engine.draft(key) : pending.text;
  }

  keys(): ReadonlySet<SessionKey> {
    const keys = new Set(this.#engine.draftKeys());
    this.#gate.each(({ drafts }) => {
      for (const [key, text] of drafts) {
        if (text === undefined) keys.delete(key);
        else keys.add(key);
      }
    });
    return keys;
  }
}
