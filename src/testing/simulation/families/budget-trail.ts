/**
 * Checks in a session's log that the model answers no half-step that was claimed after the budget was used up (I29 of
 * `invariants.ts`). The runtime may claim such a half-step in order to refuse the turn.
 *
 * Owns: the number of a half-step that was claimed too late. Does not own: the log.
 */
import { tokensOf } from '../../../base/messages.ts';
import type { SessionRecord } from '../../../session/state/records.ts';
import type { SessionState } from '../../../session/state/state.ts';

/** An answered model call of a half-step that was claimed after the budget was used up. */
export interface BudgetFault {
  readonly kind: 'failed';
  readonly what: string;
}

/** See the head of the file. */
export class BudgetTrail {
  /** The half-step that was claimed although the budget was used up. */
  #beyond: number | undefined;

  /** Takes a record, and the state before it. */
  before(state: SessionState, record: SessionRecord): BudgetFault | undefined {
    if (record.type === 'claimed') this.#beyond = isUsedUp(state) ? record.halfStep : undefined;
    if (record.type !== 'responded' || record.halfStep !== this.#beyond) return undefined;
    const what = `half-step ${record.halfStep} of ${state.id} began after its budget was used up (I29)`;
    return { kind: 'failed', what };
  }
}

function isUsedUp({ usage, budget }: SessionState): boolean {
  return budget?.tokens !== undefined && tokensOf(usage) + budget.below >= budget.tokens;
}
