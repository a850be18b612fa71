/**
 * The media of a journal's texts: taken out of a text before it is stored, and filled in when it is read. The form of a
 * reference is in `rows/media-text.ts`.
 *
 * Owns: base64 of media that were read recently. Does not own: the media themselves. Those that are not durable yet are
 * in the batches of the gate (`lmdb/commit-gate.ts`), the others in the engine.
 *
 * Invariants:
 *  D1 when a text is put into a batch, each of its media is in the same batch, in an earlier batch or in the engine.
 *     Batches become durable in order, and all batches after a refused batch are dropped. So no durable text lacks a
 *     medium;
 *  D2 a medium belongs to one session and is removed with it, in the same batch. So a text can be filled until
 *     its session is removed, and a removed session leaves no media.
 */
import { MEDIA_CACHE_BYTES_MAX } from '../base/bounds.ts';
import type { Vault } from './encryption/vault.ts';
import type { Engine, WriteBatch } from './engine.ts';
import type { CommitGate } from './lmdb/commit-gate.ts';
import { located } from './log-reader.ts';
import type { SessionKey } from './position.ts';
import { corruptMedium, isMediumOf, mediaPrefix, withMedia, withoutMedia } from './rows/media-text.ts';
import { RecentValues } from './rows/recent-values.ts';

/** See the head of the file. */
export class StoredMedia {
  readonly #engine: Engine;
  readonly #gate: CommitGate<WriteBatch>;
  readonly #vault: Vault | undefined;
  readonly #recent = new RecentValues<string, string>(MEDIA_CACHE_BYTES_MAX);

  /** `vault`: missing if the store is not encrypted. */
  constructor(engine: Engine, gate: CommitGate<WriteBatch>, vault?: Vault) {
    this.#engine = engine;
    this.#gate = gate;
    this.#vault = vault;
  }

  /**
   * Puts the media of a text into the open batch. Returns the text with references in place of its media, and the
   * number of plain bytes that were put. The caller puts the text into the same batch (D1). `owner` missing: the text
   * keeps its media.
   */
  take(text: string, owner: SessionKey | undefined): { readonly text: string; readonly bytes: number } {
    let gained = 0;
    const stored = withoutMedia(text, owner, (address, bytes) => {
      if (this.#gate.isRefused) return;
      const place = this.#vault === undefined ? address : this.#vault.newAddress(address);
      if (this.#has(place)) return;
      this.#gate.open.media.set(place, this.#vault === undefined ? bytes : this.#vault.sealBytes(place, bytes));
      gained += bytes.length;
    });
    return { text: stored, bytes: gained };
  }

  /** A stored text with its media. Throws `StoreCorruptError` for a medium that is missing or damaged. */
  filled(stored: string): string {
    return withMedia(stored, (address) => {
      const known = this.#recent.get(address);
      if (known !== undefined) return known;
      const base64 = this.#read(address).toString('base64');
      this.#recent.add(address, base64);
      return base64;
    });
  }

  /** Adds to `batch` the removal of all media of a session, including media that are not durable yet (D2). */
  removeAll(key: SessionKey, batch: WriteBatch): void {
    const addresses = new Set(this.#engine.mediaOf(key));
    this.#gate.each(({ media }) => {
      for (const address of media.keys()) if (address.startsWith(mediaPrefix(key))) addresses.add(address);
    });
    for (const address of addresses) batch.media.set(address, undefined);
  }

  #has(address: string): boolean {
    const pending = this.#pending(address);
    return pending === undefined ? this.#engine.hasMedium(address) : pending.bytes !== undefined;
  }

  #pending(address: string): { readonly bytes: Buffer | undefined } | undefined {
    return this.#gate.find(({ media }) => (media.has(address) ? { bytes: media.get(address) } : undefined));
  }

  #read(address: string): Buffer {
    const vault = this.#vault;
    const place = vault === undefined ? address : vault.storedAddress(address);
    const pending = place === undefined ? undefined : this.#pending(place);
    return located(this.#engine, () => {
      const stored = pending === undefined && place !== undefined ? this.#engine.medium(place) : pending?.bytes;
      const bytes =
        vault === undefined || place === undefined || stored === undefined ? stored : vault.bytes(place, stored);
      if (pending?.bytes !== undefined && bytes !== undefined) return bytes;
      if (bytes === undefined || !isMediumOf(address, bytes)) throw corruptMedium(address, bytes !== undefined);
      return bytes;
    });
  }
}
