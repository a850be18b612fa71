/**
 * Deferred rollback: a turn that failed is shown as it failed, and taken out of the history when the next one starts. Only
 * with `settings.recovery.rollbackFailed`: without it a failed turn's message stays. Pure.
 */

import { isRealUserMessage } from '../rules/run-loop.ts';
import type { Environment } from '../state/inputs.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';

/**
 * The records that take out what the last failed turn left, from the last message of a user's own on; none where no turn
 * failed, nothing is to be taken out, or the failure may be cured by trying again. While the process lives only a request
 * the provider refused counts (the same history would be refused again); of a session that was read from its log, every
 * failure.
 */
export function rollbackRecords(state: SessionState, environment: Environment): readonly SessionRecord[] {
  const { failure } = state;
  if (failure === undefined || failure.error.message === '' || state.parent !== undefined) return [];
  const isRestored = failure.at < (environment.openedAt ?? 0);
  if (!isRestored && failure.error.code !== 'model_invalid_request') return [];
  const index = state.messages.findLastIndex(isRealUserMessage);
  if (index === -1) return [];
  const removed = state.messages.slice(index).flatMap((message) => (message.prompt === true ? [] : [message.seq]));
  const reason = failure.error.message;
  return [
    { type: 'edited', operation: 'rollback', removed, reason },
    { type: 'rolledBack', reason, index },
  ];
}
