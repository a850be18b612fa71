/** Names of systems and workloads, and the parameters of one measuring process. */

/** A measured system. */
export type SystemName = 'inline' | 'isolated' | 'loop' | 'kernel' | 'memory' | 'sdk' | 'http';

/** A workload. */
export type WorkloadName =
  | 'W1'
  | 'W2'
  | 'W3'
  | 'W4'
  | 'W5'
  | 'W5s'
  | 'W6'
  | 'W7'
  | 'W8'
  | 'W9'
  | 'W10'
  | 'W11'
  | 'W13'
  | 'refusals'
  | 'limits'
  | 'family'
  | 'concurrency'
  | 'store-size'
  | 'request-bytes'
  | 'threads'
  | 'growth'
  | 'watched'
  | 'watched-http'
  | 'hand-over'
  | 'backup'
  | 'deletions'
  | 'cluster'
  | 'scale';

/** The size of a workload: `quick` for a short look, `long` for profiles. */
export type Scale = 'quick' | 'full' | 'long';

export const SYSTEMS: readonly SystemName[] = ['inline', 'isolated', 'loop', 'kernel', 'memory', 'sdk', 'http'];

/** The variant of `watched`, `watched-http` and `W10` with which the other variants are compared. */
export const NO_READER = 'no reader';

/** The variant of `W10` with a reader of all sessions. */
export const READER_OF_ALL = 'a reader of everything';

/** The variant of `W13` with which the import of the package is compared: zod and lmdb alone. */
export const LIBRARIES = 'zod and lmdb';

/** The variant of `backup` with which the other is compared. */
export const NO_BACKUP = 'no backup';

/** The variant of `deletions` with which the other is compared. */
export const NO_DELETIONS = 'no deletions';

/** The variant of `cluster` with which the others are compared, and the one whose database is 2 ms away. */
export const NO_CLUSTER = 'LMDB alone';
export const SLOW_CLUSTER = 'PostgreSQL, 2 ms away';

/** The parameters of one measuring process. */
export interface RunContext {
  readonly system: SystemName;
  readonly scale: Scale;
  /** The folder with the loop's driver. */
  readonly loopFolder: string;
  /** The seed of random choices. */
  readonly seed: number;
}
