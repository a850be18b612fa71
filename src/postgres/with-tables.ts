/** Work on the tables of a cluster without a place in the cluster, for the commands of `troupe cluster`. */
import { asError, ConfigError, StoreFullError, StoreKeyError, StoreVersionError } from '../base/errors.ts';
import { Connection, isPassing } from './connection.ts';
import { dataSchema, type PostgresOptions, postgresPlan } from './options.ts';
import { type Tables, tablesOf } from './schema.ts';

/** The database and the schema of a cluster. */
export type ClusterAddress = Pick<PostgresOptions, 'url' | 'schema'>;

/**
 * Runs `work` on a connection that is closed afterwards. Rejects with `ConfigError` for a bad option, for a missing
 * package, and if the database refuses; with `StoreFullError` if it does not answer; and with `StoreKeyError` and
 * `StoreVersionError` of `work`.
 */
export async function withTables<T>(
  address: ClusterAddress,
  work: (connection: Connection, tables: Tables, schema: string) => Promise<T>,
): Promise<T> {
  const data = dataSchema.parse(postgresPlan(address, '').data);
  const connection = new Connection(data);
  try {
    return await work(connection, tablesOf(data.schema), data.schema);
  } catch (error) {
    throw readableError(error);
  } finally {
    await connection.close();
  }
}

function readableError(thrown: unknown): Error {
  if (thrown instanceof ConfigError || thrown instanceof StoreKeyError || thrown instanceof StoreVersionError) {
    return thrown;
  }
  const cause = asError(thrown);
  if (isPassing(cause)) {
    return new StoreFullError(`the database of the cluster cannot be used now: ${cause.message}`, {
      cause,
      data: { reason: 'database' },
    });
  }
  return new ConfigError(`the database of the cluster refuses: ${cause.message}`, { cause, data: { key: 'postgres' } });
}
