/**
 * Deferred rollback: a failed turn stays visible, and leaves the history when the next turn starts. Without
 * `settings.recovery.rollbackFailed` a failed turn's message stays for good. Pure.
 */

import { isRealUserMessage } from '../rules/run-loop.ts';
import type { Environment } from '../state/inputs.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';

/**
 * The records that remove what the last failed turn left, from the user's last own message on. There are no such
 * records if no turn failed, if there is nothing to remove, or if another attempt may succeed. In the process in which
 * the turn failed, only a request that the provider refused is rolled back, since the same history would be refused
 * again. For a session that was read from its log, every failed turn is.
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
