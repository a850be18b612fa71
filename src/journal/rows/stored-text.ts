/** The stored forms of texts. A text that UTF-8 cannot carry gets another form, instead of being changed silently. */
import { createHash } from 'node:crypto';
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib';
import { BLOB_PACKED_BYTES_MAX, BLOB_PACKED_BYTES_MIN } from '../../base/bounds.ts';
import type { SessionKey } from '../position.ts';
import { parseResultAddress, resultHash } from './result-address.ts';

const LONE_SURROGATE: RegExp = /\p{Surrogate}/u;
const LONE_SURROGATES: RegExp = /\p{Surrogate}/gu;
const FORM_UTF8 = 0;
const FORM_UTF16 = 1;
const FORM_PACKED_UTF8 = 2;
const PARAMETERS = { [constants.BROTLI_PARAM_QUALITY]: 1 };

/** A JSON text that UTF-8 carries unchanged, and its length. */
export interface StoredText {
  readonly text: string;
  /** UTF-8 bytes of `text`. */
  readonly bytes: number;
}

/**
 * `json` as it is stored. Lone surrogates, which a JSON text can only have inside its strings, become `\uXXXX` escapes:
 * the value parsed from the text is the same. `JSON.stringify` escapes them itself, but a text joined from parts may
 * contain them.
 */
export function storedJson(json: string): StoredText {
  const bytes = Buffer.byteLength(json);
  // A text with as many bytes as UTF-16 units is ASCII. Nearly all texts are, so they skip the search.
  if (bytes === json.length || !LONE_SURROGATE.test(json)) return { text: json, bytes };
  const text = json.replace(LONE_SURROGATES, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
  return { text, bytes: Buffer.byteLength(text) };
}

/**
 * The bytes of a blob: one byte of form, then the text. The text is UTF-8, compressed where that saves bytes, or
 * UTF-16LE if UTF-8 cannot carry it.
 */
export function encodeBlob(text: string): Buffer {
  const utf16 = LONE_SURROGATE.test(text);
  const body = Buffer.from(text, utf16 ? 'utf16le' : 'utf8');
  if (utf16) return blobOf(FORM_UTF16, body);
  if (body.length < BLOB_PACKED_BYTES_MIN || body.length > BLOB_PACKED_BYTES_MAX) return blobOf(FORM_UTF8, body);
  const packed = brotliCompressSync(body, { params: PARAMETERS });
  return packed.length < body.length ? blobOf(FORM_PACKED_UTF8, packed) : blobOf(FORM_UTF8, body);
}

/** The text that `encodeBlob` received; `undefined` when the bytes have none of its forms. */
export function decodeBlob(bytes: Buffer): string | undefined {
  if (bytes[0] === FORM_UTF8) return bytes.toString('utf8', 1);
  if (bytes[0] === FORM_UTF16) return bytes.toString('utf16le', 1);
  return bytes[0] === FORM_PACKED_UTF8 ? unpackedText(bytes.subarray(1)) : undefined;
}

function blobOf(form: number, body: Buffer): Buffer {
  const bytes = Buffer.allocUnsafeSlow(body.length + 1);
  bytes[0] = form;
  bytes.set(body, 1);
  return bytes;
}

function unpackedText(packed: Buffer): string | undefined {
  try {
    return brotliDecompressSync(packed, { maxOutputLength: BLOB_PACKED_BYTES_MAX }).toString('utf8');
  } catch {
    // Like a wrong form, a damaged stream gives no text. The caller reports the damage.
    return undefined;
  }
}

/**
 * Content address of a text: SHA-256 of its UTF-8 bytes (UTF-16LE where UTF-8 cannot carry it), lower-case hex. With an
 * owner, the owner's key and a slash precede the hash, as for media. The prefix finds the blobs of a removed session.
 */
export function blobAddress(text: string, owner?: SessionKey): string {
  const hash = createHash('sha256');
  if (LONE_SURROGATE.test(text)) hash.update(Buffer.from(text, 'utf16le'));
  else hash.update(text, 'utf8');
  const digest = hash.digest('hex');
  return owner === undefined ? digest : `${owner}/${digest}`;
}

/**
 * The first character of an address made by `placeAddress`. Such an address contains the stored address of a blob in an
 * encrypted store, in place of the hash of its contents.
 */
const PLACE_MARK = '=';

/** The address of a blob for readers. The encrypted store has the blob under `storedAddress`. */
export function placeAddress(storedAddress: string): string {
  return `${PLACE_MARK}${storedAddress}`;
}

/** The stored address in an address made by `placeAddress`; undefined for an address that is a hash. */
export function placeOf(address: string): string | undefined {
  return address.startsWith(PLACE_MARK) ? address.slice(PLACE_MARK.length) : undefined;
}

/**
 * True if the address was made from this text. Always true for an address made by `placeAddress`: its text was checked
 * when it was decrypted.
 */
export function isBlobOf(address: string, text: string): boolean {
  if (placeOf(address) !== undefined) return true;
  const result = parseResultAddress(address);
  if (result !== undefined) return resultHash(text) === result.hash;
  const end = address.indexOf('/');
  return address.slice(end + 1) === blobAddress(text);
}
