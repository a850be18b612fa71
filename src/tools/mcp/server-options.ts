/** The option `mcp` of `open`, and the form of an `mcp.json`. Loads no MCP package. */
import { z } from 'zod';
import { MCP_SERVER_NAME_CHARACTERS_MAX, MCP_SERVERS_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { ConfigError } from '../../base/errors.ts';
import { isRecord } from '../../base/json.ts';
import { parseOption } from '../../base/parse-option.ts';
import { isReservedToolName } from '../tool-registry.ts';
import type { McpServer, McpServerMap } from './protocol.ts';

/** The name of a server. */
export const serverNameSchema: z.ZodType<string> = z
  .string()
  .regex(/^[A-Za-z0-9_-]+$/, 'must be letters, digits, underscores and hyphens')
  .max(MCP_SERVER_NAME_CHARACTERS_MAX)
  .refine((name) => !isReservedToolName(name), 'must not begin with from_, which is reserved');

const texts = z.record(z.string().min(1), z.string());
const process = {
  command: z.string().min(1),
  args: z.array(z.string()).optional(),
  env: texts.optional(),
  cwd: z.string().min(1).optional(),
};
const address = {
  url: z.url({ protocol: /^https?$/ }),
  headers: texts.optional(),
};
const hasTokens = (value: unknown): boolean =>
  typeof value === 'object' &&
  value !== null &&
  ['token', 'tokens'].some((method) => typeof Reflect.get(value, method) === 'function');
const processSchema = z.strictObject(process);
const addressSchema = z.strictObject({
  ...address,
  authProvider: z
    .custom<object>(hasTokens, 'must be an AuthProvider (token) or an OAuthClientProvider (tokens)')
    .optional(),
});
// Other programs share the file, so their keys are ignored.
const filedSchema = z.object({ mcpServers: z.record(z.string(), z.unknown()) });
const filedProcessSchema = z.object(process);
const filedAddressSchema = z.object(address);

/** The servers of the option `mcp`. Throws `ConfigError` that names the key. */
export function parseServers(given: Readonly<Record<string, unknown>>): McpServerMap {
  checkCount(Object.keys(given).length);
  const servers: Record<string, McpServer> = {};
  for (const [name, server] of Object.entries(given)) {
    const key = `mcp.${name}`;
    parseOption(serverNameSchema, key, name);
    const parsed =
      isRecord(server) && 'url' in server
        ? parseOption(addressSchema, key, server)
        : parseOption(processSchema, key, server);
    servers[name] = defined(parsed) as McpServer;
  }
  return servers;
}

/**
 * The servers of an `mcp.json`: its `mcpServers`, by name. `${NAME}` stands for a variable of the environment, and
 * `${NAME:-text}` for a variable with a default. A server that cannot be used is left out, and `warn` receives the
 * reason. Throws `ConfigError` for a text of another form.
 */
export function parseServerFile(
  text: string,
  environment: Readonly<Record<string, string | undefined>>,
  warn: (message: string) => void,
): McpServerMap {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch (error) {
    throw new ConfigError('the file is not JSON', { cause: error, data: { key: 'mcp' } });
  }
  const { mcpServers } = parseOption(filedSchema, 'mcp', read);
  checkCount(Object.keys(mcpServers).length);
  const servers: Record<string, McpServer> = {};
  for (const [name, given] of Object.entries(mcpServers)) {
    try {
      const server = filedServer(name, expanded(given, environment));
      if (server !== undefined) servers[name] = server;
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      warn(`MCP server ${JSON.stringify(name)} is left out: ${error.message}`);
    }
  }
  return servers;
}

/** One server of a file; undefined if it is turned off. */
function filedServer(name: string, given: unknown): McpServer | undefined {
  const key = `mcpServers.${name}`;
  parseOption(serverNameSchema, key, name);
  if (isRecord(given) && given['disabled'] === true) return undefined;
  const type = isRecord(given) ? given['type'] : undefined;
  if (type === 'sse') {
    throw new ConfigError(`option ${JSON.stringify(`${key}.type`)}: the transport "sse" is not supported; use "http"`);
  }
  const isAddress = isRecord(given) && 'url' in given;
  const result = (isAddress ? filedAddressSchema : filedProcessSchema).safeParse(given);
  if (result.success) return defined(result.data) as McpServer;
  const [issue] = result.error.issues;
  // The error does not show the value, because a variable of the environment may be a secret.
  throw new ConfigError(`option ${JSON.stringify([key, ...(issue?.path ?? [])].join('.'))}: ${issue?.message}`, {
    data: { key },
  });
}

/** The value with its variables filled in. Throws `ConfigError` for a variable that is not set. */
function expanded(value: unknown, environment: Readonly<Record<string, string | undefined>>): unknown {
  if (typeof value === 'string') {
    return value.replaceAll(/\$\{(\w+)(?::-([^}]*))?\}/g, (_whole, name: string, otherwise: string | undefined) => {
      const found = environment[name] ?? otherwise;
      if (found === undefined) throw new ConfigError(`the environment variable ${name} is not set`);
      return found;
    });
  }
  if (Array.isArray(value)) return value.map((each) => expanded(each, environment));
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, expanded(each, environment)]));
}

function checkCount(count: number): void {
  if (count <= MCP_SERVERS_MAX) return;
  throw new ConfigError(`option "mcp" has ${count} servers, and at most ${MCP_SERVERS_MAX} are allowed`, {
    data: { key: 'mcp' },
  });
}
