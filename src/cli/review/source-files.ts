/** Finds the source files of a directory for a review. Reads the disk; follows no links. */
import { constants, type Dirent } from 'node:fs';
import { type FileHandle, open, readdir } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { REVIEW_ENTRIES_MAX, REVIEW_FILE_BYTES_MAX } from '../../base/bounds.ts';

/** One file: its path below the directory, with slashes, and its size. */
export interface SourceFile {
  readonly path: string;
  readonly bytes: number;
}

/** The result of a walk. */
export interface SourceWalk {
  /** The source files found, ascending by path. */
  readonly files: readonly SourceFile[];
  /** Source files that are too large, binary, or could not be opened, ascending by path. */
  readonly passedOver: readonly string[];
  /** True if the tree has more entries than the walk visits. */
  readonly isCut: boolean;
}

/** Directories of build output and of foreign code. Names that begin with a dot are also left out. */
const SKIPPED_DIRECTORIES: ReadonlySet<string> = new Set([
  ...['node_modules', 'bower_components', 'vendor', 'third_party'],
  ...['dist', 'build', 'out', 'target', 'coverage', '__pycache__', 'venv'],
]);
const SOURCE_NAME =
  /\.(?:[cm]?[jt]sx?|py|go|rs|java|kt|kts|scala|rb|php|cs|swift|c|h|cc|cpp|hpp|m|ex|exs|erl|hs|lua|dart|vue|svelte|sh|sql|zig)$/i;
/** Characters that a path must not have, because the path is printed and is a part of one line of a task. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the expression looks for these characters
const UNUSABLE_NAME = /[\u0000-\u001f\u007f\u2028\u2029]/;
const HEAD_BYTES = 4_096;

/** The files that a walk looks for, as shown to people. */
export const SOURCE_KINDS = '.ts, .js, .py, .go, .rs, .java, .c and the like';

/** Walks a directory. Rejects when the directory itself cannot be read; unreadable entries below it are skipped. */
export async function findSourceFiles(root: string): Promise<SourceWalk> {
  const files: SourceFile[] = [];
  const passedOver: string[] = [];
  const waiting: string[] = [''];
  let entries = 0;
  for (let folder = waiting.pop(); folder !== undefined; folder = waiting.pop()) {
    for (const entry of await entriesOf(root, folder)) {
      entries += 1;
      if (entries > REVIEW_ENTRIES_MAX) return sorted(files, passedOver, true);
      if (entry.name.startsWith('.') || UNUSABLE_NAME.test(entry.name)) continue;
      const path = posix.join(folder, entry.name);
      if (entry.isDirectory()) {
        if (!SKIPPED_DIRECTORIES.has(entry.name)) waiting.push(path);
      } else if (entry.isFile() && SOURCE_NAME.test(entry.name)) {
        const bytes = await sizeOfText(join(root, path));
        if (bytes === undefined) passedOver.push(path);
        else files.push({ path, bytes });
      }
    }
  }
  return sorted(files, passedOver, false);
}

async function entriesOf(root: string, folder: string): Promise<readonly Dirent[]> {
  try {
    return await readdir(join(root, folder), { withFileTypes: true });
  } catch (error) {
    if (folder === '') throw error;
    return [];
  }
}

/** The size of a text file; undefined when it is too large, binary, or cannot be opened. */
async function sizeOfText(path: string): Promise<number | undefined> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    const { size } = await handle.stat();
    if (size > REVIEW_FILE_BYTES_MAX) return undefined;
    const head = Buffer.alloc(Math.min(size, HEAD_BYTES));
    const { bytesRead } = await handle.read(head, 0, head.length, 0);
    return head.subarray(0, bytesRead).includes(0) ? undefined : size;
  } catch {
    return undefined;
  } finally {
    await handle?.close();
  }
}

function sorted(files: SourceFile[], passedOver: string[], isCut: boolean): SourceWalk {
  return {
    files: files.sort((a, b) => (a.path < b.path ? -1 : 1)),
    passedOver: passedOver.sort(),
    isCut,
  };
}
