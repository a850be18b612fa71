/**
 * The master keys of a store, which the embedder gives. A master key encrypts data keys only, one for each session
 * (`vault.ts`). The data keys encrypt what is stored.
 *
 * A wrapped data key is bound to its session and to its store: another store with the same master key cannot unwrap it.
 * A store gets its id when it is made, and its backups have the same id. A wrapped key contains the store's id, so that
 * a store whose manifest is lost can still be read.
 *
 * Data keys are wrapped with AES-256-GCM and random nonces of 96 bits. NIST SP 800-38D, section 8.3, allows 2^32 such
 * uses of one key, so a master key may wrap four billion data keys before it must be replaced.
 */
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';
import { StoreKeyError } from '../../base/errors.ts';

/** Bytes of a master key and of a data key: AES-256. */
export const KEY_BYTES = 32;
const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const KEY_ID_CHARACTERS = 32;
/** A wrapped data key: the id of the master key, the id of the store if it has one, and the encrypted data key. */
const WRAPPED = /^([0-9a-f]{32})(?: ([0-9a-f-]{36}))? ([A-Za-z0-9+/]+=*)$/;

/** The keys with which a store is opened. Plain data, so that a session thread can receive it. */
export interface StoreEncryption {
  /** 32 bytes. */
  readonly key: Uint8Array;
  /** Earlier keys, each 32 bytes. Data keys that they wrap are wrapped again with `key`. */
  readonly previousKeys: readonly Uint8Array[];
  /** The id of the store, to which its data keys are bound; missing: the store was made before stores had one. */
  readonly storeId?: string;
  /** True: the manifest cannot be read, so the data keys of any store are opened. Only for reading. */
  readonly isAnyStore?: true;
  /** True if data keys may be wrapped by an earlier key. */
  readonly isRotating: boolean;
  /**
   * A new data key is derived from this seed and the number of its session (`SessionKey`). Missing: new data keys are
   * random. The names of results depend on data keys. A simulated run must be the same each time, so it has a seed.
   */
  readonly dataKeySeed?: string;
}

/** A name of a master key. The name does not reveal the key: it is a part of an HMAC of a fixed text. */
export function keyIdOf(key: Uint8Array): string {
  return createHmac('sha256', key).update('troupe master key').digest('hex').slice(0, KEY_ID_CHARACTERS);
}

/** A key for one purpose, derived from another key. */
export function derivedKey(key: Uint8Array, purpose: string | Uint8Array): Buffer {
  return createHmac('sha256', key).update(purpose).digest();
}

/** The key of the store's search index. */
export function indexKeyOf({ key, storeId }: StoreEncryption): Uint8Array {
  return storeId === undefined ? key : derivedKey(key, `search index of ${storeId}`);
}

/** Wraps and unwraps data keys. */
export class MasterKeys {
  readonly #current: string;
  readonly #byId: ReadonlyMap<string, Uint8Array>;
  readonly #storeId: string | undefined;
  readonly #isAnyStore: boolean;

  constructor({ key, previousKeys, storeId, isAnyStore }: StoreEncryption) {
    this.#storeId = storeId;
    this.#isAnyStore = isAnyStore === true;
    this.#current = keyIdOf(key);
    this.#byId = new Map([...previousKeys, key].map((each) => [keyIdOf(each), each]));
  }

  /** True for a text that the present key wrapped. */
  isCurrent(wrapped: string): boolean {
    return wrapped.startsWith(`${this.#current} `);
  }

  /** A data key in the form in which it is stored for a session. */
  wrap(owner: number, dataKey: Uint8Array): string {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, this.#keyOf(this.#current), nonce);
    cipher.setAAD(placeOf(owner, this.#storeId));
    const sealed = Buffer.concat([nonce, cipher.update(dataKey), cipher.final(), cipher.getAuthTag()]);
    const store = this.#storeId === undefined ? '' : `${this.#storeId} `;
    return `${this.#current} ${store}${sealed.toString('base64')}`;
  }

  /**
   * The data key stored for a session; undefined for a text that is no wrapped key, or is the key of another session or
   * store. Throws `StoreKeyError` when none of the given keys wrapped it.
   */
  unwrap(owner: number, wrapped: string): Buffer | undefined {
    const [, id = '', storeId, base64 = ''] = WRAPPED.exec(wrapped) ?? [];
    const bytes = Buffer.from(base64, 'base64');
    if (bytes.length !== NONCE_BYTES + KEY_BYTES + TAG_BYTES) return undefined;
    if (!this.#isAnyStore && storeId !== this.#storeId) return undefined;
    const decipher = createDecipheriv(CIPHER, this.#keyOf(id), bytes.subarray(0, NONCE_BYTES));
    decipher.setAAD(placeOf(owner, storeId));
    decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
    try {
      return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]);
    } catch {
      // The text was changed, or belongs to another session. The caller reports the damage with its place.
      return undefined;
    }
  }

  #keyOf(id: string): Uint8Array {
    const key = this.#byId.get(id);
    if (key !== undefined) return key;
    throw new StoreKeyError(
      'a data key of the store is wrapped by a key that was not given. A rotation may have been cut short: open the ' +
        'store once more with the new key as "encryption.key" and the earlier one in "encryption.previousKeys"',
      { data: { keyId: id } },
    );
  }
}

function placeOf(owner: number, storeId: string | undefined): Buffer {
  return Buffer.from(storeId === undefined ? `data key ${owner}` : `data key ${owner} of ${storeId}`);
}
