/**
 * A storage that encrypts the segments and the state of an index, and keeps them in another storage. A segment is a
 * salt of 32 bytes, and pages. Each page has up to `SEGMENT_PAGE_BYTES` bytes, encrypted with AES-256-GCM, and a tag.
 *
 * Owns: the key of the index. Does not own: the files.
 *
 * Invariants:
 *  E1 no nonce is used twice with one key. Each segment and each saved state is encrypted with a separate key, derived
 *     from the key of the index and a random salt. The nonce is the number of the page. Bytes never change once they
 *     are written;
 *  E2 a state or a segment that cannot be decrypted counts as missing or damaged, and the index is built again from the
 *     logs. So the key may change from one open to the next.
 */
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';
import { SEGMENT_PAGE_BYTES } from '../base/bounds.ts';
import { DamagedSegmentError, type SegmentBytes } from './segment-file.ts';
import type { SegmentEntry, SegmentStore } from './segment-store.ts';

const CIPHER = 'aes-256-gcm';
const SALT_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const SEALED_PAGE_BYTES: number = SEGMENT_PAGE_BYTES + TAG_BYTES;

/** See the head of the file. */
export class SealedSegmentStore implements SegmentStore {
  readonly #store: SegmentStore;
  readonly #key: Uint8Array;

  /** `key`: 32 bytes. */
  constructor(store: SegmentStore, key: Uint8Array) {
    this.#store = store;
    this.#key = key;
  }

  put(chunks: readonly Buffer[]): SegmentEntry {
    const { name } = this.#store.put(this.#sealed(Buffer.concat(chunks)));
    return { name, bytes: this.open(name) };
  }

  open(name: string): SegmentBytes {
    const bytes = this.#store.open(name);
    if (bytes.length < SALT_BYTES) throw new DamagedSegmentError(`the segment ${name} is too short`);
    return new OpenedBytes(bytes, this.#keyOf(bytes.read(0, SALT_BYTES)));
  }

  remove(name: string): void {
    this.#store.remove(name);
  }

  saveState(text: string): void {
    this.#store.saveState(Buffer.concat(this.#sealed(Buffer.from(text))).toString('base64'));
  }

  loadState(): string | undefined {
    const stored = this.#store.loadState();
    if (stored === undefined) return undefined;
    const sealed = Buffer.from(stored, 'base64');
    if (sealed.length < SALT_BYTES) return undefined;
    const source = { length: sealed.length, read: (at: number, length: number) => sealed.subarray(at, at + length) };
    const opened = new OpenedBytes(source, this.#keyOf(sealed.subarray(0, SALT_BYTES)));
    try {
      return opened.read(0, opened.length).toString();
    } catch (error) {
      if (error instanceof DamagedSegmentError) return undefined;
      throw error;
    }
  }

  keepOnly(names: ReadonlySet<string>): void {
    this.#store.keepOnly(names);
  }

  close(): void {
    this.#store.close();
  }

  #sealed(plain: Buffer): readonly Buffer[] {
    const salt = randomBytes(SALT_BYTES);
    const key = this.#keyOf(salt);
    const sealed: Buffer[] = [salt];
    const pages = Math.max(1, Math.ceil(plain.length / SEGMENT_PAGE_BYTES));
    for (let page = 0; page < pages; page += 1) {
      const cipher = createCipheriv(CIPHER, key, nonceOf(page));
      cipher.setAAD(placeOf(page, pages));
      const from = page * SEGMENT_PAGE_BYTES;
      sealed.push(cipher.update(plain.subarray(from, from + SEGMENT_PAGE_BYTES)), cipher.final(), cipher.getAuthTag());
    }
    return sealed;
  }

  #keyOf(salt: Buffer): Buffer {
    return createHmac('sha256', this.#key).update(salt).digest();
  }
}

/** The plain bytes of a segment, decrypted a page at a time. */
class OpenedBytes implements SegmentBytes {
  readonly length: number;
  readonly #source: SegmentBytes;
  readonly #key: Buffer;
  readonly #pages: number;

  constructor(source: SegmentBytes, key: Buffer) {
    this.#source = source;
    this.#key = key;
    this.#pages = Math.ceil((source.length - SALT_BYTES) / SEALED_PAGE_BYTES);
    this.length = Math.max(0, source.length - SALT_BYTES - this.#pages * TAG_BYTES);
  }

  read(at: number, length: number): Buffer {
    if (at < 0 || at + length > this.length) throw new DamagedSegmentError('the segment ends early');
    const first = Math.floor(at / SEGMENT_PAGE_BYTES);
    const pages: Buffer[] = [];
    for (let page = first; page * SEGMENT_PAGE_BYTES < at + length || page === first; page += 1) {
      pages.push(this.#page(page));
    }
    const from = at - first * SEGMENT_PAGE_BYTES;
    // The result is a copy, because callers may keep a part of it.
    return Buffer.from(Buffer.concat(pages).subarray(from, from + length));
  }

  #page(page: number): Buffer {
    const from = SALT_BYTES + page * SEALED_PAGE_BYTES;
    const sealed = this.#source.read(from, Math.min(SEALED_PAGE_BYTES, this.#source.length - from));
    if (sealed.length < TAG_BYTES) throw new DamagedSegmentError('the segment ends early');
    const decipher = createDecipheriv(CIPHER, this.#key, nonceOf(page));
    decipher.setAAD(placeOf(page, this.#pages));
    decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
    const plain = decipher.update(sealed.subarray(0, -TAG_BYTES));
    try {
      decipher.final();
    } catch (error) {
      throw new DamagedSegmentError('a page cannot be decrypted', { cause: error });
    }
    return plain;
  }
}

function nonceOf(page: number): Buffer {
  const nonce = Buffer.alloc(NONCE_BYTES);
  nonce.writeUInt32BE(page, NONCE_BYTES - 4);
  return nonce;
}

/** Binds a page to its number and to the number of pages. So a segment that was cut short cannot be decrypted. */
function placeOf(page: number, pages: number): Buffer {
  return Buffer.from(`${page} ${pages}`);
}
