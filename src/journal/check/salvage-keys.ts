/** Decrypts the values of a shard that `troupe doctor` reads. */

import { asError, StoreCorruptError } from '../../base/errors.ts';
import type { StoreEncryption } from '../encryption/master-keys.ts';
import { Vault } from '../encryption/vault.ts';
import type { PageFile } from '../lmdb/pages.ts';
import { corruptMedium } from '../rows/media-text.ts';
import { decodeBlob } from '../rows/stored-text.ts';
import type { FilePlace, StoreIndex } from './store-index.ts';

/** The vault of a shard that is only read; undefined without keys, and for a shard that is not encrypted. */
export function salvageVault(index: StoreIndex, keys: StoreEncryption | undefined): Vault | undefined {
  if (keys === undefined || index.dataKeys.size === 0) return undefined;
  return new Vault(keys, {
    find: (owner) => index.dataKeys.get(owner),
    isRemoved: (owner) => !index.keys.has(owner),
  });
}

/** A head's text. Throws `StoreCorruptError`. */
export function headData(index: StoreIndex, key: number, vault: Vault | undefined): string | undefined {
  const head = index.heads.get(key);
  return head === undefined || vault === undefined ? head?.data : vault.head({ key, ...head }).data;
}

/** A blob's text; undefined when it is missing or damaged. */
export function blobText(
  index: StoreIndex,
  file: PageFile,
  address: string,
  vault: Vault | undefined,
): string | undefined {
  if (vault === undefined) return index.blob(file, address);
  const stored = vault.storedAddress(address);
  const place = stored === undefined ? undefined : index.blobs.get(stored);
  if (stored === undefined || place === undefined) return undefined;
  try {
    return decodeBlob(vault.bytes(stored, bytesAt(file, place)));
  } catch (error) {
    if (error instanceof StoreCorruptError) return undefined;
    throw error;
  }
}

/** A medium's bytes. Throws `StoreCorruptError` when it is missing or damaged. */
export function mediumBytes(index: StoreIndex, file: PageFile, address: string, vault: Vault | undefined): Buffer {
  if (vault === undefined) return index.medium(file, address);
  const stored = vault.storedAddress(address);
  const place = stored === undefined ? undefined : index.media.get(stored);
  if (stored === undefined || place === undefined) throw corruptMedium(address, false);
  return vault.bytes(stored, bytesAt(file, place));
}

/** A row of the audit log; undefined when it is missing or damaged. */
export function auditText(
  index: StoreIndex,
  file: PageFile,
  number: number,
  vault: Vault | undefined,
): string | undefined {
  const stored = index.auditRow(file, number);
  if (stored === undefined || vault === undefined) return stored;
  try {
    return vault.audit(number, stored);
  } catch (error) {
    if (error instanceof StoreCorruptError) return undefined;
    throw error;
  }
}

/** Yields a reason for each blob, medium and row of the audit log of an encrypted shard that cannot be decrypted. */
export function* sealedDamage(index: StoreIndex, file: PageFile, vault: Vault): Iterable<string> {
  for (const places of [index.blobs, index.media]) {
    for (const [stored, place] of places) {
      try {
        vault.bytes(stored, bytesAt(file, place));
      } catch (error) {
        yield error instanceof StoreCorruptError ? String(error.data['reason']) : asError(error).message;
      }
    }
  }
  for (const number of index.audit.keys()) {
    if (auditText(index, file, number, vault) === undefined) yield `the row ${number} of the audit log is damaged`;
  }
}

function bytesAt(file: PageFile, { offset, length }: FilePlace): Buffer {
  return file.bytes(offset, length);
}
