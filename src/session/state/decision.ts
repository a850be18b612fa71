/** The outcome of one `decide`, and the outcomes that many decisions share. */
import { errorShape, type TroupeError } from '../../base/errors.ts';
import type { Effect } from './inputs.ts';
import type { SessionRecord } from './records.ts';

/** Records to append and effects to carry out. */
export interface Decision {
  readonly records: readonly SessionRecord[];
  readonly effects: readonly Effect[];
}

/**
 * An empty list of records, shared by every transition that writes nothing, to avoid allocations. The list is not
 * frozen, because iterating a frozen array would allocate an iterator and one object per element.
 */
export const NO_RECORDS: readonly never[] = [];

/** No effects. */
export const NO_EFFECTS: readonly never[] = NO_RECORDS;

/** Nothing happens. */
export const NOTHING: Decision = Object.freeze({ records: NO_RECORDS, effects: NO_EFFECTS });

/** Makes the session look for waiting work in the same batch: effect C of the contract. */
export const WAKE: Effect = Object.freeze({ type: 'again', input: Object.freeze({ type: 'wake' }) });

/** The decision that changes nothing and returns an error to the caller. */
export function refuse(error: TroupeError): Decision {
  return { records: [], effects: [{ type: 'refused', error: errorShape(error) }] };
}
