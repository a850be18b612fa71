/**
 * Calls that wait for a person: the decision about one call, and its consequences for the other calls of its round.
 * Questions wait in the same way; `questions.ts` handles their answers. Pure.
 *
 * A person's decision is not a `verdict`, because no function of the embedder is called. The wait is a record and an
 * event, and the decision is a request that gets a reply. The decision may come after days and restarts, and may be
 * repeated.
 */

import { defined } from '../../base/defined.ts';
import { InvalidArgumentError } from '../../base/errors.ts';
import { denials, endOf } from '../rules/denials.ts';
import { approvalPolicy, approvalsExpireAt, isWaitingForApproval } from '../rules/run-loop.ts';
import {
  APPROVAL_SKIPPED,
  DENIED_FOR_INPUT,
  deniedText,
  expiredReason,
  expiredWhy,
  UNANSWERED,
} from '../rules/tool-texts.ts';
import { questionNamed, waitingCalls } from '../rules/waiting-calls.ts';
import { type Decision, NO_RECORDS, NOTHING, refuse, WAKE } from '../state/decision.ts';
import type { Effect, Environment, Input } from '../state/inputs.ts';
import type { OpenCall } from '../state/messages.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { startDecided } from './tools.ts';

/**
 * Handles a person's decision about a call. An allowed call starts, with the person's input if there is one. A denied
 * call gets a failed result, and so does every other call of the round that still waits. A repeated decision gets the
 * reply of the first decision. A decision that is late or contradicts the first gets the reply `false`. A decision
 * about a question is refused, because a question needs an answer.
 */
export function decideApproval(
  state: SessionState,
  input: Extract<Input, { type: 'approve' }>,
  environment: Environment,
): Decision {
  const { callId, allow } = input;
  const known = state.approvals?.decided.findLast((each) => each.id === callId);
  const call = state.openCalls.get(callId);
  if (questionNamed(state, callId) !== undefined || known?.isQuestion === true) {
    const remedy = 'session.answer(callId, value) answers it, session.decline(callId, reason) declines';
    return refuse(
      new InvalidArgumentError('invalid_argument', `call ${JSON.stringify(callId)} asks a question: ${remedy}`, {
        data: { callId, kind: 'question' },
      }),
    );
  }
  if (call === undefined || !isWaitingForApproval(state, callId)) {
    return { records: [], effects: [{ type: 'result', value: known?.allow === allow }] };
  }
  const result: Effect = { type: 'result', value: true };
  if (!allow) {
    const others = waitingCalls(state).filter((other) => other.callId !== callId);
    const records = denials(
      [
        { call, content: deniedText(input.reason), ...defined({ reason: input.reason, by: input.by }) },
        ...others.map((other) => endOf(state, other, APPROVAL_SKIPPED, UNANSWERED.denied)),
      ],
      state.nextPendingId,
    );
    return { records, effects: [result, WAKE] };
  }
  const changed: OpenCall = input.input === undefined ? call : { ...call, input: input.input };
  return startDecided(state, changed, environment, {
    type: 'decided',
    callId,
    allow,
    ...(input.reason === undefined ? {} : { reason: input.reason }),
    ...(input.input === undefined ? {} : { input: input.input }),
    ...defined({ by: input.by }),
  });
}

/**
 * Denies the calls that have waited longer than the policy allows. A timer that fires early, or after the decision,
 * changes nothing.
 */
export function decideApprovalsExpired(state: SessionState, environment: Environment): Decision {
  const { expiresMs } = approvalPolicy(environment);
  const expiresAt = approvalsExpireAt(state, expiresMs);
  if (expiresMs === null || expiresAt === undefined || environment.now < expiresAt) return NOTHING;
  const late = waitingCalls(state).filter(({ at }) => at + expiresMs <= environment.now);
  const reason = expiredReason(expiresMs);
  const ends = late.map((each) => ({ ...endOf(state, each, deniedText(reason), expiredWhy(expiresMs)), reason }));
  return { records: denials(ends, state.nextPendingId), effects: [WAKE] };
}

/**
 * The records that end waiting calls because a user's message arrived. If the policy says `deny`, all waiting calls are
 * denied, so that the next half-step reads the message. Questions to the parent always end, because the message may
 * contain the answer. `id`: the pending id of the first result.
 */
export function denyForInput(state: SessionState, id: number, environment: Environment): readonly SessionRecord[] {
  if (state.approvals === undefined || state.approvals.waiting.length === 0) return NO_RECORDS;
  const isDenied = approvalPolicy(environment).onInput === 'deny';
  const ended = waitingCalls(state).filter(({ asked }) => isDenied || asked === 'parent');
  const reason = DENIED_FOR_INPUT;
  return denials(
    ended.map((each) => ({ ...endOf(state, each, deniedText(reason), UNANSWERED.input), reason })),
    id,
  );
}
