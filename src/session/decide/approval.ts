/**
 * Handles calls that wait for a person: the decision about one call, and its consequences for the other calls of its
 * round. Pure.
 *
 * A person's decision is not a `verdict`, because no function is called: the question is a record and an event, and the
 * decision is a request that gets a reply. The decision may come days and restarts later, and may be repeated.
 */

import { approvalsExpireAt, isWaitingForApproval } from '../rules/run-loop.ts';
import { APPROVAL_SKIPPED, DENIED_FOR_INPUT, deniedText, expiredReason } from '../rules/tool-texts.ts';
import { type Decision, NOTHING, WAKE } from '../state/decision.ts';
import type { Effect, Environment, Input } from '../state/inputs.ts';
import type { OpenCall } from '../state/messages.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { startCall } from './tools.ts';

/**
 * An allowed call starts, with the replaced input if there is one. A denied call is answered, and so is every other
 * call of the round that still waits. A repeated decision gets the same answer as the first. A decision that is late or
 * contradicts the first is answered `false`.
 */
export function decideApproval(
  state: SessionState,
  input: Extract<Input, { type: 'approve' }>,
  environment: Environment,
): Decision {
  const { callId, allow } = input;
  const call = state.openCalls.get(callId);
  if (call === undefined || !isWaitingForApproval(state, callId)) {
    const known = state.approvals?.decided.findLast((each) => each.id === callId);
    return { records: [], effects: [{ type: 'result', value: known?.allow === allow }] };
  }
  const result: Effect = { type: 'result', value: true };
  if (!allow) {
    const denied = denials(state, { reason: input.reason, only: call }, state.nextPendingId);
    return { records: denied, effects: [result, WAKE] };
  }
  const changed: OpenCall = input.input === undefined ? call : { ...call, input: input.input };
  return {
    records: [
      {
        type: 'decided',
        callId,
        allow,
        ...(input.reason === undefined ? {} : { reason: input.reason }),
        ...(input.input === undefined ? {} : { input: input.input }),
      },
    ],
    effects: [startCall(state, changed, environment, 'run'), result],
  };
}

/**
 * No decision came in time: all waiting calls are denied. A timer that fires early, or after a decision, changes
 * nothing.
 */
export function decideApprovalsExpired(state: SessionState, { now, settings }: Environment): Decision {
  const { expiresMs } = settings.approvals;
  const expiresAt = approvalsExpireAt(state, expiresMs);
  if (expiresAt === undefined || now < expiresAt) return NOTHING;
  const reason = expiredReason(expiresMs ?? 0);
  return { records: denials(state, { reason }, state.nextPendingId), effects: [WAKE] };
}

/**
 * A user's message arrived: waiting calls are denied, so that the next half-step reads the message. `id`: the id of the
 * first answer.
 */
export function denyForInput(state: SessionState, id: number): readonly SessionRecord[] {
  return denials(state, { reason: DENIED_FOR_INPUT }, id);
}

/**
 * The denials and the answers of all waiting calls, all durable in the same batch. `firstId` is the id of the first
 * answer. With `only`, the person denied that call, and the other calls are answered because of this denial.
 */
function denials(
  state: SessionState,
  { reason, only }: { readonly reason: string | undefined; readonly only?: OpenCall },
  firstId: number,
): readonly SessionRecord[] {
  const records: SessionRecord[] = [];
  let id = firstId;
  const waiting = state.approvals?.waiting ?? [];
  for (const callId of only === undefined ? waiting : [only.id, ...waiting.filter((other) => other !== only.id)]) {
    const call = state.openCalls.get(callId);
    if (call === undefined) continue;
    const isDenied = only === undefined || callId === only.id;
    records.push(
      { type: 'decided', callId, allow: false, ...(isDenied && reason !== undefined ? { reason } : {}) },
      {
        type: 'accepted',
        id,
        entry: {
          type: 'tool_response',
          content: isDenied ? deniedText(reason) : APPROVAL_SKIPPED,
          source: { type: 'tool', name: call.name },
          toolUseId: callId,
          success: false,
        },
      },
    );
    id += 1;
  }
  return records;
}
