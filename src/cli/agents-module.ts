/** The agents that a user's module gives to a command (`--agents MODULE`). */
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { asError, describeValue } from '../base/errors.ts';
import { type Agent, ConfigError, type OpenOptions } from '../index.ts';
import { importModule } from '../threads/user-modules.ts';
import { UsageError } from './command.ts';

/**
 * The options for `open`: the default export of a module, which is a list of agents or options. `directory`: where a
 * relative path starts. Rejects with `UsageError` if the module cannot be loaded, and with `ConfigError` for a default
 * export of another kind.
 */
export async function agentsModule(path: string, directory: string): Promise<OpenOptions> {
  const found = await load(path, directory);
  if (Array.isArray(found)) return { agents: found as readonly Agent<unknown>[] };
  if (typeof found === 'object' && found !== null) return found;
  throw new ConfigError(
    `--agents ${path}: the default export must be an array of agents, or options of open(), got ${describeValue(found)}`,
  );
}

async function load(path: string, directory: string): Promise<unknown> {
  const url = path.startsWith('file:') ? path : pathToFileURL(resolve(directory, path)).href;
  try {
    return (await importModule(url, `--agents ${path}`))['default'];
  } catch (error) {
    throw new UsageError(asError(error).message, { cause: error });
  }
}
