/**
 * Determines where an open file really is, and which files no file tool may open. A path is checked before it is
 * opened, but between check and open another process may replace a directory with a link. So the file is checked again
 * by its descriptor, which no other process can exchange.
 */
import { type BigIntStats, constants } from 'node:fs';
import { access, type FileHandle, lstat, readlink, realpath } from 'node:fs/promises';
import { basename, dirname, join, sep } from 'node:path';
import { systemCodeOf } from '../../base/errors.ts';
import { DATA_FILE } from '../../journal/lmdb/tables.ts';
import { shardDirectory } from '../../journal/store/manifest.ts';

/** Directories of the kernel: devices, and data about processes, including their environment and memory. */
const SYSTEM_DIRECTORIES: readonly string[] = ['/proc', '/sys', '/dev'];
/**
 * File names of shortened results, which a model may read in a store. Such a name cannot be guessed, because it is a
 * hash of the content.
 */
const SAVED_RESULT = /^tool_result_(?:[\d-]+_)?[0-9a-f]{32}\.txt$/;

/** True for a path at or below a directory. */
export function contains(directory: string, path: string): boolean {
  return path === directory || path.startsWith(directory.endsWith(sep) ? directory : directory + sep);
}

/**
 * True for a path (links resolved) that no tool may use: a path in a store, or in a directory of the kernel. A path in
 * a directory of the kernel is allowed if the root is in that directory too.
 */
export async function isForbidden(path: string, root: string | undefined): Promise<boolean> {
  for (const system of SYSTEM_DIRECTORIES) {
    if (contains(system, path) && !(root !== undefined && contains(system, root))) return true;
  }
  return await isOfStore(path);
}

/** True for the files of a data directory, whichever runtime has it open, except shortened results. */
async function isOfStore(path: string): Promise<boolean> {
  for (let at = dirname(path); at !== dirname(at); at = dirname(at)) {
    if (!(await isThere(join(shardDirectory(at, 0), DATA_FILE)))) continue;
    return !(dirname(path) === join(at, 'results') && SAVED_RESULT.test(basename(path)));
  }
  return false;
}

async function isThere(path: string): Promise<boolean> {
  return access(path, constants.F_OK).then(
    () => true,
    // A directory that this process may not search also gives false: this process cannot open a file in it.
    () => false,
  );
}

/**
 * The path of an open file, with links resolved. `asked`: the path by which the file was opened. If the system cannot
 * resolve descriptors, the open file is compared with the file that the path leads to now. `undefined` when they
 * differ.
 */
export async function openedPath(handle: FileHandle, asked: string): Promise<string | undefined> {
  if (process.platform === 'linux') {
    try {
      // A file that was replaced after the open is reported as deleted.
      return (await readlink(`/proc/self/fd/${handle.fd}`)).replace(/ \(deleted\)$/, '');
    } catch (error) {
      if (systemCodeOf(error) !== 'ENOENT') throw error;
    }
  }
  const real = await realpath(asked);
  const [opened, found] = await Promise.all([handle.stat({ bigint: true }), lstat(real, { bigint: true })]);
  return isSame(opened, found) && (await realpath(asked)) === real ? real : undefined;
}

function isSame(one: BigIntStats, other: BigIntStats): boolean {
  return one.dev === other.dev && one.ino === other.ino;
}
