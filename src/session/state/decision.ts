/** The outcome of one step of a session, and the outcomes that are always the same. */
import type { Effect } from './inputs.ts';
import type { SessionRecord } from './records.ts';

/** What to remember and what to do. */
export interface Decision {
  readonly records: readonly SessionRecord[];
  readonly effects: readonly Effect[];
}

/**
 * No records. Shared, as every step that writes nothing has it. Held back from change by its type alone: a loop over a
 * frozen list makes an iterator and an object a place, which in the innermost loop is what sharing it was to save.
 */
export const NO_RECORDS: readonly never[] = [];

/** No effects. */
export const NO_EFFECTS: readonly never[] = NO_RECORDS;

/** Nothing happens. */
export const NOTHING: Decision = Object.freeze({ records: NO_RECORDS, effects: NO_EFFECTS });

/** The session looks at what waits: effect C of the contract. */
export const WAKE: Effect = Object.freeze({ type: 'again', input: Object.freeze({ type: 'wake' }) });
