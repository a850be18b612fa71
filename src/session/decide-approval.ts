/** Calls that wait for a person: the decision about one, and what follows for the others of its round. Pure. */
import { startCall } from './decide-tools.ts';
import { type Decision, WAKE } from './decision.ts';
import type { Effect, Environment, Input } from './inputs.ts';
import type { SessionRecord } from './records.ts';
import { isWaitingForApproval } from './run-loop-state.ts';
import type { OpenCall, SessionState } from './state.ts';
import { APPROVAL_SKIPPED, deniedText } from './tool-texts.ts';

/**
 * An allowed call starts, with the input it was given instead where there is one. A denied one is answered, and with it every
 * other call of the round that still waits. The same decision told again is answered as the first was; one that comes too
 * late, or contradicts, is answered `false`.
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
    return { records: denials(state, call, input.reason), effects: [result, WAKE] };
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

/** The call's denial and the answers of all that wait with it, each durable in the same batch. */
function denials(state: SessionState, denied: OpenCall, reason: string | undefined): readonly SessionRecord[] {
  const records: SessionRecord[] = [];
  let id = state.nextPendingId;
  const waiting = state.approvals?.waiting ?? [];
  for (const callId of [denied.id, ...waiting.filter((other) => other !== denied.id)]) {
    const call = state.openCalls.get(callId);
    if (call === undefined) continue;
    const isDenied = callId === denied.id;
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
