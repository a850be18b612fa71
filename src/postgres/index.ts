/**
 * Subpath `troupe/postgres`: a cluster on PostgreSQL. Two processes, on two machines, open one cluster: the first
 * works, and the second waits. When the first is gone, the second continues with everything that was acknowledged.
 * Needs the package `pg`.
 */
import type { ClusterPlan } from '../cluster/plan.ts';
import { checkEntry, workerUrl } from '../threads/worker-url.ts';
import { type PostgresOptions, postgresPlan } from './options.ts';

export type { ClusterPlan } from '../cluster/plan.ts';
export type { PostgresOptions, PostgresTls } from './options.ts';

/**
 * A cluster on PostgreSQL, for the option `cluster` of `open`. Makes no connection: `open` does. Throws `ConfigError`
 * for a bad option, and never shows the address, which may have a password.
 */
export function postgres(options: PostgresOptions): ClusterPlan {
  const driver = workerUrl('./driver', import.meta.url);
  checkEntry(driver);
  return postgresPlan(options, driver.href);
}
