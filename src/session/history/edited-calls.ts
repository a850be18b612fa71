/**
 * Calls that were not started yet, when an edit of the history takes or changes them: those held at a message boundary, those
 * that wait for a person, those of a suspended run. Pure but linear, as `apply`.
 *
 * Invariants:
 *  E1 a call whose message leaves is gone with all that waited for it: no approval is left of it, `approve` answers false;
 *  E2 what a person was asked about is what runs: a call that waits for one is gone when its name or input changes, and a
 *     held one needs a person then if a predicate was asked about it as it was;
 *  E3 any other call that was not started runs as the history has it now;
 *  E4 a suspended run that no call is left of, or nothing at all, is suspended no longer.
 */
import type { EventBody } from '../../events/event.ts';
import type { LoggedMessage, OpenCall } from '../state/messages.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { loggedForm, wireId } from './logged-form.ts';

type Edited = Extract<SessionRecord, { type: 'edited' }>;
type ChangedCall = Pick<OpenCall, 'id' | 'name' | 'input'>;

const NONE: readonly never[] = [];

/** Calls without a start that ask for something else after this edit, as they are then. Ask before the edit is applied. */
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

/** Of changed calls, those that are gone: a person was asked about them as they were (E2). */
export function revokedCalls(state: SessionState, changed: readonly ChangedCall[]): readonly string[] {
  const waiting = state.approvals?.waiting ?? NONE;
  return changed.flatMap(({ id }) => (waiting.includes(id) ? [id] : []));
}

/** What an edit that was just applied means for calls that were not started (E1 to E3). `tell` is told of a state that changed. */
export function settleCalls(
  state: SessionState,
  changed: readonly ChangedCall[],
  tell: (body: EventBody) => void,
): void {
  for (const id of revokedCalls(state, changed)) state.openCalls.delete(id);
  for (const { id, name, input } of changed) {
    const open = state.openCalls.get(id);
    if (open === undefined) continue;
    // The timeout was asked for with the input that is gone, and so was what was wrong with it.
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
  const left = approvals.waiting.filter((id) => state.openCalls.has(id));
  if (left.length === approvals.waiting.length) return;
  state.approvals = { ...approvals, waiting: left };
  if (left.length === 0) tell({ type: 'session.state', state: 'executing' });
}

/**
 * Ends a suspension of which nothing is left (E4). `pending`: calls that were open before. True when it ended. Only for a
 * session that is suspended.
 */
export function settleSuspension(state: SessionState, pending: number): boolean {
  const isSpent = pending > 0 && state.openCalls.size === 0;
  if (!isSpent && state.messages.some((message) => message.prompt !== true)) return false;
  state.suspended = undefined;
  return true;
}

/** Calls of a suspended run that another branch was shown instead of: they stay there, unanswered. */
export function forgetHidden(state: SessionState, hidden: readonly LoggedMessage[]): void {
  for (const { type, toolUseId } of hidden) {
    if (type === 'tool_call' && toolUseId !== undefined) state.openCalls.delete(toolUseId);
  }
}
