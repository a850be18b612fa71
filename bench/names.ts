/** Names of systems and workloads, and what one measuring process is told. */

/** Who is measured. */
export type SystemName = 'inline' | 'isolated' | 'loop' | 'kernel' | 'memory' | 'sdk';

/** What is measured. */
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
  | 'threads'
  | 'growth'
  | 'watched'
  | 'watched-http'
  | 'scale';

/** How much of it: `quick` for a look, `long` for profiles. */
export type Scale = 'quick' | 'full' | 'long';

export const SYSTEMS: readonly SystemName[] = ['inline', 'isolated', 'loop', 'kernel', 'memory', 'sdk'];

/** The variant of `watched` and `watched-http` that the others are compared with. */
export const NO_READER = 'no reader';

/** What one measuring process is told. */
export interface RunContext {
  readonly system: SystemName;
  readonly scale: Scale;
  /** The folder that holds the loop's driver. */
  readonly loopFolder: string;
  /** Of what chance decides. */
  readonly seed: number;
}
