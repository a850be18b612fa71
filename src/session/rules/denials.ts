/** The ends of waiting calls without an approval or an answer. Pure. */
import type { OpenCall } from '../state/messages.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { unansweredText } from './tool-texts.ts';
import { type WaitingCall, waitingCallNamed } from './waiting-calls.ts';

/** The end of a waiting call without an approval or an answer. `content`: its result. */
export interface DeniedCall {
  readonly call: OpenCall;
  readonly content: string;
  readonly reason?: string;
}

/** How a waiting call ends: with this text for an approval, or for this reason for a question. */
export function endOf(state: SessionState, { callId, kind }: WaitingCall, denied: string, why: string): DeniedCall {
  const call = waitingCallNamed(state, callId);
  if (call === undefined) throw new Error(`S4: call ${callId} waits and is not open`);
  return { call, content: kind === 'approval' ? denied : unansweredText(why) };
}

/** The denials and the results of these calls, all durable in the same batch. `firstId`: the id of the first result. */
export function denials(ended: readonly DeniedCall[], firstId: number): readonly SessionRecord[] {
  return ended.flatMap(({ call, content, reason }, index): readonly SessionRecord[] => [
    { type: 'decided', callId: call.id, allow: false, ...(reason === undefined ? {} : { reason }) },
    {
      type: 'accepted',
      id: firstId + index,
      entry: {
        type: 'tool_response',
        content,
        source: { type: 'tool', name: call.name },
        toolUseId: call.id,
        success: false,
      },
    },
  ]);
}
