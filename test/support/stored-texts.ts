/** Everything that the files of a closed store hold, decompressed, to search it for texts that must be gone. */
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { closeEnvironment, openEnvironment } from '../../src/journal/lmdb/environment.ts';
import { DATA_FILE, LOCK_FILE, TABLE_FLAGS, type TableName } from '../../src/journal/lmdb/tables.ts';
import { unpackRow } from '../../src/journal/rows/row-packing.ts';
import { decodeBlob } from '../../src/journal/rows/stored-text.ts';

/** Each stored key and value as a text, named by its file and table. */
export async function storedTexts(
  directory: string,
): Promise<readonly { readonly at: string; readonly text: string }[]> {
  const found: { readonly at: string; readonly text: string }[] = [];
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const at = relative(directory, path);
    found.push({ at, text: entry.name });
    if (!entry.isFile() || entry.name === LOCK_FILE) continue;
    if (entry.name === DATA_FILE) found.push(...(await tableTexts(dirname(path), at)));
    else found.push({ at, text: await readFile(path, 'latin1') });
  }
  return found;
}

/** True for a text of the audit log, which keeps the ids of deleted sessions. */
export function isAudited({ at }: { readonly at: string }): boolean {
  return at.endsWith(' audit');
}

/**
 * How often a pattern stands in the data files of a closed store beyond its audit log, free pages included. The pattern
 * must have the flag `g`. A page may be free and have an earlier row of the audit log; a compacted file has no such page.
 */
export async function countInFiles(directory: string, pattern: RegExp): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  const count = (text: string, by: number): void => {
    for (const [word] of text.matchAll(pattern)) counts.set(word, (counts.get(word) ?? 0) + by);
  };
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    if (entry.name === DATA_FILE) count(await readFile(join(entry.parentPath, entry.name), 'latin1'), 1);
  }
  for (const each of await storedTexts(directory)) if (isAudited(each)) count(each.text, -1);
  return counts;
}

async function tableTexts(
  directory: string,
  at: string,
): Promise<readonly { readonly at: string; readonly text: string }[]> {
  const environment = await openEnvironment({ directory, durability: 'flush' });
  try {
    return (Object.keys(TABLE_FLAGS) as TableName[]).flatMap((name) =>
      [...environment[name].getRange()].map(({ key, value }) => ({
        at: `${at} ${name}`,
        text: `${String(key)} ${textOf(name, Number(key), value)}`,
      })),
    );
  } finally {
    await closeEnvironment(environment);
  }
}

function textOf(name: TableName, key: number, value: unknown): string {
  if (!Buffer.isBuffer(value)) return String(value);
  if (name === 'log') return unpackRow(value, key).toString('utf8');
  if (name === 'blobs') return decodeBlob(value) ?? '';
  return value.toString('latin1');
}
