/**
 * Seals (encrypts) the data that a journal stores for its sessions, and decrypts it again.
 *
 * Each session has a separate data key, wrapped by the master key and stored in the table `dataKeys`. Entries, heads,
 * drafts, blobs, media and shortened results are sealed with this key. The address of a blob or medium is a hash of its
 * contents. It is stored as a keyed hash, because a reader of the disk could otherwise check a guess of the contents.
 * Rows of the audit log, and blobs without an owner, belong to no session. They share one data key.
 *
 * Owns: unwrapped data keys, up to a bound, and the count of values sealed by this opening. Does not own: the wrapped
 * keys. Wrapped keys that are not durable yet are in the journal's batches, the others in the engine.
 *
 * Invariants, beside D1 and D2 of `data-key.ts`:
 *  V1 when a sealed value is put into a batch, its wrapped key is in the same batch, in an earlier batch or in the
 *     engine. So no durable value lacks its key, as with media (D1 of `stored-media.ts`);
 *  V2 the data key of a removed session is removed in the batch that removes the session. If forks still need the
 *     session's results, the key is removed when the results are erased. From then on the store has no key that
 *     decrypts a copy of the session's values;
 *  V3 a key that was in a refused batch seals nothing more.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { DATA_KEYS_BYTES_MAX } from '../../base/bounds.ts';
import { StoreCorruptError } from '../../base/errors.ts';
import type { WriteBatch } from '../engine.ts';
import type { Head, LogStart, SessionKey } from '../position.ts';
import { corruptMedium, ownerOfMedium } from '../rows/media-text.ts';
import { RecentValues } from '../rows/recent-values.ts';
import { parseResultAddress } from '../rows/result-address.ts';
import { corruptRow, type Reveal } from '../rows/row-codec.ts';
import { placeAddress, placeOf } from '../rows/stored-text.ts';
import { DataKey, Opening } from './data-key.ts';
import { KEY_BYTES, MasterKeys, type StoreEncryption } from './master-keys.ts';

/** The owner of blobs and rows of the audit log, which belong to no session. Keys of sessions begin at 1. */
const NO_OWNER = 0;

/** The wrapped data keys of a store. */
export interface KeyRecords {
  /** The wrapped data key of a session, durable or about to be; undefined if it has none. */
  find(owner: SessionKey): string | undefined;
  /** True for a session that was removed: its entries are not read any more. */
  isRemoved(owner: SessionKey): boolean;
  /** Puts the wrapped key of a session into the open batch. Missing: the store is only read. */
  put?(owner: SessionKey, wrapped: string): void;
}

/** See the head of the file. */
export class Vault {
  readonly #masters: MasterKeys;
  readonly #records: KeyRecords;
  readonly #seed: string | undefined;
  readonly #opening = new Opening();
  readonly #held = new RecentValues<SessionKey, DataKey>(DATA_KEYS_BYTES_MAX);

  constructor(encryption: StoreEncryption, records: KeyRecords) {
    this.#masters = new MasterKeys(encryption);
    this.#seed = encryption.dataKeySeed;
    this.#records = records;
  }

  /** An entry of the log as it is stored. */
  sealEntry(key: SessionKey, row: number, turn: number, text: string): Buffer {
    return this.#keyFor(key).seal(this.#opening, entryPlace(key, row, turn), text, true);
  }

  /** The text of a stored entry; empty for a removed session, whose key is gone. Throws `StoreCorruptError`. */
  readonly reveal: Reveal = (data, row, key, turn) => {
    const text = this.#find(key)?.open(entryPlace(key, row, turn), data);
    if (text === undefined && this.#records.isRemoved(key)) return '';
    if (text === undefined) throw corruptRow(row, `an entry of session key ${key} cannot be decrypted`);
    return text.toString('utf8');
  };

  /** A head as it is stored: its data as base64, because heads are texts. */
  sealHead(head: Head): Head {
    const sealed = this.#keyFor(head.key).seal(this.#opening, headPlace(head), head.data, true);
    return { ...head, data: sealed.toString('base64') };
  }

  /** A stored head, decrypted. Throws `StoreCorruptError`. */
  head(stored: Head): Head {
    const data = this.#find(stored.key)?.open(headPlace(stored), Buffer.from(stored.data, 'base64'));
    if (data === undefined) throw unreadable(`the head of session key ${stored.key}`);
    return { ...stored, data: data.toString('utf8') };
  }

  /** A draft as it is stored, as base64. */
  sealDraft(key: SessionKey, text: string): string {
    return this.#keyFor(key).seal(this.#opening, draftPlace(key), text, true).toString('base64');
  }

  /** A stored draft, decrypted. Throws `StoreCorruptError`. */
  draft(key: SessionKey, stored: string): string {
    const text = this.#find(key)?.open(draftPlace(key), Buffer.from(stored, 'base64'));
    if (text === undefined) throw unreadable(`the draft of session key ${key}`);
    return text.toString('utf8');
  }

  /** A row of the audit log as it is stored, as base64. The row belongs to no session, and outlives all sessions. */
  sealAudit(number: number, text: string): string {
    return this.#keyFor(NO_OWNER).seal(this.#opening, auditPlace(number), text, true).toString('base64');
  }

  /** A stored row of the audit log, decrypted. Throws `StoreCorruptError`. */
  audit(number: number, stored: string): string {
    const text = this.#find(NO_OWNER)?.open(auditPlace(number), Buffer.from(stored, 'base64'));
    if (text === undefined) throw unreadable(`the row ${number} of the audit log`);
    return text.toString('utf8');
  }

  /**
   * The beginning of a log as readers see it: with an address of its base that `storedAddress` accepts. In the table,
   * the beginning has the address under which the base is stored.
   */
  start(stored: LogStart): LogStart {
    return { ...stored, base: placeAddress(stored.base) };
  }

  /**
   * The address under which a blob or medium is stored. Undefined: its owner has no key, so nothing that belongs to the
   * owner is stored.
   */
  storedAddress(address: string): string | undefined {
    const place = placeOf(address);
    if (place !== undefined) return place;
    const owner = ownerOfMedium(address);
    return this.#stored(this.#find(owner ?? NO_OWNER), owner, address);
  }

  /** Like `storedAddress`, for a value that is about to be stored. */
  newAddress(address: string): string {
    const owner = ownerOfMedium(address);
    return this.#stored(this.#keyFor(owner ?? NO_OWNER), owner, address) ?? address;
  }

  /** A blob or medium as it is stored. */
  sealBytes(storedAddress: string, bytes: Uint8Array): Buffer {
    const owner = ownerOf(storedAddress);
    return this.#keyFor(owner).seal(this.#opening, `value ${storedAddress}`, bytes, false);
  }

  /** The bytes of a stored blob or medium. Throws `StoreCorruptError`. */
  bytes(storedAddress: string, sealed: Uint8Array): Buffer {
    const owner = ownerOf(storedAddress);
    const bytes = this.#find(owner)?.open(`value ${storedAddress}`, sealed);
    if (bytes === undefined) throw corruptMedium(storedAddress, true);
    return bytes;
  }

  /**
   * The key of a session's shortened results. With `isNew`, a missing key is made. Undefined: the session has no key.
   */
  resultKey(owner: SessionKey, isNew: boolean): DataKey | undefined {
    return isNew ? this.#keyFor(owner) : this.#find(owner);
  }

  /** Removes the key of a session in a batch. */
  remove(owner: SessionKey, batch: WriteBatch): void {
    this.#held.delete(owner);
    batch.dataKeys.set(owner, undefined);
  }

  /** Drops all unwrapped keys after a refused write. */
  clear(): void {
    this.#held.clear();
  }

  #stored(key: DataKey | undefined, owner: SessionKey | undefined, address: string): string | undefined {
    if (key === undefined) return undefined;
    const mark = key.mark(address);
    return owner === undefined ? mark : `${owner}/${mark}`;
  }

  #find(owner: SessionKey): DataKey | undefined {
    const held = this.#held.get(owner);
    if (held !== undefined) return held;
    const wrapped = this.#records.find(owner);
    return wrapped === undefined ? undefined : this.#hold(owner, this.#unwrapped(owner, wrapped));
  }

  #keyFor(owner: SessionKey): DataKey {
    const known = this.#find(owner);
    if (known !== undefined) return known;
    const bytes = this.#newKey(owner);
    this.#records.put?.(owner, this.#masters.wrap(owner, bytes));
    return this.#hold(owner, bytes);
  }

  #newKey(owner: SessionKey): Buffer {
    if (this.#seed === undefined) return randomBytes(KEY_BYTES);
    return createHmac('sha256', this.#seed).update(`${owner}`).digest();
  }

  #hold(owner: SessionKey, bytes: Buffer): DataKey {
    const key = new DataKey(bytes);
    this.#held.add(owner, key);
    return key;
  }

  #unwrapped(owner: SessionKey, wrapped: string): Buffer {
    const bytes = this.#masters.unwrap(owner, wrapped);
    if (bytes === undefined) throw unreadable(`the data key of session key ${owner}`);
    return bytes;
  }
}

/** The session that a stored blob or medium belongs to. */
function ownerOf(storedAddress: string): SessionKey {
  return ownerOfMedium(storedAddress) ?? parseResultAddress(storedAddress)?.owner ?? NO_OWNER;
}

function draftPlace(key: SessionKey): string {
  return `draft ${key}`;
}

function auditPlace(number: number): string {
  return `audit ${number}`;
}

function headPlace({ key, position }: Pick<Head, 'key' | 'position'>): string {
  return `head ${key} ${position}`;
}

function entryPlace(key: SessionKey, row: number, turn: number): string {
  return `entry ${key} ${row} ${turn}`;
}

/** The error for a value whose key or seal is wrong. */
export function unreadable(what: string): StoreCorruptError {
  const reason = `${what} cannot be decrypted`;
  return new StoreCorruptError(`the journal cannot be read: ${reason}`, { data: { reason } });
}
