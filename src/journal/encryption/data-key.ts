/**
 * A data key, and the values that it seals: AES-256-GCM over a text or bytes.
 *
 *     0  u8   0x71 plain, 0x72 Brotli before encryption
 *     1  12 bytes: the random name of the opening of the journal that sealed the value (D1)
 *    13  u48  number of the value in that opening
 *    19  the encrypted bytes, then the tag of 16 bytes
 *
 * Invariants:
 *  D1 no nonce is used twice with one key. Each opening of a journal draws a random name of 96 bits, and seals with a
 *     key derived from the data key and that name. The nonce is a counter within the opening. A store that is restored
 *     from a copy, or set back by a crash, draws a new name when it is opened. So it uses another derived key. This is
 *     the deterministic construction of NIST SP 800-38D, section 8.2.1. An opening can seal 2^48 values;
 *  D2 a value is bound to its place: a text with the kind of the value, its session and its position. A value that was
 *     changed, or moved to another place, is refused.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  type KeyObject,
  randomBytes,
} from 'node:crypto';
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib';
import { OPENINGS_HELD_MAX, SEALED_PACKED_BYTES_MAX, SEALED_PACKED_BYTES_MIN } from '../../base/bounds.ts';
import { derivedKey } from './master-keys.ts';

const CIPHER = 'aes-256-gcm';
const FORM_PLAIN = 0x71;
const FORM_PACKED = 0x72;
const OPENING_BYTES = 12;
const COUNTER_AT = 1 + OPENING_BYTES;
const COUNTER_BYTES = 6;
const HEADER_BYTES = COUNTER_AT + COUNTER_BYTES;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const PARAMETERS = { [constants.BROTLI_PARAM_QUALITY]: 1, [constants.BROTLI_PARAM_LGWIN]: 18 };
/** Bytes that a held data key counts for: its own, and the keys of a few openings. */
const HELD_BYTES = 1_024;

/** One opening of a journal, or of another writer of sealed values. */
export class Opening {
  readonly name: Buffer = randomBytes(OPENING_BYTES);
  #sealed = 0;

  /** The number of the next value. */
  next(): number {
    this.#sealed += 1;
    return this.#sealed;
  }
}

/** True if the bytes begin as a sealed value does. Blobs that are not sealed begin with another byte. */
export function isSealed(bytes: Uint8Array): boolean {
  return bytes[0] === FORM_PLAIN || bytes[0] === FORM_PACKED;
}

/** See the head of the file. */
export class DataKey {
  /** The number of bytes that `RecentValues` counts for this key. */
  readonly length: number = HELD_BYTES;
  readonly #bytes: Buffer;
  readonly #opened = new Map<string, KeyObject>();
  #own: { readonly opening: Opening; readonly key: KeyObject } | undefined;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** A keyed hash of a text: 64 hexadecimal digits, which cannot be computed without the key. */
  mark(text: string): string {
    return createHmac('sha256', this.#bytes).update('mark ').update(text).digest('hex');
  }

  isSame(other: DataKey): boolean {
    return this.#bytes.equals(other.#bytes);
  }

  /** A key for one file. */
  forFile(name: string): Buffer {
    return derivedKey(this.#bytes, `file ${name}`);
  }

  /** Encrypts a value for a place. `packs`: texts that compress well are compressed first. */
  seal(opening: Opening, place: string, value: string | Uint8Array, packs: boolean): Buffer {
    const packed = packs ? packedText(value) : undefined;
    const form = packed === undefined ? FORM_PLAIN : FORM_PACKED;
    const counter = opening.next();
    const nonce = Buffer.alloc(NONCE_BYTES);
    nonce.writeUIntBE(counter, NONCE_BYTES - COUNTER_BYTES, COUNTER_BYTES);
    const cipher = createCipheriv(CIPHER, this.#keyFor(opening), nonce);
    cipher.setAAD(Buffer.from(`${form} ${place}`));
    const body = typeof value === 'string' && packed === undefined ? cipher.update(value, 'utf8') : undefined;
    const bytes = body ?? cipher.update(packed ?? (value as Uint8Array));
    cipher.final();
    // The buffer is not taken from the pool of small buffers, because the writer thread of the database reads it.
    const sealed = Buffer.allocUnsafeSlow(HEADER_BYTES + bytes.length + TAG_BYTES);
    sealed[0] = form;
    sealed.set(opening.name, 1);
    sealed.writeUIntBE(counter, COUNTER_AT, COUNTER_BYTES);
    sealed.set(bytes, HEADER_BYTES);
    sealed.set(cipher.getAuthTag(), HEADER_BYTES + bytes.length);
    return sealed;
  }

  /** The value that was sealed for a place; undefined when the bytes are no such value. */
  open(place: string, sealed: Uint8Array): Buffer | undefined {
    const bytes = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.length);
    if (!isSealed(bytes) || bytes.length < HEADER_BYTES + TAG_BYTES) return undefined;
    const nonce = Buffer.alloc(NONCE_BYTES);
    bytes.copy(nonce, NONCE_BYTES - COUNTER_BYTES, COUNTER_AT, HEADER_BYTES);
    const decipher = createDecipheriv(CIPHER, this.#openedKey(bytes.subarray(1, COUNTER_AT)), nonce);
    decipher.setAAD(Buffer.from(`${bytes[0]} ${place}`));
    decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
    try {
      const plain = decipher.update(bytes.subarray(HEADER_BYTES, -TAG_BYTES));
      decipher.final();
      return bytes[0] === FORM_PACKED
        ? brotliDecompressSync(plain, { maxOutputLength: SEALED_PACKED_BYTES_MAX })
        : plain;
    } catch {
      // The value was changed, or belongs to another place. The caller reports the damage.
      return undefined;
    }
  }

  #keyFor(opening: Opening): KeyObject {
    if (this.#own?.opening !== opening) this.#own = { opening, key: this.#derived(opening.name) };
    return this.#own.key;
  }

  #openedKey(name: Buffer): KeyObject {
    if (this.#own?.opening.name.equals(name) === true) return this.#own.key;
    const id = name.toString('latin1');
    const known = this.#opened.get(id);
    if (known !== undefined) return known;
    if (this.#opened.size >= OPENINGS_HELD_MAX) this.#opened.clear();
    const key = this.#derived(name);
    this.#opened.set(id, key);
    return key;
  }

  #derived(name: Uint8Array): KeyObject {
    return createSecretKey(derivedKey(this.#bytes, name));
  }
}

/** The compressed text; undefined if compressing saves nothing, or would hold the thread for too long. */
function packedText(value: string | Uint8Array): Buffer | undefined {
  if (value.length < SEALED_PACKED_BYTES_MIN) return undefined;
  const bytes = typeof value === 'string' ? Buffer.from(value) : value;
  if (bytes.length > SEALED_PACKED_BYTES_MAX) return undefined;
  const packed = brotliCompressSync(bytes, { params: PARAMETERS });
  return packed.length < bytes.length ? packed : undefined;
}
