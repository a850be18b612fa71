/** Writes the tables of an environment that have one text for each session, or for each number. */
import { sealText } from '../rows/sealed-text.ts';
import type { LmdbEnvironment } from './environment.ts';

/** Puts the sealed texts of a table by key; a missing value is removed. */
export function putTexts<T>(
  environment: LmdbEnvironment,
  name: 'drafts' | 'erasures' | 'dataKeys' | 'starts' | 'origins' | 'audit',
  values: ReadonlyMap<number, T | undefined>,
  textOf: (value: T) => string,
): void {
  for (const [key, value] of values) {
    if (value === undefined) void environment[name].remove(key);
    else void environment[name].put(key, sealText(name, key, textOf(value)));
  }
}
