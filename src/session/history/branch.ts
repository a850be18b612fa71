/**
 * Which messages of the log the conversation shows as it stands: those no compression has put a summary in the place of. Pure
 * but linear, as `apply`: the state given is changed.
 */
import type { LoggedMessage, SessionState } from '../state.ts';
import { placeOf } from './apply-edit.ts';

/** Puts messages between `state.messages` and `state.hidden`, each where it belongs; `tokens` and `callIds` follow (S6). */
export function showBranch(state: SessionState): void {
  const isShown = (message: LoggedMessage): boolean =>
    message.archivedBy === undefined || !message.archivedBy.some((number) => state.compactions.has(number));
  const leaving = state.messages.filter((message) => !isShown(message));
  const returning = state.hidden.filter(isShown);
  if (leaving.length > 0) {
    state.messages = state.messages.filter(isShown);
    for (const message of leaving) count(state, message, -1);
  }
  if (returning.length > 0) {
    state.messages = inPlace([...state.messages, ...returning]);
    for (const message of returning) count(state, message, 1);
  }
  if (leaving.length + returning.length === 0) return;
  const gone = new Set(returning);
  state.hidden = inPlace([...state.hidden.filter((message) => !gone.has(message)), ...leaving]);
}

function count(state: SessionState, message: LoggedMessage, sign: 1 | -1): void {
  state.tokens += sign * message.tokens;
  if (message.type !== 'tool_call' || message.toolUseId === undefined) return;
  if (sign === 1) state.callIds.add(message.toolUseId);
  else state.callIds.delete(message.toolUseId);
}

/** In the order of the conversation; the sort is stable, so that parts of one answer stay in theirs. */
function inPlace(messages: readonly LoggedMessage[]): LoggedMessage[] {
  return [...messages].sort((a, b) => placeOf(a) - placeOf(b) || a.seq - b.seq);
}
