/** The options of `postgres()`, their checks, and the data that they become. */
import { hostname } from 'node:os';
import { z } from 'zod';
import {
  DATABASE_URL_CHARACTERS_MAX,
  LEASE_MS_DEFAULT,
  LEASE_MS_MAX,
  LEASE_MS_MIN,
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
import type { ClusterPlan } from '../cluster/plan.ts';

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
   * The number of shards, each with a session thread. A new cluster gets this number, and keeps it; an existing cluster
   * must have this number. Default: the number of the cluster; for a new cluster `threads.sessions`, or 1.
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
   * `'forever'` for a standby. Default 30,000: longer than the lease that a crash leaves behind.
   */
  readonly waitMs?: number | 'forever';
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
  url: z
    .string()
    .max(DATABASE_URL_CHARACTERS_MAX)
    .regex(/^postgres(?:ql)?:\/\/\S+$/u, 'must be an address that begins with postgres:// or postgresql://'),
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
});

/** The data of a connection, as `postgres()` made it. */
export const dataSchema: z.ZodType<PostgresData> = z
  .strictObject({ url: z.string(), tls: tlsSchema.optional(), schema: z.string() })
  .transform(({ tls, ...data }): PostgresData => ({ ...data, ...defined({ tls }) }));

/** The plan of a cluster on PostgreSQL. `module`: the URL of its driver. Throws `ConfigError` for a bad option. */
export function postgresPlan(given: PostgresOptions, module: string): ClusterPlan {
  const options = parseOption(optionsSchema, 'postgres', given);
  if (!URL.canParse(options.url)) {
    throw new ConfigError(
      'option "postgres.url" is no address that can be parsed; a password in it must be percent-encoded',
      {
        data: { key: 'postgres.url' },
      },
    );
  }
  const { url, tls, schema = 'troupe', waitMs = OWNER_WAIT_MS_DEFAULT } = options;
  return {
    kind: 'cluster',
    module,
    data: { url, schema, ...defined({ tls }) },
    node: options.node ?? `${hostname()}:${process.pid}`.slice(0, NODE_NAME_CHARACTERS_MAX),
    leaseMs: options.leaseMs ?? LEASE_MS_DEFAULT,
    holdMs: options.holdMs ?? LOG_HOLD_MS_DEFAULT,
    ...defined({ shards: options.shards, waitMs: waitMs === 'forever' ? undefined : waitMs }),
  };
}
