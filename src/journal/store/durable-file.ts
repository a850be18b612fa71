/** Small files that are written whole or not at all, even across a crash of the machine. */
import { open, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { PRIVATE_FILE_MODE } from '../../base/private-files.ts';

/**
 * Puts `text` at `path`. The text is written to `path + suffix` first, synced, and moved into place; then the move is
 * synced.
 */
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

/** True if there is a file or a directory at `path`. Rejects with the system's error if that cannot be found out. */
export async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return false;
    throw error;
  }
}

/** Makes the names in a directory durable. Windows cannot sync a directory and does not need it. */
export async function syncDirectory(directory: string): Promise<void> {
  if (process.platform === 'win32') return;
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
