/** Dispatch of an answer's calls and the arrival of their results (contract §5.3). Pure. */

import { isBlank } from '../../base/messages.ts';
import { askedInput } from '../rules/asked-input.ts';
import { isMissing, missingAgentError, neededVersion } from '../rules/epoch.ts';
import { imagesProblem } from '../rules/images.ts';
import { isWaitingForApproval } from '../rules/run-loop.ts';
import { BLANK_RESULT, unknownToolText } from '../rules/tool-texts.ts';
import { type Decision, refuse, WAKE } from '../state/decision.ts';
import type { Effect, Environment, Input } from '../state/inputs.ts';
import type { OpenCall } from '../state/messages.ts';
import type { Entry, RecordOf } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';

/** Keys contain the time as a number in this base (digits 0 to 9 and a to z). */
const TIME_RADIX = 36;

/** Starts every open call, in order. Refused and unknown calls are answered at once with a failure. */
export function decideDispatch(
  state: SessionState,
  input: Extract<Input, { type: 'dispatch' }>,
  environment: Environment,
): Decision {
  const effects: Effect[] = [];
  for (const call of state.openCalls.values()) {
    if (isWaitingForApproval(state, call.id)) continue;
    // The model chose the id, so it may equal the name of a property that every object inherits.
    const refused = Object.hasOwn(input.refused, call.id) ? input.refused[call.id] : undefined;
    effects.push(refused === undefined ? startCall(state, call, environment, 'run') : failCall(call.id, refused));
  }
  return { records: [], effects };
}

/** The effect that runs a call, or answers it with a failure if the session has no such tool (F060). */
export function startCall(
  state: SessionState,
  call: OpenCall,
  environment: Environment,
  mode: 'run' | 'probe',
): Effect {
  const facts = environment.agent.tool(call.name);
  if (facts === undefined) return failCall(call.id, unknownToolText(call.name, environment.agent.toolNames));
  if (facts.asks !== undefined) return { type: 'again', input: askedInput(call, facts.asks) };
  return {
    type: 'runTool',
    callId: call.id,
    name: call.name,
    input: call.input,
    key: callKey(state, call),
    timeoutMs: call.timeoutMs ?? facts.timeoutMs,
    mode,
    isRuntimeTool: facts.isRuntimeTool,
    ...(call.elicited === undefined ? {} : { elicited: call.elicited }),
  };
}

/**
 * Records a decision about a waiting call, and starts the call. The decision is refused while the session's agent is
 * missing, and the call keeps waiting. If the decision were recorded, a later recovery would not know that the call
 * never started.
 */
export function startDecided(
  state: SessionState,
  call: OpenCall,
  environment: Environment,
  decided: RecordOf<'decided'>,
): Decision {
  if (isMissing(environment.agent)) return refuse(missingAgentError(state.agent ?? '', neededVersion(state)));
  return {
    records: [decided],
    effects: [startCall(state, call, environment, 'run'), { type: 'result', value: true }],
  };
}

/**
 * Idempotency key of a call: the session's id, the seq of the call's message, and the time at which the session was
 * created. The key is stable across crashes. Without the time, two sessions with the same id would give a service the
 * same keys. Examples are a deleted session and its successor, and sessions of two stores.
 */
export function callKey(
  { id, createdAt }: Pick<SessionState, 'id' | 'createdAt'>,
  { seq }: Pick<OpenCall, 'seq'>,
): string {
  return `${id}#${seq}@${createdAt.toString(TIME_RADIX)}`;
}

function failCall(callId: string, content: string): Effect {
  return { type: 'again', input: { type: 'toolFinished', callId, content, success: false } };
}

/**
 * A result becomes one mailbox entry. A result whose call already has a response is dropped (R20, A5). If its images do
 * not fit into the session's window, the call is answered as failed, with the reason.
 */
export function decideToolFinished(
  state: SessionState,
  input: Extract<Input, { type: 'toolFinished' }>,
  { agent }: Pick<Environment, 'agent'>,
): Decision {
  const call = state.openCalls.get(input.callId);
  if (call === undefined) return { records: [], effects: [{ type: 'stale', what: 'tool result' }] };
  const problem = imagesProblem(state, input.content, agent.imagesMax);
  const content = problem === undefined ? input.content : `the result is not shown: ${problem.text}`;
  const entry: Entry = {
    type: 'tool_response',
    content: isBlank(content) ? BLANK_RESULT : content,
    source: { type: 'tool', name: call.name },
    toolUseId: call.id,
    success: input.success && problem === undefined,
    ...(input.ms === undefined ? {} : { ms: input.ms }),
  };
  return {
    records: [{ type: 'accepted', id: state.nextPendingId, entry }],
    effects: [WAKE],
  };
}
