/**
 * The blobs of a journal: texts by the hash of their contents.
 *
 * Owns: nothing. Blobs that are not durable yet are in the batches of the gate (`lmdb/commit-gate.ts`), the others in
 * the engine. The media of blobs are stored apart (`stored-media.ts`).
 */

import type { Vault } from './encryption/vault.ts';
import type { Engine, WriteBatch } from './engine.ts';
import type { CommitGate } from './lmdb/commit-gate.ts';
import { corruptError } from './lmdb/errors.ts';
import { located } from './log-reader.ts';
import type { SessionKey } from './position.ts';
import { mediaPrefix } from './rows/media-text.ts';
import { parseResultAddress } from './rows/result-address.ts';
import { blobAddress, decodeBlob, encodeBlob } from './rows/stored-text.ts';
import type { StoredMedia } from './stored-media.ts';

/** The parts of its journal that the blobs need. */
export interface StoredBlobsParts {
  readonly engine: Engine;
  readonly gate: CommitGate<WriteBatch>;
  readonly media: StoredMedia;
  /** Missing: the store is not encrypted. */
  readonly vault: Vault | undefined;
}

/** See the head of the file. */
export class StoredBlobs {
  readonly #parts: StoredBlobsParts;

  constructor(parts: StoredBlobsParts) {
    this.#parts = parts;
  }

  /** See `Journal.putBlob`. `bytes`: by how much the open batch grew, roughly. */
  put(text: string, owner: SessionKey | undefined): { readonly address: string; readonly bytes: number } {
    const { engine, gate, media, vault } = this.#parts;
    const stored = media.take(text, owner);
    const address = blobAddress(stored.text, owner);
    if (gate.isRefused) return { address, bytes: 0 };
    const place = vault === undefined ? address : vault.newAddress(address);
    const pending = this.#pending(place);
    const isNew = pending === undefined ? !engine.hasBlob(place) : pending.blob === undefined;
    if (!isNew) return { address, bytes: stored.bytes };
    const blob = vault === undefined ? stored.text : vault.sealBytes(place, encodeBlob(stored.text));
    gate.open.blobs.set(place, blob);
    return { address, bytes: stored.bytes + blob.length };
  }

  /** The text of a blob, with its media. Throws `StoreCorruptError`. */
  get(address: string): string | undefined {
    const { engine, media, vault } = this.#parts;
    if (vault !== undefined) {
      const plain = this.#opened(address, vault);
      const text = plain === undefined ? undefined : decodeBlob(plain);
      if (plain !== undefined && text === undefined) {
        throw corruptError(engine.path ?? 'in memory', new Error(`the blob ${address}`));
      }
      return text === undefined ? undefined : media.filled(text);
    }
    const pending = this.#pending(address);
    const stored = pending === undefined ? engine.blob(address) : pending.blob;
    return typeof stored === 'string' ? media.filled(stored) : undefined;
  }

  /** A durable blob in its stored form, decrypted. Throws `StoreCorruptError`. */
  storedForm(address: string): Buffer | undefined {
    const { engine, vault } = this.#parts;
    if (vault === undefined) return engine.storedBlob(address);
    const place = vault.storedAddress(address);
    const sealed = place === undefined ? undefined : engine.storedBlob(place);
    return place === undefined || sealed === undefined ? undefined : located(engine, () => vault.bytes(place, sealed));
  }

  /** Removes a blob in a batch. */
  remove(address: string, batch: WriteBatch): void {
    const { vault } = this.#parts;
    const place = vault === undefined ? address : vault.storedAddress(address);
    if (place !== undefined) batch.blobs.set(place, undefined);
  }

  /**
   * Removes all blobs of a session in a batch, including blobs that are not durable yet. `keepsResults`: the whole texts
   * of its results stay (RT3 of `stored-results.ts`).
   */
  removeAll(key: SessionKey, batch: WriteBatch, keepsResults: boolean): void {
    const { engine, gate } = this.#parts;
    const addresses = new Set(engine.blobsOf(key));
    gate.each(({ blobs }) => {
      for (const address of blobs.keys()) if (address.startsWith(mediaPrefix(key))) addresses.add(address);
    });
    for (const address of addresses) {
      if (!keepsResults || parseResultAddress(address) === undefined) batch.blobs.set(address, undefined);
    }
  }

  #opened(address: string, vault: Vault): Buffer | undefined {
    const place = vault.storedAddress(address);
    if (place === undefined) return undefined;
    const pending = this.#pending(place);
    if (pending === undefined) return this.storedForm(address);
    return typeof pending.blob === 'object' ? vault.bytes(place, pending.blob) : undefined;
  }

  #pending(place: string): { readonly blob: string | Buffer | undefined } | undefined {
    return this.#parts.gate.find(({ blobs }) => (blobs.has(place) ? { blob: blobs.get(place) } : undefined));
  }
}
