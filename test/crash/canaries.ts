/**
 * Looks for bytes that deleted sessions left in the files of a store. Everything that a mortal session stores names its
 * family. A family that has neither a session nor a note of an erasure may be named only in the audit log.
 */
import { countInFiles, isAudited, storedTexts } from '../support/stored-texts.ts';
import { FAMILY, familiesIn } from './protocol.ts';

/** The findings of a scan. */
export interface CanaryScan {
  /** A sentence about each place that names a family which must be gone. */
  readonly left: readonly string[];
  /** The tables and folders that name any family: without one of them, the scan proves nothing about it. */
  readonly places: ReadonlySet<string>;
}

/**
 * Scans every table, decompressed, and every other file of a closed store. `kept`: the families that may be named. With
 * `isCompacted`, also every byte of the data files: no page of them is free.
 */
export async function scanCanaries(
  store: string,
  kept: ReadonlySet<string>,
  isCompacted: boolean,
): Promise<CanaryScan> {
  const left = new Set<string>();
  const places = new Set<string>();
  const look = (at: string, text: string): void => {
    for (const family of familiesIn(text)) {
      places.add(placeOf(at));
      if (!kept.has(family)) left.add(`${family} is gone, and ${at} names it`);
    }
  };
  for (const each of await storedTexts(store)) if (!isAudited(each)) look(each.at, each.text);
  if (isCompacted) {
    for (const [family, count] of await countInFiles(store, FAMILY)) if (count > 0) look('bytes', family);
  }
  return { left: [...left], places };
}

/** `log` for `shard-1/data.mdb log`, `results` for a file of that folder. */
function placeOf(at: string): string {
  const [path = '', table] = at.split(' ');
  return table ?? path.split('/')[0] ?? '';
}
