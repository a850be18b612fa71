/** Checks who may read the files of a store. Reads only. */
import type { Stats } from 'node:fs';
import { lstat, opendir } from 'node:fs/promises';
import { join } from 'node:path';
import { STORE_RIGHTS_ENTRIES_MAX } from '../../base/bounds.ts';

/** Rights of the group and of others. */
const OTHERS = 0o077;

/** A file or directory that users other than the owner may use. */
export interface WideRights {
  /** The first file or directory with wider rights; the directory of the store is checked first. */
  readonly path: string;
  /** Rights in octal, as `ls` and `chmod` count them. */
  readonly mode: string;
}

/**
 * The first file or directory of a store that users other than its owner may read or write. Undefined if there is none
 * among the first `STORE_RIGHTS_ENTRIES_MAX`, if there is no store yet, or if the system has no such rights.
 */
export async function findWideRights(directory: string): Promise<WideRights | undefined> {
  if (process.platform === 'win32') return undefined;
  const root = await look(directory);
  if (root === undefined) return undefined;
  if (isWide(root)) return { path: directory, mode: modeOf(root) };
  const waiting = [directory];
  let seen = 0;
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    for await (const entry of await opendir(next)) {
      seen += 1;
      if (seen > STORE_RIGHTS_ENTRIES_MAX) return undefined;
      const path = join(next, entry.name);
      const found = await look(path);
      if (found === undefined || found.isSymbolicLink()) continue;
      if (isWide(found)) return { path, mode: modeOf(found) };
      if (found.isDirectory()) waiting.push(path);
    }
  }
  return undefined;
}

/** The stats of a file; undefined if it was removed meanwhile. */
async function look(path: string): Promise<Stats | undefined> {
  return lstat(path).catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR'))
      return undefined;
    throw error;
  });
}

function isWide({ mode }: Stats): boolean {
  return (mode & OTHERS) !== 0;
}

function modeOf({ mode }: Stats): string {
  return (mode & 0o777).toString(8).padStart(4, '0');
}
