/** Names of systems and workloads, and the parameters of one measuring process. */

/** A measured system. */
export type SystemName = 'inline' | 'isolated' | 'loop' | 'kernel' | 'memory' | 'sdk';

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
  | 'refusals'
  | 'family'
  | 'concurrency'
  | 'store-size'
  | 'request-bytes'
  | 'threads'
  | 'growth'
  | 'watched'
  | 'watched-http'
  | 'scale';

/** The size of a workload: `quick` for a short look, `long` for profiles. */
export type Scale = 'quick' | 'full' | 'long';

export const SYSTEMS: readonly SystemName[] = ['inline', 'isolated', 'loop', 'kernel', 'memory', 'sdk'];

/** The variant of `watched` and `watched-http` with which the other variants are compared. */
export const NO_READER = 'no reader';

/** The parameters of one measuring process. */
export interface RunContext {
  readonly system: SystemName;
  readonly scale: Scale;
  /** The folder with the loop's driver. */
  readonly loopFolder: string;
  /** The seed of random choices. */
  readonly seed: number;
}
