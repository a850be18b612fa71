/** The tokens of a server, from a file (`--tokens FILE`). */
import { open } from 'node:fs/promises';
import { resolve } from 'node:path';
import { TOKENS_FILE_BYTES_MAX } from '../base/bounds.ts';
import { asError } from '../base/errors.ts';
import { ConfigError } from '../index.ts';
import type { TokenOptions } from '../server/index.ts';
import { UsageError } from './command.ts';

/** The mode bits that give rights to the group and to others. */
const OTHERS = 0o077;

/**
 * Reads the list of tokens in a JSON file. `serve` checks the entries. `directory`: the base of a relative path. No
 * error shows the contents of the file.
 *
 * Rejects with `UsageError` for a file that cannot be opened. Rejects with `ConfigError` for a file that is too large,
 * that is not a JSON list, or that gives any right to users other than its owner.
 */
export async function readTokensFile(path: string, directory: string): Promise<readonly TokenOptions[]> {
  const found = parsed(await read(resolve(directory, path), path), path);
  if (Array.isArray(found)) return found as readonly TokenOptions[];
  throw new ConfigError(`--tokens ${path}: must hold a list of { "token", "role", "tenant" } as JSON`);
}

async function read(place: string, path: string): Promise<string> {
  const file = await open(place, 'r').catch((error: unknown) => {
    throw new UsageError(`--tokens ${path}: ${asError(error).message}`, { cause: error });
  });
  try {
    // The open file is checked, not the path: the path may lead to another file a moment later.
    const { mode, size } = await file.stat();
    if (process.platform !== 'win32' && (mode & OTHERS) !== 0) {
      const rights = (mode & 0o777).toString(8).padStart(4, '0');
      throw new ConfigError(`--tokens ${path}: others may use the file (${rights}); run chmod 600 ${path}`);
    }
    if (size > TOKENS_FILE_BYTES_MAX)
      throw new ConfigError(`--tokens ${path}: has ${size} bytes; at most ${TOKENS_FILE_BYTES_MAX} are read`);
    return await file.readFile('utf8');
  } finally {
    await file.close();
  }
}

function parsed(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // biome-ignore lint/style/useErrorCause: the parser's error quotes the text, which has tokens.
    throw new ConfigError(`--tokens ${path}: is not JSON`);
  }
}
