/**
 * The consequences of an edit that removes or changes calls that have not started. Such calls are held at a message
 * boundary, wait for a person, or belong to a suspended run. Changes the given state in place, as `apply` does;
 * otherwise pure.
 *
 * Invariants:
 *  E1 a call whose message leaves is removed, and so is its wait for an approval: `approve` then returns false;
 *  E2 a call runs only in the form that a person was asked about. A call that waits for a person is removed if its
 *     name or input changes. A held call that changes needs a person's approval if the agent has an approval predicate.
 *     A call whose MCP server asks a question has begun, and continues with its original input;
 *  E3 any other call that has not started runs in its new form;
 *  E4 a suspended run without remaining calls, or without any message, is no longer suspended.
 */
import type { EventBody } from '../../events/event.ts';
import { withWaiting } from '../rules/waiting-calls.ts';
import type { LoggedMessage, OpenCall } from '../state/messages.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { loggedForm, wireId } from './logged-form.ts';

type Edited = Extract<SessionRecord, { type: 'edited' }>;
type ChangedCall = Pick<OpenCall, 'id' | 'name' | 'input'>;

const NONE: readonly never[] = [];

/** The calls that have not started and that this edit changes, in their new form. Must be called before `applyEdit`. */
export function changedCalls(state: SessionState, record: Edited): readonly ChangedCall[] {
  if (state.openCalls.size === 0 || record.updated === undefined) return NONE;
  const waiting = state.approvals?.waiting ?? NONE;
  const isUnstarted = state.held !== undefined || state.suspended !== undefined;
  const changed: ChangedCall[] = [];
  for (const { message } of record.updated) {
    for (const { type, toolUseId: id, toolName: name = '', input } of loggedForm(message)) {
      if (type !== 'tool_call' || id === undefined) continue;
      const open = state.openCalls.get(id);
      if (open === undefined || !(isUnstarted || waiting.includes(id))) continue;
      const isSame = wireId(open.name) === name && JSON.stringify(open.input) === JSON.stringify(input);
      if (!isSame) changed.push({ id, name, input });
    }
  }
  return changed;
}

/** Ids of the changed calls that must be removed, because a person was asked about their earlier form (E2). */
export function revokedCalls(state: SessionState, changed: readonly ChangedCall[]): readonly string[] {
  const waiting = state.approvals?.waiting ?? NONE;
  return changed.flatMap(({ id }) => (waiting.includes(id) ? [id] : []));
}

/**
 * Carries out the consequences of an applied edit for calls that have not started (E1 to E3). `publish` publishes an
 * event for a changed state.
 */
export function settleCalls(
  state: SessionState,
  changed: readonly ChangedCall[],
  publish: (body: EventBody) => void,
): void {
  for (const id of revokedCalls(state, changed)) state.openCalls.delete(id);
  for (const { id, name, input } of changed) {
    const open = state.openCalls.get(id);
    if (open === undefined) continue;
    // The timeout, and the reason for refusing the call, belonged to the old input.
    const { timeoutMs: _timeoutMs, ...rest } = open;
    state.openCalls.set(id, { ...rest, name, input });
    const { held, suspended } = state;
    if (held !== undefined) {
      state.held = { ...held, calls: held.calls.map((each) => (each.id === id ? { id, isChanged: true } : each)) };
    }
    if (suspended?.refused !== undefined) {
      const { [id]: _cured, ...refused } = suspended.refused;
      state.suspended = { ...suspended, refused };
    }
  }
  const { approvals } = state;
  if (approvals === undefined || approvals.waiting.length === 0) return;
  const left = withWaiting(approvals, (id) => state.openCalls.has(id));
  if (left.waiting.length === approvals.waiting.length) return;
  state.approvals = left;
  if (left.waiting.length === 0) publish({ type: 'session.state', state: 'executing' });
}

/**
 * Ends the suspension of a run if no calls or no messages are left (E4). True if the suspension ended. `pending`: the
 * number of calls that were open before.
 */
export function settleSuspension(state: SessionState, pending: number): boolean {
  const isSpent = pending > 0 && state.openCalls.size === 0;
  if (!isSpent && state.messages.some((message) => message.prompt !== true)) return false;
  state.suspended = undefined;
  return true;
}

/** Closes the calls of a suspended run that a change of branch hid. These calls stay unanswered in their branch. */
export function forgetHidden(state: SessionState, hidden: readonly LoggedMessage[]): void {
  for (const { type, toolUseId } of hidden) {
    if (type === 'tool_call' && toolUseId !== undefined) state.openCalls.delete(toolUseId);
  }
}
