/** Compares the master keys of an embedder with the id of the key in a store's manifest. */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { defined } from '../../base/defined.ts';
import { StoreKeyError } from '../../base/errors.ts';
import { keyIdOf, type StoreEncryption } from '../encryption/master-keys.ts';

/** The keys that an embedder gives. */
export type GivenKeys = Pick<StoreEncryption, 'key' | 'previousKeys'>;

/** The part of a manifest about the encryption of its store. */
export interface EncryptionRecord {
  /** `keyIdOf` the master key. */
  readonly keyId: string;
  /** The store's id, to which its data keys are bound; missing: the store was made before stores had one. */
  readonly storeId?: string | undefined;
}

/** The schema of the record, in a manifest and in the record of a backup. */
export const encryptionSchema: z.ZodType<EncryptionRecord> = z.object({
  keyId: z.string(),
  storeId: z.string().optional(),
});

/** The record of a new store that is encrypted with these keys. */
export function newEncryption(keys: GivenKeys): EncryptionRecord {
  return encryptionRecord({ ...keys, storeId: randomUUID() });
}

/** The record of a store that is encrypted with these keys. */
export function encryptionRecord({ key, storeId }: Pick<StoreEncryption, 'key' | 'storeId'>): EncryptionRecord {
  return { keyId: keyIdOf(key), ...defined({ storeId }) };
}

/**
 * The keys with which the store in `directory` is opened; undefined if it is not encrypted. `record`: the part of its
 * manifest; undefined if it is not encrypted. Throws `StoreKeyError` for keys that do not fit.
 */
export function fittingKeys(
  directory: string,
  record: EncryptionRecord | undefined,
  given: GivenKeys | undefined,
): StoreEncryption | undefined {
  const refuse = (reason: string): never => {
    throw new StoreKeyError(`the store ${directory} ${reason}. Nothing was written`, { data: { path: directory } });
  };
  if (record === undefined) {
    if (given === undefined) return undefined;
    return refuse(
      'is not encrypted, but a key was given. A store is encrypted from the start or not at all: open it without a key, ' +
        'or open a new directory with it',
    );
  }
  if (given === undefined) return refuse('is encrypted, and no key was given: give it as "encryption.key"');
  // Earlier keys may be given because a replacement of the key was interrupted and then reversed. Then some data keys
  // may be wrapped by an earlier key although the manifest has the id of the present key.
  const keys = { ...given, ...defined({ storeId: record.storeId }) };
  if (keyIdOf(given.key) === record.keyId) return { ...keys, isRotating: given.previousKeys.length > 0 };
  if (given.previousKeys.some((key) => keyIdOf(key) === record.keyId)) return { ...keys, isRotating: true };
  return refuse('is encrypted with another key. To replace its key, give the present one in "encryption.previousKeys"');
}
