/**
 * Reads texts from the tables of an environment (the LMDB file of one shard), and checks their seals
 * (`rows/sealed-text.ts`).
 */
import { unsealText } from '../rows/sealed-text.ts';
import type { LmdbEnvironment } from './environment.ts';

/** A part of a table whose keys are numbers. The keys ascend unless `isNewestFirst` is true. */
export interface NumberRange {
  /** The keys of the part are above this number. */
  readonly after: number;
  readonly limit: number;
  readonly isNewestFirst?: boolean;
}

/** A stored text without its seal; `undefined` if nothing is stored. Throws if the seal does not match. */
export function unsealed(table: string, key: string | number, stored: string | undefined): string | undefined {
  if (stored === undefined) return undefined;
  const text = unsealText(table, key, stored);
  if (text === undefined)
    throw new Error(`the entry ${JSON.stringify(key)} of its table ${JSON.stringify(table)} is damaged`);
  return text;
}

/** Texts of a table with their keys. Throws for an entry whose seal does not match. */
export function textsIn(
  environment: LmdbEnvironment,
  name: 'dataKeys' | 'audit',
  { after, limit, isNewestFirst = false }: NumberRange,
): readonly (readonly [number, string])[] {
  const range = isNewestFirst ? { end: after, limit, reverse: true } : { start: after + 1, limit };
  return Array.from(environment[name].getRange(range), ({ key, value }) => {
    return [Number(key), unsealed(name, Number(key), value) ?? ''] as const;
  });
}
