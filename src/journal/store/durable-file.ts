/** Small files that are there whole or not at all, whatever happens to the machine. */
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { PRIVATE_FILE_MODE } from '../../base/private-files.ts';

/** Puts `text` at `path`: written to `path + suffix` first, synced, moved into place, and the move synced. */
export async function putFile(path: string, text: string, suffix: string): Promise<void> {
  const unfinished = path + suffix;
  try {
    const file = await open(unfinished, 'wx', PRIVATE_FILE_MODE);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(unfinished, path);
  } catch (error) {
    await rm(unfinished, { force: true });
    throw error;
  }
  await syncDirectory(dirname(path));
}

/** Makes the names in a directory durable. Windows cannot sync a directory and needs no such thing. */
export async function syncDirectory(directory: string): Promise<void> {
  if (process.platform === 'win32') return;
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
