/**
 * Media in the texts of the journal. A long base64 text, such as the data of an image or of a PDF, is stored once for
 * each session. The stored text has a reference in its place.
 *
 * A reference is a JSON string whose first letter is escaped. `JSON.stringify` never escapes a letter, so no text of a
 * user is mistaken for a reference. A reader that needs no media can parse the text as it is stored.
 *
 *     "data":"\u006dedia:<session key>/<SHA-256 of the bytes, hex>"
 *
 * The search for `"data":"` needs no parser. Outside a string literal these characters are a key and the start of its
 * value. Inside a string literal their quotes would be escaped.
 */
import { createHash } from 'node:crypto';
import { MEDIA_CHARACTERS_MIN } from '../../base/bounds.ts';
import { StoreCorruptError } from '../../base/errors.ts';
import type { SessionKey } from '../position.ts';

const FIELD = '"data":"';
const REFERENCE = `${FIELD}\\u006dedia:`;
const REFERENCES = /"data":"\\u006dedia:(\d{1,10}\/[0-9a-f]{64})"/g;
const ADDRESS = /^(\d{1,10})\/([0-9a-f]{64})$/;
/** The beginning of a base64 text. Most other texts do not match it, so they need not be decoded. */
const BEGINNING = /^[A-Za-z0-9+/]{64}/;

/** The address of a medium: the session that has it, and its content. */
export function mediumAddress(owner: SessionKey, bytes: Uint8Array): string {
  return `${owner}/${createHash('sha256').update(bytes).digest('hex')}`;
}

/** The prefix of the addresses of a session's media. No address of another session begins with it. */
export function mediaPrefix(owner: SessionKey): string {
  return `${owner}/`;
}

/** The session that has the medium of an address; `undefined` if the text is not an address. */
export function ownerOfMedium(address: string): SessionKey | undefined {
  const [, owner] = ADDRESS.exec(address) ?? [];
  return owner === undefined ? undefined : Number(owner);
}

/** True if the address was computed from these bytes. */
export function isMediumOf(address: string, bytes: Uint8Array): boolean {
  const owner = ownerOfMedium(address);
  return owner !== undefined && mediumAddress(owner, bytes) === address;
}

/** The error for a text whose medium cannot be used. `isThere`: the medium is damaged, not missing. */
export function corruptMedium(address: string, isThere: boolean): StoreCorruptError {
  const reason = `the medium ${address} is ${isThere ? 'damaged' : 'missing'}`;
  return new StoreCorruptError(`the journal cannot be read: ${reason}`, { data: { medium: address, reason } });
}

/**
 * The JSON text without its long base64 texts, each of which is handed to `put`. Once its media are filled in again,
 * the text parses to the same value as `json`. Without an `owner` the media stay in the text. Base64 that is not
 * canonical stays too, because encoding its bytes would give another text.
 */
export function withoutMedia(
  json: string,
  owner: SessionKey | undefined,
  put: (address: string, bytes: Buffer) => void,
): string {
  // A JSON text from another writer may contain what looks like a reference. Writing the text again with
  // `JSON.stringify` removes the escape.
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

/** The stored text with other addresses of its media. */
export function withMovedMedia(stored: string, moved: (address: string) => string): string {
  if (!stored.includes(REFERENCE)) return stored;
  return stored.replace(REFERENCES, (_reference, address: string) => `${REFERENCE}${moved(address)}"`);
}

/** The address of the same medium for another session. Throws an `Error` for a text that is not an address. */
export function movedAddress(address: string, owner: SessionKey): string {
  const [, , hash] = ADDRESS.exec(address) ?? [];
  if (hash === undefined) throw new Error(`${JSON.stringify(address)} is not the address of a medium`);
  return `${owner}/${hash}`;
}

function bytesOf(base64: string): Buffer | undefined {
  if (base64.length % 4 !== 0 || !BEGINNING.test(base64)) return undefined;
  const bytes = Buffer.from(base64, 'base64');
  return bytes.toString('base64') === base64 ? bytes : undefined;
}
