/** The server's options and their validation. */
import { resolve } from 'node:path';
import { z } from 'zod';
import { SERVER_CONNECTIONS_MAX, SERVER_CONNECTIONS_PER_ADDRESS_MAX, SERVER_TOKENS_MAX } from '../base/bounds.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { ConfigError } from '../base/errors.ts';
import { parseOption } from '../base/parse-option.ts';
import { isLoopback, isWildcard } from './hosts.ts';
import { ANYONE, type Caller, checkCaller, type TokenOptions } from './roles.ts';

/** Options of `handler`. */
export interface HandlerOptions {
  /**
   * A token with every role, for all tenants. Default: none. If this option or `tokens` names a token, every request
   * must have one of these tokens, except requests for `/healthz`, `/readyz` and the observer page.
   */
  readonly token?: string;
  /**
   * Further tokens, at most 1,000. Each has its roles. A token with a tenant reaches only the sessions of that
   * tenant. Default: none.
   */
  readonly tokens?: readonly TokenOptions[];
  /**
   * Names of the service, with or without a port (`'agents.example.com'`). A request with any other `Host` is refused,
   * because another site's name may resolve to this server (DNS rebinding). With a token, loopback names are accepted
   * as well. Without a token, loopback names are accepted only if `hosts` is empty, and only for requests that are
   * known to come from this machine. A request is known to come from this machine if `serve` or `nodeListener` received
   * it over a loopback connection and no proxy forwarded it.
   */
  readonly hosts?: readonly string[];
  /**
   * Directory in which `POST /backups` may write backups. Default: none, and then only the program itself can make
   * backups, with `runtime.backup`. The reason: a client must not choose where files are written.
   */
  readonly backups?: string;
  /** Receives each failure that is answered as an internal error. Must not throw. Default: none. */
  readonly onError?: (error: unknown) => void;
  /** Directory of the observer page. Default: beside the built package. */
  readonly observerDirectory?: string;
  /** For tests: the clock of heartbeats. */
  readonly clock?: Clock;
}

/** Options of `serve`. */
export interface ServeOptions extends HandlerOptions {
  /** The port to listen on. 0: any free port; see `url`. */
  readonly port: number;
  /** Address to listen on; default `127.0.0.1`. An address that is not a loopback address needs a `token`. */
  readonly host?: string;
  /**
   * Maximum number of open connections; default 4,096. A further connection may only request `/healthz` and `/readyz`.
   */
  readonly connections?: number;
  /**
   * Maximum number of open connections of one address; default 1,024. Behind a proxy all clients have the same address,
   * so set this option to the value of `connections` there.
   */
  readonly connectionsPerAddress?: number;
}

/** Handler options with defaults filled in. */
export interface CheckedHandlerOptions {
  /** All tokens, without duplicates. Empty: no token is needed. */
  readonly tokens: readonly { readonly token: string; readonly caller: Caller }[];
  readonly hosts: readonly string[];
  /** True if any IP address is accepted as `Host`. This is safe, because DNS rebinding needs a name. */
  readonly takesAddresses: boolean;
  /** Says when a loopback name is accepted as `Host`. `fromLoopback`: only from a peer on this machine. */
  readonly loopbackNames: 'always' | 'fromLoopback' | 'never';
  /** The absolute path of the directory for backups; undefined: the server makes no backups. */
  readonly backups: string | undefined;
  readonly onError: (error: unknown) => void;
  readonly observerDirectory: string | undefined;
  readonly clock: Clock;
}

/** Server options with defaults filled in. */
export interface CheckedServeOptions extends CheckedHandlerOptions {
  readonly port: number;
  readonly host: string;
  readonly connections: number;
  readonly connectionsPerAddress: number;
}

const HOST_DEFAULT = '127.0.0.1';
/** The form of a token: visible ASCII, because it is sent in a header. */
const TOKEN = /^[\x21-\x7e]{1,1024}$/;
const isFunction = (value: unknown): boolean => typeof value === 'function';

const handlerMembers = {
  // Only the types are checked here. `tokensOf` checks the tokens, because its errors never show a token.
  token: z.string().optional(),
  tokens: z.array(z.unknown()).max(SERVER_TOKENS_MAX).optional(),
  hosts: z.array(z.string().min(1)).optional(),
  backups: z.string().min(1).optional(),
  onError: z.custom<(error: unknown) => void>(isFunction, 'must be a function').optional(),
  observerDirectory: z.string().min(1).optional(),
  clock: z
    .custom<Clock>((value) => typeof value === 'object' && value !== null && 'setTimer' in value, 'must be a clock')
    .optional(),
};
const handlerSchema = z.strictObject(handlerMembers);
const serveSchema = z.strictObject({
  ...handlerMembers,
  port: z.number().int().min(0).max(65_535),
  host: z.string().min(1).optional(),
  connections: z.number().int().min(1).optional(),
  connectionsPerAddress: z.number().int().min(1).optional(),
});

/** Throws a `ConfigError` that names the option and never shows the token. */
export function checkHandlerOptions(options: unknown): CheckedHandlerOptions {
  const tokens = tokensOf(options, 'handler');
  return withDefaults(parseOption(handlerSchema, 'handler', withoutTokens(options)), tokens);
}

/** Throws a `ConfigError` that names the option. An address that other machines can reach needs a token. */
export function checkServeOptions(options: unknown): CheckedServeOptions {
  const tokens = tokensOf(options, 'serve');
  const given = parseOption(serveSchema, 'serve', withoutTokens(options));
  const host = bare(given.host ?? HOST_DEFAULT);
  if (!isLoopback(host) && tokens.length === 0) {
    throw new ConfigError(
      `option "serve.host": ${JSON.stringify(host)} can be reached from other machines, which needs option "serve.token"`,
      { data: { key: 'serve.token' } },
    );
  }
  const { hosts, ...rest } = withDefaults(given, tokens);
  const { connections = SERVER_CONNECTIONS_MAX, connectionsPerAddress = SERVER_CONNECTIONS_PER_ADDRESS_MAX } = given;
  return {
    ...rest,
    host,
    port: given.port,
    hosts: [...hosts, host],
    takesAddresses: isWildcard(host),
    connections,
    connectionsPerAddress,
  };
}

/** The tokens of the options, each with its caller. Throws `ConfigError`, which shows no token. */
function tokensOf(options: unknown, name: string): CheckedHandlerOptions['tokens'] {
  const { token, tokens } = (isObject(options) ? options : {}) as Readonly<Record<string, unknown>>;
  const found = token === undefined ? [] : [{ token: checkToken(token, `${name}.token`), caller: ANYONE }];
  const list: unknown = tokens === undefined ? [] : tokens;
  if (!Array.isArray(list)) throw tokenProblem(`${name}.tokens`, 'must be a list');
  // An empty list would allow every request. A caller who gives a list cannot mean that.
  if (tokens !== undefined && list.length === 0)
    throw tokenProblem(`${name}.tokens`, 'is empty; leave it out if no token is needed');
  for (const [index, entry] of (list as readonly unknown[]).entries()) {
    const key = `${name}.tokens.${index}`;
    if (!isObject(entry)) throw tokenProblem(key, 'must be an object with a token and a role');
    const { token: given, ...caller } = entry as { readonly token?: unknown };
    found.push({ token: checkToken(given, `${key}.token`), caller: checkCaller(caller, key, index) });
  }
  const known = new Set<string>();
  for (const [index, { token: each }] of found.entries()) {
    // With the same token twice, the order of the list would decide which caller a request has.
    if (known.has(each)) throw tokenProblem(`${name}.tokens`, `number ${index} has the token of an earlier one`);
    known.add(each);
  }
  return found;
}

function checkToken(token: unknown, key: string): string {
  if (typeof token === 'string' && TOKEN.test(token)) return token;
  throw tokenProblem(key, 'must be 1 to 1024 visible ASCII characters without blanks');
}

function tokenProblem(key: string, text: string): ConfigError {
  return new ConfigError(`option "${key}" ${text}`, { data: { key } });
}

/** The options without their tokens, because the general check shows the refused value. */
function withoutTokens(options: unknown): unknown {
  if (!isObject(options)) return options ?? {};
  const { token: _token, tokens, ...rest } = options as { readonly token?: unknown; readonly tokens?: unknown };
  // The entries become `null`: the schema checks only their number.
  return Array.isArray(tokens) ? { ...rest, tokens: tokens.map(() => null) } : rest;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function withDefaults(
  given: z.infer<typeof handlerSchema>,
  tokens: CheckedHandlerOptions['tokens'],
): CheckedHandlerOptions {
  const { hosts = [] } = given;
  return {
    tokens,
    hosts,
    loopbackNames: tokens.length > 0 ? 'always' : hosts.length === 0 ? 'fromLoopback' : 'never',
    takesAddresses: false,
    backups: given.backups === undefined ? undefined : resolve(given.backups),
    onError: given.onError ?? ((): void => undefined),
    observerDirectory: given.observerDirectory,
    clock: given.clock ?? systemClock,
  };
}

/** An address without brackets: `[::1]` as `::1`. */
function bare(host: string): string {
  return host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host;
}
