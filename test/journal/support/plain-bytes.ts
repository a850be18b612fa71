/** Looks for a word in every byte of every file below a directory, as it stands and as base64. */
import { readdir, readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';

/** The files that have the word, relative to the directory. */
export async function filesWith(directory: string, word: string): Promise<readonly string[]> {
  const found: string[] = [];
  const forms = [Buffer.from(word), ...[0, 1, 2].map((skipped) => base64Of(word, skipped))];
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const bytes = await readFile(path);
    if (forms.some((form) => bytes.includes(form))) found.push(relative(directory, path));
  }
  return found;
}

/** The word in base64 as part of a longer text: without the characters that its neighbours change. */
function base64Of(word: string, skipped: number): Buffer {
  const whole = Buffer.from(word).subarray(skipped);
  return Buffer.from(whole.subarray(0, whole.length - (whole.length % 3)).toString('base64'));
}
