/**
 * Reads directories of definition files: skills, workflows, specialists. A file with a fault is reported and skipped.
 * Other files are still read, and `open` does not fail.
 */
import type { Dirent } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { DEFINITION_BYTES_MAX, DEFINITION_FILES_MAX } from '../base/bounds.ts';
import { asError } from '../base/errors.ts';
import { wellFormed } from '../base/json.ts';

/** Receives each fault, with the path of the skipped file or directory. Must not throw. */
export type Warn = (message: string, path: string) => void;

/** The locations of the definitions of one kind. */
export interface DefinitionPlace {
  /** The directories, in order. Of definitions with the same name, that of the last directory wins. */
  readonly directories: readonly string[];
  /** If given, a folder that contains a file of this name is a definition too. */
  readonly folderFile?: string;
}

/** The result of reading. */
export interface DefinitionsRead<T> {
  readonly byName: ReadonlyMap<string, T>;
}

/**
 * Reads all definitions of a kind. A directory that cannot be read is reported like an unreadable file. `entering` is
 * called before a directory is read, and before a folder in it is searched for a definition.
 */
export async function readDefinitions<T extends { readonly name: string }>(
  place: DefinitionPlace,
  parse: (text: string) => T,
  warn: Warn,
  entering: (path: string) => void = () => undefined,
): Promise<DefinitionsRead<T>> {
  const byName = new Map<string, T>();
  for (const directory of place.directories) {
    entering(directory);
    const inDirectory = new Map<string, string>();
    for (const path of await pathsOf(directory, place.folderFile, entering, warn)) {
      const definition = await readOne(path, parse, warn);
      if (definition === undefined) continue;
      const first = inDirectory.get(definition.name);
      if (first !== undefined) {
        warn(`another file defines ${JSON.stringify(definition.name)}: ${first}`, path);
        continue;
      }
      inDirectory.set(definition.name, path);
      byName.set(definition.name, definition);
    }
  }
  return { byName };
}

/** The paths of possible definitions in a directory, ascending, at most `DEFINITION_FILES_MAX`. */
async function pathsOf(
  directory: string,
  folderFile: string | undefined,
  entering: (path: string) => void,
  warn: Warn,
): Promise<readonly string[]> {
  let entries: readonly Dirent[];
  try {
    entries = await readdir(directory, { withFileTypes: true });
  } catch (error) {
    warn(`the directory cannot be read: ${asError(error).message}`, directory);
    return [];
  }
  const paths: string[] = [];
  const sorted = [...entries].sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const entry of sorted) {
    const path = join(directory, entry.name);
    if (entry.name.startsWith('.')) continue;
    if (entry.isDirectory()) {
      if (folderFile === undefined) continue;
      entering(path);
      if (await isFile(join(path, folderFile))) paths.push(join(path, folderFile));
    } else if (entry.name.toLowerCase().endsWith('.md')) {
      paths.push(path);
    }
    if (paths.length === DEFINITION_FILES_MAX) {
      warn(`only the first ${DEFINITION_FILES_MAX} definitions are read`, directory);
      break;
    }
  }
  return paths;
}

async function isFile(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isFile();
  } catch {
    // The file does not exist, so the folder is not a definition.
    return false;
  }
}

async function readOne<T>(path: string, parse: (text: string) => T, warn: Warn): Promise<T | undefined> {
  try {
    const { size, isFile: isPlain } = await statOf(path);
    if (!isPlain) throw new Error('it is not a file');
    if (size > DEFINITION_BYTES_MAX) throw new Error(`it has ${size} bytes, more than ${DEFINITION_BYTES_MAX}`);
    return parse(wellFormed(await readFile(path, 'utf8')));
  } catch (error) {
    warn(`a definition is left out: ${asError(error).message}`, path);
    return undefined;
  }
}

async function statOf(path: string): Promise<{ readonly size: number; readonly isFile: boolean }> {
  const found = await stat(path);
  return { size: found.size, isFile: found.isFile() };
}
