/** The options of `postgres()`, their checks, and the data that they become. */
import { hostname } from 'node:os';
import { z } from 'zod';
import {
  DATABASE_URL_CHARACTERS_MAX,
  LEASE_MS_DEFAULT,
  LEASE_MS_MAX,
  LEASE_MS_MIN,
  LINE_SECRET_CHARACTERS_MAX,
  LINE_SECRET_CHARACTERS_MIN,
  LOG_HOLD_MS_DEFAULT,
  LOG_HOLD_MS_MAX,
  NODE_NAME_CHARACTERS_MAX,
  OWNER_WAIT_MS_DEFAULT,
  OWNER_WAIT_MS_MAX,
  SCHEMA_NAME_BYTES_MAX,
  SHARDS_MAX,
} from '../base/bounds.ts';
import { defined } from '../base/defined.ts';
import { ConfigError } from '../base/errors.ts';
import { parseOption } from '../base/parse-option.ts';
import type { ClusterPlan, NodeAddress } from '../cluster/plan.ts';
import { listenSchema } from './node-address.ts';

/** TLS of a connection: `true` checks the server's certificate against the system's authorities. */
export type PostgresTls =
  | boolean
  | {
      /** The authorities that are trusted, PEM. */
      readonly ca?: string;
      /** The certificate and the key of this client, PEM. */
      readonly cert?: string;
      readonly key?: string;
      /** The name that the server's certificate must have; default: the host of the address. */
      readonly servername?: string;
    };

/** The options of a cluster on PostgreSQL. */
export interface PostgresOptions {
  /** The address of the database: `postgres://user:password@host:5432/database`. */
  readonly url: string;
  /** TLS of the connections. Default: the `sslmode` of the address; without one, no TLS. */
  readonly tls?: PostgresTls;
  /** The schema with the tables of the cluster, made when it is missing. Each cluster has its own. Default `troupe`. */
  readonly schema?: string;
  /** The name of this node in messages and logs. Default: the host's name and the process id. */
  readonly node?: string;
  /**
   * The number of shards, each with a session thread at the node that has it. A new cluster gets this number, and keeps
   * it; an existing cluster must have this number. With `listen` take at least as many as the most nodes. Default: the
   * number of the cluster; for a new cluster `threads.sessions`, or 1.
   */
  readonly shards?: number;
  /**
   * Milliseconds for which the shards stay with a node that does not renew its lease: the time of a fail-over. Choose a
   * longer time than the database takes to restart, since no session begins to work without a lease. All nodes must
   * have the same value. Default 10,000.
   */
  readonly leaseMs?: number;
  /**
   * Milliseconds for which commits wait for a database that does not answer, before sends are refused. Default 15,000.
   */
  readonly holdMs?: number;
  /**
   * Milliseconds for which `open` waits while another node has the shards; then it rejects with `StoreLockedError`.
   * `'forever'` for a standby. Default 30,000: longer than the default lease, which a node that crashed leaves behind.
   */
  readonly waitMs?: number | 'forever';
  /**
   * The address at which this node listens for the other nodes: a host of this machine that they reach, and a port.
   * Port 0 is any free one. With it, `open` does not wait while other nodes have the shards: the node gets its share of
   * them, and asks their owners for the rest. Needs `secret`, and excludes `waitMs`.
   */
  readonly listen?: { readonly host: string; readonly port: number };
  /** The secret that the nodes share: at least 32 characters, the same on all nodes. Needs `listen`. */
  readonly secret?: string;
}

/** The data of a connection, for each thread. */
export interface PostgresData {
  readonly url: string;
  readonly tls?: PostgresTls;
  readonly schema: string;
}

const tlsSchema: z.ZodType<PostgresTls> = z
  .union([
    z.boolean(),
    z.strictObject({
      ca: z.string().min(1).optional(),
      cert: z.string().min(1).optional(),
      key: z.string().min(1).optional(),
      servername: z.string().min(1).optional(),
    }),
  ])
  .transform((tls): PostgresTls => (typeof tls === 'boolean' ? tls : defined(tls)));

const optionsSchema = z.strictObject({
  // Both are checked by `hiddenOption`, because the error of `parseOption` shows the beginning of a value.
  url: z.unknown().optional(),
  secret: z.unknown().optional(),
  tls: tlsSchema.optional(),
  schema: z
    .string()
    .max(SCHEMA_NAME_BYTES_MAX)
    .regex(/^[a-z_][a-z0-9_]*$/u, 'must have lower-case letters, digits and "_", and begin with no digit')
    .optional(),
  node: z.string().trim().min(1).max(NODE_NAME_CHARACTERS_MAX).optional(),
  shards: z.number().int().min(1).max(SHARDS_MAX).optional(),
  leaseMs: z.number().int().min(LEASE_MS_MIN).max(LEASE_MS_MAX).optional(),
  holdMs: z.number().int().min(0).max(LOG_HOLD_MS_MAX).optional(),
  waitMs: z.union([z.number().int().min(0).max(OWNER_WAIT_MS_MAX), z.literal('forever')]).optional(),
  listen: listenSchema.optional(),
});

const urlSchema = z
  .string()
  .max(DATABASE_URL_CHARACTERS_MAX)
  .regex(/^postgres(?:ql)?:\/\/\S+$/u);

const secretSchema = z.string().min(LINE_SECRET_CHARACTERS_MIN).max(LINE_SECRET_CHARACTERS_MAX);

/** The data of a connection, as `postgres()` made it. */
export const dataSchema: z.ZodType<PostgresData> = z
  .strictObject({ url: z.string(), tls: tlsSchema.optional(), schema: z.string() })
  .transform(({ tls, ...data }): PostgresData => ({ ...data, ...defined({ tls }) }));

/** The plan of a cluster on PostgreSQL. `module`: the URL of its driver. Throws `ConfigError` for a bad option. */
export function postgresPlan(given: PostgresOptions, module: string): ClusterPlan {
  const options = parseOption(optionsSchema, 'postgres', given);
  const url = hiddenOption(
    urlSchema,
    'url',
    options.url,
    `an address that begins with postgres:// or postgresql://, of at most ${DATABASE_URL_CHARACTERS_MAX} characters`,
  );
  if (!URL.canParse(url)) {
    throw new ConfigError(
      'option "postgres.url" is no address that can be parsed; a password in it must be percent-encoded',
      {
        data: { key: 'postgres.url' },
      },
    );
  }
  const { tls, schema = 'troupe', waitMs = OWNER_WAIT_MS_DEFAULT } = options;
  const line = lineOf(options);
  return {
    kind: 'cluster',
    module,
    data: { url, schema, ...defined({ tls }) },
    node: options.node ?? `${hostname()}:${process.pid}`.slice(0, NODE_NAME_CHARACTERS_MAX),
    leaseMs: options.leaseMs ?? LEASE_MS_DEFAULT,
    holdMs: options.holdMs ?? LOG_HOLD_MS_DEFAULT,
    ...defined({
      shards: options.shards,
      waitMs: waitMs === 'forever' || line !== undefined ? undefined : waitMs,
      line,
    }),
  };
}

/** The line of the options; undefined without one. Throws `ConfigError`, which never shows the secret. */
function lineOf(options: {
  readonly listen?: NodeAddress | undefined;
  readonly secret?: unknown;
  readonly waitMs?: unknown;
}): ClusterPlan['line'] {
  const { listen, secret, waitMs } = options;
  const refuse = (name: string, problem: string): never => {
    const key = `postgres.${name}`;
    throw new ConfigError(`option "${key}" ${problem}`, { data: { key } });
  };
  if (listen === undefined && secret === undefined) return undefined;
  if (listen === undefined) return refuse('listen', 'is missing: a "secret" needs it; give both, or none');
  if (secret === undefined) return refuse('secret', 'is missing: "listen" needs it; give both, or none');
  if (waitMs !== undefined) {
    refuse('waitMs', 'is not allowed with "listen", with which `open` does not wait for the shards: leave it out');
  }
  const expected =
    `a string of ${LINE_SECRET_CHARACTERS_MIN} to ${LINE_SECRET_CHARACTERS_MAX} characters, such as 64 random ` +
    'hexadecimal digits';
  return { listen, secret: hiddenOption(secretSchema, 'secret', secret, expected) };
}

/** Checks an option that is secret, or has a password. Throws `ConfigError`, which never shows the value. */
function hiddenOption(schema: z.ZodType<string>, name: string, value: unknown, expected: string): string {
  const { data, success } = schema.safeParse(value);
  if (success) return data;
  const key = `postgres.${name}`;
  const found = typeof value === 'string' ? `a string of ${value.length} characters` : typeof value;
  throw new ConfigError(`option "${key}" must be ${expected}; got ${found}`, { data: { key } });
}
