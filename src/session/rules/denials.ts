/** Ends waiting calls that get no approval or no answer. Pure. */
import { defined } from '../../base/defined.ts';
import type { OpenCall } from '../state/messages.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { unansweredText } from './tool-texts.ts';
import { type WaitingCall, waitingCallNamed } from './waiting-calls.ts';

/** A waiting call that gets no approval or no answer. `content`: its result. */
export interface DeniedCall {
  readonly call: OpenCall;
  readonly content: string;
  readonly reason?: string;
  /** The author of the denial; missing: the runtime ends the call. */
  readonly by?: string;
}

/**
 * The end of a waiting call. A call that needs an approval gets the result `denied`; a question ends with reason `why`.
 */
export function endOf(state: SessionState, { callId, kind }: WaitingCall, denied: string, why: string): DeniedCall {
  const call = waitingCallNamed(state, callId);
  if (call === undefined) throw new Error(`S4: call ${callId} waits and is not open`);
  return { call, content: kind === 'approval' ? denied : unansweredText(why) };
}

/** The records of the denials and results of these calls, in one batch. `firstId`: pending id of the first result. */
export function denials(ended: readonly DeniedCall[], firstId: number): readonly SessionRecord[] {
  return ended.flatMap(({ call, content, reason, by }, index): readonly SessionRecord[] => [
    { type: 'decided', callId: call.id, allow: false, ...defined({ reason, by }) },
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
