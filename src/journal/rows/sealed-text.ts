/**
 * Sealed values of the small tables. The seal is a CRC-32 of the table's name, the key and the text, and is stored
 * before the text. It reveals a flipped bit in the seal or in the text before the value is used. It also reveals an
 * entry under the wrong key or in the wrong table. Rows of the log have their own checksums.
 */
import { crc32 } from 'node:zlib';

const SEAL_CHARACTERS = 8;

/** `text` in the form stored under `key` of `table`. */
export function sealText(table: string, key: string | number, text: string): string {
  return sealOf(table, key, text) + text;
}

/** The text of a sealed value; `undefined` when its seal does not match this table, key and text. */
export function unsealText(table: string, key: string | number, stored: string): string | undefined {
  const seal = stored.slice(0, SEAL_CHARACTERS);
  const text = stored.slice(SEAL_CHARACTERS);
  return seal === sealOf(table, key, text) ? text : undefined;
}

function sealOf(table: string, key: string | number, text: string): string {
  return crc32(`${table}\0${key}\0${text}`).toString(16).padStart(SEAL_CHARACTERS, '0');
}
