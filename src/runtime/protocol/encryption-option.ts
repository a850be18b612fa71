/** The option `encryption` of `open`, and the forms of a key. */
import { z } from 'zod';
import { PREVIOUS_KEYS_MAX } from '../../base/bounds.ts';
import { ConfigError, describeValue } from '../../base/errors.ts';
import { isRecord } from '../../base/json.ts';
import { KEY_BYTES } from '../../journal/encryption/master-keys.ts';
import type { GivenKeys } from '../../journal/store/store-key.ts';

/** A key of 32 bytes: the bytes, or their text as 64 hexadecimal digits or as base64. */
export type EncryptionKey = Uint8Array | string;

/** Encrypts what a store keeps of its sessions. */
export interface EncryptionOptions {
  /**
   * Random bytes, such as `randomBytes(32)`, that are kept apart from the store. Without this key nothing can be read.
   */
  readonly key: EncryptionKey;
  /**
   * Earlier keys of the store, at most 16. If one of them is the present key of the store, `open` replaces it by `key`.
   * Once `open` has resolved, the store no longer needs its earlier keys.
   */
  readonly previousKeys?: readonly EncryptionKey[];
}

const FORM = `must be a key of ${KEY_BYTES} bytes: a Uint8Array, or a text of ${2 * KEY_BYTES} hexadecimal digits or of base64`;

/** The bytes of a key; undefined for a value that is not a key. */
export function keyBytes(value: unknown): Uint8Array | undefined {
  if (value instanceof Uint8Array) return value.length === KEY_BYTES ? new Uint8Array(value) : undefined;
  if (typeof value !== 'string') return undefined;
  const text = value.trim();
  const bytes = /^[0-9a-f]{64}$/i.test(text) ? Buffer.from(text, 'hex') : base64Bytes(text);
  return bytes === undefined ? undefined : new Uint8Array(bytes);
}

function base64Bytes(text: string): Buffer | undefined {
  return /^[A-Za-z0-9+/_-]{43}=?$/.test(text) ? Buffer.from(text, 'base64') : undefined;
}

/** The schema of the option. Keys are checked by `checkEncryption`, because an error of a schema may show its value. */
export const encryptionSchema: z.ZodType<GivenEncryption> = z.strictObject({
  key: z.unknown(),
  previousKeys: z.array(z.unknown()).max(PREVIOUS_KEYS_MAX).optional(),
});

interface GivenEncryption {
  readonly key?: unknown;
  readonly previousKeys?: readonly unknown[] | undefined;
}

/**
 * Throws `ConfigError` if the option has the wrong form. The error does not show the option, because a misplaced text
 * may be the key. Call this function before the general check of all options, whose errors show refused values.
 */
export function checkEncryptionForm(options: unknown): void {
  const given = isRecord(options) ? options['encryption'] : undefined;
  if (given === undefined) return;
  if (!isRecord(given) || given instanceof Uint8Array) throw problem('encryption', 'must be an object with a "key"');
  const { previousKeys } = given;
  if (previousKeys !== undefined && !Array.isArray(previousKeys))
    throw problem('encryption.previousKeys', 'must be a list of keys');
}

function problem(option: string, text: string): ConfigError {
  return new ConfigError(`option ${JSON.stringify(option)} ${text}`, { data: { key: option } });
}

/** The keys of the option. Throws `ConfigError` for a value that is not a key; the error does not show the value. */
export function checkEncryption(given: GivenEncryption | undefined): GivenKeys | undefined {
  if (given === undefined) return undefined;
  const { key, previousKeys = [] } = given;
  return {
    key: checkKey('encryption.key', key),
    previousKeys: previousKeys.map((each, index) => checkKey(`encryption.previousKeys.${index}`, each)),
  };
}

function checkKey(option: string, value: unknown): Uint8Array {
  const bytes = keyBytes(value);
  if (bytes !== undefined) return bytes;
  const found =
    typeof value === 'string' || value instanceof Uint8Array
      ? `${typeof value === 'string' ? 'a text' : 'a Uint8Array'} of length ${value.length}`
      : describeValue(value);
  throw new ConfigError(`option ${JSON.stringify(option)}: ${FORM}; got ${found}`, { data: { key: option } });
}
