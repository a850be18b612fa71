/**
 * A small file that is encrypted as a whole, with a key for this file alone (`DataKey.forFile`): a mark, a random nonce
 * of 96 bits, the encrypted text, the tag. Each key encrypts one text, so no nonce is used for two texts.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

const CIPHER = 'aes-256-gcm';
const MARK: Buffer = Buffer.from('troupe sealed 1\n');
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** The bytes of a file with this text. `name`: the name of the file, to which the bytes are bound. */
export function sealedFile(key: Uint8Array, name: string, text: string): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce);
  cipher.setAAD(Buffer.from(name));
  return Buffer.concat([MARK, nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
}

/** The text of a file made by `sealedFile`; undefined when the bytes are not those of a file with this name and key. */
export function openedFile(key: Uint8Array, name: string, bytes: Buffer): Buffer | undefined {
  const start = MARK.length + NONCE_BYTES;
  if (bytes.length < start + TAG_BYTES || !bytes.subarray(0, MARK.length).equals(MARK)) return undefined;
  const decipher = createDecipheriv(CIPHER, key, bytes.subarray(MARK.length, start));
  decipher.setAAD(Buffer.from(name));
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
  try {
    return Buffer.concat([decipher.update(bytes.subarray(start, -TAG_BYTES)), decipher.final()]);
  } catch {
    // The file was changed, or has another key. The caller reports the damage.
    return undefined;
  }
}
