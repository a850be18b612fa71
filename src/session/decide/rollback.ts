/**
 * Rollback of a failed turn: its messages stay visible until the next turn starts, and then leave the history. Without
 * `settings.recovery.rollbackFailed` they stay for good. Pure.
 */

import { isRealUserMessage } from '../rules/run-loop.ts';
import type { Environment } from '../state/inputs.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';

/**
 * The records that remove the messages of the last failed turn: the last message that the user wrote
 * (`isRealUserMessage`) and all later ones. Empty if no turn failed, if there is nothing to remove, or if another
 * attempt may succeed.
 *
 * Until the process restarts, a failed turn is rolled back only if the provider refused the request, because the same
 * history would be refused again. After a restart of the process every failed turn is rolled back.
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
