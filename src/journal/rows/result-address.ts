/**
 * Addresses of the whole texts of shortened results. Such a text is a blob of its session (`stored-results.ts`), and its
 * address says which place it has among the texts of the session, and how long it is:
 *
 *     <session key>/r<number>-<UTF-8 bytes>-<hash>
 *
 * The hash is the one in the name of the file (`actors/result-store.ts`).
 */
import { createHash } from 'node:crypto';
import type { DataKey } from '../encryption/data-key.ts';
import type { SessionKey } from '../position.ts';

const ADDRESS = /^(\d{1,10})\/r(\d{1,15})-(\d{1,15})-([0-9a-f]{32})$/;

/** The parts of an address. */
export interface ResultAddress {
  readonly owner: SessionKey;
  /** Texts that were kept later have higher numbers. */
  readonly number: number;
  /** UTF-8 bytes of the text. */
  readonly bytes: number;
  readonly hash: string;
}

/** The address with these parts. */
export function resultAddress({ owner, number, bytes, hash }: ResultAddress): string {
  return `${owner}/r${number}-${bytes}-${hash}`;
}

/** The parts of an address; undefined if the text is not the address of a result. */
export function parseResultAddress(address: string): ResultAddress | undefined {
  const [, owner, number, bytes, hash] = ADDRESS.exec(address) ?? [];
  if (hash === undefined) return undefined;
  return { owner: Number(owner), number: Number(number), bytes: Number(bytes), hash };
}

/**
 * The hash of a result: 32 hexadecimal digits. With the data key of its session it cannot be computed without that key,
 * because a reader of the disk could otherwise check a guess of an encrypted text.
 */
export function resultHash(text: string, key?: Pick<DataKey, 'mark'>): string {
  const hash = key?.mark(`result ${text}`) ?? createHash('sha256').update(text).digest('hex');
  return hash.slice(0, 32);
}
