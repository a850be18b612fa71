/** Finds, checks and prints the data directory of a command. */
import { constants, existsSync } from 'node:fs';
import { access, mkdir, realpath, stat } from 'node:fs/promises';
import { dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { systemCodeOf } from '../../base/errors.ts';
import { PRIVATE_DIRECTORY_MODE } from '../../base/private-files.ts';
import { readManifest } from '../../journal/store/manifest.ts';
import { type Arguments, NotFoundError, type OptionSpec, UsageError } from '../command.ts';
import type { Surroundings } from '../surroundings.ts';

/** The data directory of a command that is given no other one. */
export const DEFAULT_DATA = 'data';
/** The environment variable that names the data directory. */
const DATA_VARIABLE = 'TROUPE_DATA';

/** The option that names the data directory. */
export const DATA_OPTION: OptionSpec = {
  kind: 'text',
  value: 'DIR',
  help: `Data directory (default: $${DATA_VARIABLE}, or ./${DEFAULT_DATA})`,
};

/** The option for output that programs read. */
export const JSON_OPTION: OptionSpec = { kind: 'flag', help: 'Print JSON on stdout' };

/** The data directory of a command, absolute. `positional`: the directory, if an argument without a name gives it. */
export function dataDirectory(given: Arguments, surroundings: Surroundings, positional?: string): string {
  const option = given.text('data');
  if (positional !== undefined && option !== undefined) {
    throw new UsageError('a directory as an argument and --data exclude each other');
  }
  return resolve(surroundings.directory, positional ?? option ?? namedByEnvironment(surroundings) ?? DEFAULT_DATA);
}

function namedByEnvironment({ environment }: Surroundings): string | undefined {
  const named = environment[DATA_VARIABLE];
  return named === undefined || named.trim() === '' ? undefined : named;
}

/** Creates the directory if needed. Throws `UsageError` when it is not writable. */
export async function prepareDataDirectory(path: string): Promise<void> {
  try {
    await makeDirectory(path);
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new UsageError(`--data ${path} cannot be written to: ${reasonOf(error)}`, { cause: error });
  }
}

/**
 * Creates a directory after its parents, one by one. Node's own recursion never ends on a file system that answers
 * ENOENT, such as `/proc`.
 */
async function makeDirectory(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found?.isDirectory() === true) return;
  if (dirname(path) !== path) await makeDirectory(dirname(path));
  try {
    await mkdir(path, PRIVATE_DIRECTORY_MODE);
  } catch (error) {
    // Another process created it first.
    if (!(await stat(path)).isDirectory()) throw error;
  }
}

/** Rejects with `NotFoundError` unless the directory has a store. Creates nothing. */
export async function requireStore(path: string): Promise<void> {
  if ((await readManifest(path)) !== undefined) return;
  throw new NotFoundError(
    `${existsSync(path) ? `${path} holds no store` : `there is no directory ${path}`}; --data DIR or ${DATA_VARIABLE} names another directory, --url URL a running server`,
  );
}

/** The directory that an argument names, with links resolved. Throws `UsageError` unless it is a readable directory. */
export async function sourceDirectory(given: string | undefined, surroundings: Surroundings): Promise<string> {
  const path = given === undefined ? projectRoot(surroundings) : resolve(surroundings.directory, given);
  try {
    const real = await realpath(path);
    if (!(await stat(real)).isDirectory()) throw new UsageError(`--dir ${given ?? path} is not a directory`);
    await access(real, constants.R_OK | constants.X_OK);
    return real;
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`--dir ${given ?? path} cannot be read: ${reasonOf(error)}`, { cause: error });
  }
}

/**
 * The directory of this project if its sources are there. An installed package has no sources; then the working
 * directory.
 */
function projectRoot(surroundings: Surroundings): string {
  const folder = dirname(fileURLToPath(import.meta.url));
  // The built program lies in `dist`, this file three folders below the root.
  const root = ['..', '../../..'].map((up) => resolve(folder, up)).find((each) => existsSync(join(each, 'src', 'cli')));
  return root ?? surroundings.directory;
}

/** A path as a user would type it: relative if that is shorter. */
export function shownPath(path: string, surroundings: Surroundings): string {
  const short = relative(surroundings.directory, path);
  return short === '' ? '.' : short.startsWith('..') || isAbsolute(short) ? path : short;
}

/** `--data DIR ` for suggested commands. Empty if they find the directory without it. */
export function dataArgument(path: string, surroundings: Surroundings): string {
  const { directory } = surroundings;
  const usual = resolve(directory, namedByEnvironment(surroundings) ?? DEFAULT_DATA);
  return path === usual ? '' : ` --data ${quoted(shownPath(path, surroundings))}`;
}

/** A word quoted for a shell. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file or directory',
  ENOTDIR: 'a part of the path is a file',
  EEXIST: 'a part of the path is a file',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EROFS: 'the file system is read-only',
  ENAMETOOLONG: 'the path is too long',
};

function reasonOf(error: unknown): string {
  const code = systemCodeOf(error);
  return (code === undefined ? undefined : REASONS[code]) ?? (error instanceof Error ? error.message : String(error));
}
