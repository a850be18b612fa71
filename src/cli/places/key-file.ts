/** Reads the keys of an encrypted store for a command. */
import { readFile, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { KEY_FILE_BYTES_MAX } from '../../base/bounds.ts';
import type { GivenKeys } from '../../journal/store/store-key.ts';
import { keyBytes } from '../../runtime/protocol/encryption-option.ts';
import { type Arguments, type OptionSpec, UsageError } from '../command.ts';
import type { Surroundings } from '../surroundings.ts';

/** The environment variable that names the file. */
const KEY_FILE_VARIABLE = 'TROUPE_KEY_FILE';

/** The option that names the file. */
export const KEY_FILE_OPTION: OptionSpec = {
  kind: 'text',
  value: 'FILE',
  help: `File with the key of an encrypted store, as hexadecimal digits or base64; earlier keys on further lines (default: $${KEY_FILE_VARIABLE})`,
};

/**
 * The keys that a command was given; undefined without a file. Rejects with `UsageError` for a file that cannot be
 * read, that is too long, that has no key, or that has a line which is not a key.
 */
export async function keysOf(
  given: Arguments,
  { directory, environment }: Surroundings,
): Promise<GivenKeys | undefined> {
  const named = given.text('key-file') ?? environment[KEY_FILE_VARIABLE];
  if (named === undefined || named.trim() === '') return undefined;
  const path = resolve(directory, named);
  const [key, ...previousKeys] = (await linesOf(path)).map((line, index) => {
    const bytes = keyBytes(line);
    // The line is not shown, because it may be a key with a mistake.
    if (bytes === undefined) throw new UsageError(`line ${index + 1} of ${path} is not a key of 32 bytes`);
    return bytes;
  });
  if (key === undefined) throw new UsageError(`${path} has no key`);
  return { key, previousKeys };
}

async function linesOf(path: string): Promise<readonly string[]> {
  try {
    if ((await stat(path)).size > KEY_FILE_BYTES_MAX) throw new UsageError(`${path} is too long for a file of keys`);
    return (await readFile(path, 'utf8')).split('\n').filter((line) => line.trim() !== '');
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`the file of keys ${path} cannot be read`, { cause: error });
  }
}
