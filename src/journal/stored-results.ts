/**
 * The whole texts of shortened results in the log of a cluster. They are blobs of their session, at the addresses of
 * `rows/result-address.ts`, so they are copied, compacted and part of snapshots like all blobs. A store without a
 * cluster keeps none: there the files of the result store are enough (`actors/result-store.ts`).
 *
 * Owns: which damaged texts were reported. Does not own: the texts. Those that are not durable yet are in the batches of
 * the gate (`lmdb/commit-gate.ts`), the others in the engine.
 *
 * Invariants:
 *  RT1 a text that `keep` has taken is in the batch of every later entry, or in an earlier batch. So no durable entry
 *      names a text that the log does not have, unless RT2 removed the text;
 *  RT2 of each session at most `LOGGED_RESULTS_MAX` texts of together `LOGGED_RESULTS_BYTES_MAX` bytes are kept: the
 *      newest. A text makes room in the batch that puts it;
 *  RT3 the texts of a removed session are removed in the batch that removes the session. If forks still need them, they
 *      are removed in the batch that ends its erasure, and can be read until the last of these forks is removed;
 *  RT4 a text that cannot be read, or has another hash than its address, is reported to the engine as damage, once.
 *      If it is still damaged later, the copy was built again in vain, and the text counts as missing.
 */
import { DAMAGED_ADDRESSES_BYTES_MAX, LOGGED_RESULTS_BYTES_MAX, LOGGED_RESULTS_MAX } from '../base/bounds.ts';
import { StoreCorruptError } from '../base/errors.ts';
import type { Vault } from './encryption/vault.ts';
import type { Engine, WriteBatch } from './engine.ts';
import type { CommitGate } from './lmdb/commit-gate.ts';
import { located } from './log-reader.ts';
import type { SessionKey } from './position.ts';
import { mediaPrefix } from './rows/media-text.ts';
import { RecentValues } from './rows/recent-values.ts';
import { parseResultAddress, type ResultAddress, resultAddress, resultHash } from './rows/result-address.ts';
import { decodeBlob, encodeBlob } from './rows/stored-text.ts';

/** See the head of the file. All calls see data that is not durable yet. */
export interface ResultTexts {
  /**
   * Keeps the text of a session's result under its hash, durable with the next flush. A text that alone exceeds the
   * bound is not kept. Returns false if the store refuses writes now.
   */
  keep(owner: SessionKey, hash: string, text: string): boolean;
  /**
   * The text with this hash; undefined if it is not kept, or no session needs the owner's texts any more. Throws
   * `StoreCorruptError` (RT4).
   */
  find(owner: SessionKey, hash: string): string | undefined;
}

/** The parts of its journal that the texts need. */
export interface StoredResultsParts {
  readonly engine: Engine;
  readonly gate: CommitGate<WriteBatch>;
  /** Missing: the store is not encrypted. */
  readonly vault: Vault | undefined;
  /** True if the session exists, or if a fork needs its results. */
  readonly isNeeded: (owner: SessionKey) => boolean;
  /** Counts bytes that were added to the open batch. */
  readonly grew: (bytes: number) => void;
}

/** See the head of the file. */
export class StoredResults implements ResultTexts {
  readonly #parts: StoredResultsParts;
  readonly #reported = new RecentValues<string, string>(DAMAGED_ADDRESSES_BYTES_MAX);

  constructor(parts: StoredResultsParts) {
    this.#parts = parts;
  }

  keep(owner: SessionKey, hash: string, text: string): boolean {
    const { gate, vault, grew } = this.#parts;
    if (gate.isRefused) return false;
    const bytes = Buffer.byteLength(text);
    const kept = this.#kept(owner);
    if (bytes > LOGGED_RESULTS_BYTES_MAX || kept.some((each) => each.hash === hash)) return true;
    const number = (kept.at(-1)?.number ?? 0) + 1;
    const batch = gate.open;
    let left = kept.reduce((sum, each) => sum + each.bytes, bytes);
    for (const [index, each] of kept.entries()) {
      if (kept.length - index < LOGGED_RESULTS_MAX && left <= LOGGED_RESULTS_BYTES_MAX) break;
      batch.blobs.set(resultAddress(each), undefined);
      left -= each.bytes;
    }
    const address = resultAddress({ owner, number, bytes, hash });
    batch.blobs.set(address, vault === undefined ? text : vault.sealBytes(address, encodeBlob(text)));
    grew(bytes);
    return true;
  }

  find(owner: SessionKey, hash: string): string | undefined {
    const { isNeeded, gate, vault, engine } = this.#parts;
    const found = isNeeded(owner) ? this.#kept(owner).find((each) => each.hash === hash) : undefined;
    if (found === undefined) return undefined;
    const address = resultAddress(found);
    const pending = gate.find(({ blobs }) => blobs.get(address));
    if (typeof pending === 'string') return pending;
    try {
      return located(engine, () => {
        const stored = pending ?? engine.storedBlob(address);
        // The vault may read its key from the engine, and bytes of the engine are valid until its next call.
        const plain = stored && (vault === undefined ? stored : vault.bytes(address, Buffer.from(stored)));
        const text = plain && decodeBlob(plain);
        // The seal of an encrypted text is bound to its address.
        if (text !== undefined && (vault !== undefined || resultHash(text) === hash)) return text;
        throw corruptResult(address);
      });
    } catch (error) {
      if (!(error instanceof StoreCorruptError)) throw error;
      if (this.#reported.get(address) !== undefined) return undefined;
      this.#reported.add(address, address);
      engine.foundDamaged?.(error);
      throw error;
    }
  }

  /** The texts of a session, oldest first. */
  #kept(owner: SessionKey): readonly ResultAddress[] {
    const { engine, gate } = this.#parts;
    const addresses = new Set(engine.blobsOf(owner));
    gate.each(({ blobs }) => {
      for (const [address, value] of blobs) {
        if (value === undefined) addresses.delete(address);
        else if (address.startsWith(mediaPrefix(owner))) addresses.add(address);
      }
    });
    const kept = Array.from(addresses, parseResultAddress).filter((each) => each !== undefined);
    return kept.sort((a, b) => a.number - b.number);
  }
}

function corruptResult(address: string): StoreCorruptError {
  const reason = `the whole text ${address} of a result is damaged`;
  return new StoreCorruptError(`the journal cannot be read: ${reason}`, { data: { blob: address, reason } });
}
