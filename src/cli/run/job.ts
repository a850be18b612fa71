/** The input of a run, read from its arguments. */
import type { ReviewOrder } from '../review/plan.ts';
import type { Output, Surroundings } from '../surroundings.ts';

/** See the head of the file. */
export interface Job {
  readonly order: ReviewOrder;
  /** The reviewer's session. */
  readonly id: string;
  /** Data directory, absolute. */
  readonly data: string;
  readonly isFresh: boolean;
  readonly isJson: boolean;
  /** The stream of the header and the progress. */
  readonly messages: Output;
  /** The stream of the report at the end. */
  readonly result: Output;
  /** The command that repeats this run. */
  readonly again: string;
  readonly surroundings: Surroundings;
}
