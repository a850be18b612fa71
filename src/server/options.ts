/** The server's options and their validation. */
import { z } from 'zod';
import { SERVER_CONNECTIONS_MAX, SERVER_CONNECTIONS_PER_ADDRESS_MAX } from '../base/bounds.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { ConfigError } from '../base/errors.ts';
import { parseOption } from '../base/parse-option.ts';
import { isLoopback, isWildcard } from './hosts.ts';

/** Options of `handler`. */
export interface HandlerOptions {
  /**
   * The token that every request must have, except those for `/healthz`, `/readyz` and the observer page. Default:
   * none.
   */
  readonly token?: string;
  /**
   * Names of the service, with or without a port (`'agents.example.com'`). A request with any other `Host` is refused,
   * because another site's name may resolve to this server (DNS rebinding). With a `token`, loopback names are accepted
   * as well. Without one they are accepted only if `hosts` is empty, and only for requests known to come from this
   * machine. That is a request that `serve` or `nodeListener` received over a loopback connection and that no proxy
   * forwarded.
   */
  readonly hosts?: readonly string[];
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
  /** Connections at once; default 4,096. A further connection may only request `/healthz` and `/readyz`. */
  readonly connections?: number;
  /**
   * Connections of one address at once; default 1,024. Behind a proxy all clients have one address, so set this option
   * to `connections` there.
   */
  readonly connectionsPerAddress?: number;
}

/** Handler options with defaults filled in. */
export interface CheckedHandlerOptions {
  readonly token: string | undefined;
  readonly hosts: readonly string[];
  /** True if any IP address is accepted as `Host`. That is safe, because DNS rebinding needs a name. */
  readonly takesAddresses: boolean;
  /** When a loopback name is accepted as `Host`. `fromLoopback`: only from a peer on this machine. */
  readonly loopbackNames: 'always' | 'fromLoopback' | 'never';
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
  token: z.string().regex(TOKEN, 'must be 1 to 1024 visible ASCII characters without blanks').optional(),
  hosts: z.array(z.string().min(1)).optional(),
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
  return withDefaults(parseOption(handlerSchema, 'handler', hideToken(options, 'handler')));
}

/** Throws a `ConfigError` that names the option. An address that other machines can reach needs a token. */
export function checkServeOptions(options: unknown): CheckedServeOptions {
  const given = parseOption(serveSchema, 'serve', hideToken(options, 'serve'));
  const host = bare(given.host ?? HOST_DEFAULT);
  if (!isLoopback(host) && given.token === undefined) {
    throw new ConfigError(
      `option "serve.host": ${JSON.stringify(host)} can be reached from other machines, which needs option "serve.token"`,
      { data: { key: 'serve.token' } },
    );
  }
  const { hosts, ...rest } = withDefaults(given);
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

/** Refuses a bad token here, because the general check shows the refused value. */
function hideToken(options: unknown, name: string): unknown {
  if (typeof options !== 'object' || options === null) return options ?? {};
  const token: unknown = Reflect.get(options, 'token');
  if (token === undefined || (typeof token === 'string' && TOKEN.test(token))) return options;
  throw new ConfigError(`option "${name}.token" must be 1 to 1024 visible ASCII characters without blanks`, {
    data: { key: `${name}.token` },
  });
}

function withDefaults(given: z.infer<typeof handlerSchema>): CheckedHandlerOptions {
  const { token, hosts = [] } = given;
  return {
    token,
    hosts,
    loopbackNames: token !== undefined ? 'always' : hosts.length === 0 ? 'fromLoopback' : 'never',
    takesAddresses: false,
    onError: given.onError ?? ((): void => undefined),
    observerDirectory: given.observerDirectory,
    clock: given.clock ?? systemClock,
  };
}

/** An address without brackets: `[::1]` as `::1`. */
function bare(host: string): string {
  return host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host;
}
