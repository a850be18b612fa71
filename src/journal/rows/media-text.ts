/**
 * Media in the texts of the journal. A long base64 text, such as the data of an image or of a PDF, is stored once for
 * each session, by the content of its bytes. In its place the stored text has a reference.
 *
 * A reference is a JSON string whose first letter is escaped, as `JSON.stringify` never writes it. So no text of a user
 * can be taken for one, and a reader that needs no media can parse the text as it is stored.
 *
 *     "data":"\u006dedia:<session key>/<SHA-256 of the bytes, hex>"
 *
 * The search for `"data":"` needs no parser: outside a string literal these characters are a key and the start of its
 * value, and inside one their quotes would be escaped.
 */
import { createHash } from 'node:crypto';
import { MEDIA_CHARACTERS_MIN } from '../../base/bounds.ts';
import { StoreCorruptError } from '../../base/errors.ts';
import type { SessionKey } from '../position.ts';

const FIELD = '"data":"';
const REFERENCE = `${FIELD}\\u006dedia:`;
const REFERENCES = /"data":"\\u006dedia:(\d{1,10}\/[0-9a-f]{64})"/g;
const ADDRESS = /^(\d{1,10})\/([0-9a-f]{64})$/;
/** The beginning of most texts that are not base64 shows it. */
const BEGINNING = /^[A-Za-z0-9+/]{64}/;

/** The address of a medium: the session that has it, and its content. */
export function mediumAddress(owner: SessionKey, bytes: Uint8Array): string {
  return `${owner}/${createHash('sha256').update(bytes).digest('hex')}`;
}

/** The beginning of the addresses of a session's media. No address of another session begins with it. */
export function mediaPrefix(owner: SessionKey): string {
  return `${owner}/`;
}

/** The session that has the medium of an address; `undefined` if the text is not an address. */
export function ownerOfMedium(address: string): SessionKey | undefined {
  const [, owner] = ADDRESS.exec(address) ?? [];
  return owner === undefined ? undefined : Number(owner);
}

/** True if these are the bytes that the address was made of. */
export function isMediumOf(address: string, bytes: Uint8Array): boolean {
  const owner = ownerOfMedium(address);
  return owner !== undefined && mediumAddress(owner, bytes) === address;
}

/** The error for a text whose medium is not what was stored. `isThere`: it is damaged, not missing. */
export function corruptMedium(address: string, isThere: boolean): StoreCorruptError {
  const reason = `the medium ${address} is ${isThere ? 'damaged' : 'missing'}`;
  return new StoreCorruptError(`the journal cannot be read: ${reason}`, { data: { medium: address, reason } });
}

/**
 * The JSON text without its long base64 texts, each of which is handed to `put`. The value parsed from the filled text
 * is that of `json`. `owner` missing: the media stay in the text. Base64 in another than its canonical form stays, since
 * the bytes would not give it back.
 */
export function withoutMedia(
  json: string,
  owner: SessionKey | undefined,
  put: (address: string, bytes: Buffer) => void,
): string {
  // Written by hand, a text may look like a reference. Written by `JSON.stringify` it does not.
  const text = json.includes(REFERENCE) ? JSON.stringify(JSON.parse(json)) : json;
  if (owner === undefined || text.length < MEDIA_CHARACTERS_MIN) return text;
  const parts: string[] = [];
  let kept = 0;
  for (let at = text.indexOf(FIELD); at !== -1; ) {
    const start = at + FIELD.length;
    const end = text.indexOf('"', start);
    if (end === -1) break;
    const bytes = end - start < MEDIA_CHARACTERS_MIN ? undefined : bytesOf(text.slice(start, end));
    if (bytes !== undefined) {
      const address = mediumAddress(owner, bytes);
      put(address, bytes);
      parts.push(text.slice(kept, at), REFERENCE, address);
      kept = end;
    }
    at = text.indexOf(FIELD, end);
  }
  return kept === 0 ? text : parts.join('') + text.slice(kept);
}

/** The stored text with the base64 of its media, which `find` returns for an address. Throws what `find` throws. */
export function withMedia(stored: string, find: (address: string) => string): string {
  if (!stored.includes(REFERENCE)) return stored;
  return stored.replace(REFERENCES, (_reference, address: string) => `${FIELD}${find(address)}"`);
}

function bytesOf(base64: string): Buffer | undefined {
  if (base64.length % 4 !== 0 || !BEGINNING.test(base64)) return undefined;
  const bytes = Buffer.from(base64, 'base64');
  return bytes.toString('base64') === base64 ? bytes : undefined;
}
