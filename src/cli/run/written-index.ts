/** The file that holds the index of a review, in the data directory. */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { putFile } from '../../journal/store/durable-file.ts';
import { printable } from '../text-layout.ts';

/**
 * Writes the index of the review `id`, whole or not at all; an earlier index is replaced. `data`: the data directory,
 * as an absolute path. Resolves to the absolute path of the file.
 */
export async function writeIndex(data: string, id: string, index: string): Promise<string> {
  const path = join(data, `${id}.txt`);
  await putFile(path, `${printable(index).trimEnd()}\n`, `.${randomUUID().slice(0, 8)}.part`);
  return path;
}
