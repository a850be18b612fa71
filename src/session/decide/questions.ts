/**
 * Handles questions and their answers. A model asks a person, a child asks its parent, and an MCP server asks during a
 * call of one of its tools. The call that asks waits like a call that needs an approval (`approval.ts`).
 *
 * The answer to a model's question is the result of the call. After a server's question the same call continues with
 * the answer, under the same key. After a crash it is treated like any other call, by the effect of its tool.
 *
 * The form of an answer comes from the record of the question. So the answer is judged in the same way even after a
 * restart with a changed agent. An answer that does not fit its form changes nothing. Pure.
 */

import { ELICITATIONS_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import { ContentError, describeValue, InvalidArgumentError, LimitError } from '../../base/errors.ts';
import type { Json } from '../../base/json.ts';
import { isBlank } from '../../base/messages.ts';
import { parentQuestion } from '../rules/child-texts.ts';
import { denials, endOf } from '../rules/denials.ts';
import { continuedCall } from '../rules/elicitation.ts';
import { isWaitingForApproval } from '../rules/run-loop.ts';
import { declinedWhy, UNANSWERED, unansweredText } from '../rules/tool-texts.ts';
import { questionNamed, questionOf, waitingCalls } from '../rules/waiting-calls.ts';
import type { AnswerIssue } from '../state/answer-form.ts';
import type { AskedQuestion } from '../state/boundary.ts';
import { type Decision, NOTHING, refuse, WAKE } from '../state/decision.ts';
import type { AskedOfModel, Effect, Environment, Input } from '../state/inputs.ts';
import type { OpenCall } from '../state/messages.ts';
import type { SessionRecord } from '../state/records.ts';
import type { SessionState } from '../state/state.ts';
import { contentBytes } from '../state/tokens.ts';
import { startDecided } from './tools.ts';

/** Makes a call wait for the answer to its question. A question to the parent is sent there in the same batch. */
export function decideAsk(state: SessionState, input: Extract<Input, { type: 'ask' }>): Decision {
  const { type: _type, callId, ...question } = input;
  const call = state.openCalls.get(callId);
  if (call === undefined || isWaitingForApproval(state, callId)) {
    return { records: [], effects: [{ type: 'stale', what: 'question' }] };
  }
  if ((call.elicited?.round ?? 0) >= ELICITATIONS_MAX) {
    const content = `the server has asked ${ELICITATIONS_MAX} questions in this call; it may ask no more`;
    return {
      records: [],
      effects: [{ type: 'again', input: { type: 'toolFinished', callId, content, success: false } }],
    };
  }
  if (question.asked === 'parent' && state.parent === undefined) {
    const content = unansweredText(UNANSWERED.noParent);
    return {
      records: [],
      effects: [{ type: 'again', input: { type: 'toolFinished', callId, content, success: false } }],
    };
  }
  return {
    records: [{ type: 'asked', callId, ...question }],
    effects: question.asked === 'parent' ? [toParent(state, question)] : [],
  };
}

function toParent(state: SessionState, question: AskedOfModel, issues?: readonly AnswerIssue[]): Effect {
  const { asked, question: text, choices, form } = question;
  const input = {
    type: 'childAsked',
    child: state.id,
    question: {
      asked,
      question: text,
      ...(choices === undefined ? {} : { choices }),
      ...(form === undefined ? {} : { form }),
    },
    ...(issues === undefined ? {} : { issues }),
  } as const;
  return { type: 'sendToParent', input };
}

/** A child's question enters the parent's mailbox. If the child's replies go to its handle, the program must answer. */
export function decideChildAsked(state: SessionState, input: Extract<Input, { type: 'childAsked' }>): Decision {
  const child = state.children.get(input.child);
  if (child === undefined || child.replies === 'handle') return NOTHING;
  const content = parentQuestion(child.name, input.question, input.issues);
  const source = { type: 'subagent', name: child.name } as const;
  return {
    records: [{ type: 'accepted', id: state.nextPendingId, entry: { type: 'subagent', content, source } }],
    effects: [WAKE],
  };
}

/**
 * Handles the answer of a person or a program to a question, or the refusal to answer. The answer or the refusal is the
 * result of the call. If an MCP server asked, the call continues with the answer or the refusal instead. A repeated
 * answer gets the reply of the first answer. An answer that is late or contradicts the first gets the reply `false`.
 */
export function decideReply(
  state: SessionState,
  { callId, reply, by }: Extract<Input, { type: 'answer' }>,
  environment: Environment,
): Decision {
  const question = questionNamed(state, callId);
  const call = question === undefined ? undefined : state.openCalls.get(question.callId);
  if (question === undefined || call === undefined) return replyToDecided(state, callId, reply);
  const result: Effect = { type: 'result', value: true };
  if ('declined' in reply) {
    const reason = reply.reason === undefined ? {} : { reason: reply.reason };
    const response = { action: 'decline' } as const;
    const continued = continuedCall(call, question, response);
    if (continued !== undefined) {
      const decided = {
        type: 'decided',
        callId: call.id,
        allow: false,
        ...reason,
        response,
        ...defined({ by }),
      } as const;
      return startDecided(state, continued, environment, decided);
    }
    const content = unansweredText(declinedWhy(reply.reason));
    return {
      records: denials([{ call, content, ...reason, ...defined({ by }) }], state.nextPendingId),
      effects: [result, WAKE],
    };
  }
  const judged = judge(question, reply.value, environment);
  if ('issues' in judged) return refuse(misfitError(call, question, judged.issues));
  const { content } = judged;
  const bytes = contentBytes(content);
  const bytesMax = environment.limits.messageBytes;
  if (bytes > bytesMax) {
    return refuse(
      new LimitError(`an answer of ${bytes} bytes is over limits.messageBytes (${bytesMax})`, {
        data: { limit: 'messageBytes', value: bytes },
      }),
    );
  }
  const response = { action: 'accept', content: judged.value } as const;
  const continued = continuedCall(call, question, response);
  if (continued !== undefined) {
    const answer = reply.fingerprint;
    const decided = { type: 'decided', callId: call.id, allow: true, answer, response, ...defined({ by }) } as const;
    return startDecided(state, continued, environment, decided);
  }
  return {
    records: answered(state, call, content, { answer: reply.fingerprint, ...defined({ by }) }),
    effects: [result, WAKE],
  };
}

function replyToDecided(
  state: SessionState,
  callId: string,
  reply: Extract<Input, { type: 'answer' }>['reply'],
): Decision {
  const known = state.approvals?.decided.findLast((each) => each.id === callId);
  const isUndecided = isWaitingForApproval(state, callId) && questionOf(state, callId) === undefined;
  const isApproval = known === undefined ? isUndecided : known.isQuestion !== true;
  if (isApproval) {
    const remedy = 'session.approve(callId, { allow }) decides';
    return refuse(
      new InvalidArgumentError('invalid_argument', `call ${JSON.stringify(callId)} needs an approval: ${remedy}`, {
        data: { callId, kind: 'approval' },
      }),
    );
  }
  const isSame =
    known !== undefined && ('declined' in reply ? !known.allow : known.allow && known.answer === reply.fingerprint);
  return { records: [], effects: [{ type: 'result', value: isSame }] };
}

/**
 * The parent's text, addressed to this child by `@name`, answers the child's oldest question to the parent. Undefined
 * if no such question waits. If the text does not fit, the parent is asked again, a bounded number of times.
 */
export function answerOfParent(state: SessionState, text: string, environment: Environment): Decision | undefined {
  const question = state.approvals?.questions?.find(({ asked }) => asked === 'parent');
  const call = question === undefined ? undefined : state.openCalls.get(question.callId);
  if (question === undefined || call === undefined) return undefined;
  const value = question.form === undefined ? text : objectIn(text);
  const judged: Judged =
    value === undefined
      ? { issues: [{ path: '$', message: 'the message has no JSON object' }] }
      : judge(question, value, environment);
  if ('content' in judged) return { records: answered(state, call, judged.content), effects: [WAKE] };
  const { callId } = question;
  if ((question.misfits ?? 0) < environment.limits.answerCorrections) {
    return { records: [{ type: 'misanswered', callId }], effects: [toParent(state, question, judged.issues)] };
  }
  const [first] = judged.issues;
  const why = `the answers of the agent that gave you your task do not fit: ${first?.path}: ${first?.message}`;
  return { records: denials([{ call, content: unansweredText(why) }], state.nextPendingId), effects: [WAKE] };
}

/** Ends the questions to a parent that will not answer any more, so that the child continues without answers. */
export function decideParentEnded(state: SessionState): Decision {
  if (state.replies === 'handle') return NOTHING;
  const ended = waitingCalls(state).filter(({ asked }) => asked === 'parent');
  if (ended.length === 0) return NOTHING;
  const ends = ended.map((each) => endOf(state, each, '', UNANSWERED.parentEnded));
  return { records: denials(ends, state.nextPendingId), effects: [WAKE] };
}

type Judged = { readonly content: string; readonly value: Json } | { readonly issues: readonly AnswerIssue[] };

/** The result of the call for this answer, or the reasons why the answer does not fit. */
function judge({ form }: AskedQuestion, value: Json, environment: Environment): Judged {
  if (form === undefined) {
    if (typeof value === 'string' && !isBlank(value)) return { content: value, value };
    return { issues: [{ path: '$', message: `must be a text that is not blank, got ${describeValue(value)}` }] };
  }
  const found = environment.fitOf(form)(value);
  return 'issues' in found ? found : { content: JSON.stringify(found.value), value: found.value };
}

function answered(
  state: SessionState,
  call: OpenCall,
  content: string,
  given: { readonly answer?: string; readonly by?: string } = {},
): readonly SessionRecord[] {
  const source = { type: 'tool', name: call.name } as const;
  return [
    { type: 'decided', callId: call.id, allow: true, ...given },
    {
      type: 'accepted',
      id: state.nextPendingId,
      entry: { type: 'tool_response', content, source, toolUseId: call.id, success: true },
    },
  ];
}

function misfitError(
  { name }: OpenCall,
  { callId, id = callId, form }: AskedQuestion,
  issues: readonly AnswerIssue[],
): ContentError {
  const what = issues.map(({ path, message }) => `${path}: ${message}`).join('; ');
  const expected = form === undefined ? 'give a text' : 'give a value of the schema in its event question.asked';
  return new ContentError(
    `the answer to ${name} (${JSON.stringify(id)}) does not fit: ${what}; ${expected}, or decline(); the question still waits`,
    { data: { callId: id, issues } },
  );
}

/** The outermost JSON object in a text; undefined: there is none. Prose, such as the child's name, may surround it. */
function objectIn(text: string): Json | undefined {
  const from = text.indexOf('{');
  const to = text.lastIndexOf('}');
  if (from === -1 || to < from) return undefined;
  try {
    return JSON.parse(text.slice(from, to + 1)) as Json;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
