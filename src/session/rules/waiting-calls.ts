/** One list of all calls of a session that wait for a person or the parent: for an approval, or for an answer. Pure. */
import type { Json } from '../../base/json.ts';
import type { Approvals, Asked, AskedQuestion } from '../state/boundary.ts';
import type { OpenCall } from '../state/messages.ts';
import type { SessionState } from '../state/state.ts';

/** A call that waits for a decision. */
export interface WaitingCall {
  /**
   * The id by which the call is decided: its own id; for a later question of its MCP server also the question's number.
   */
  readonly callId: string;
  readonly toolName: string;
  /** `approval`: `session.approve` decides; `question`, `elicitation` (of an MCP server): `session.answer` answers. */
  readonly kind: 'approval' | 'question' | 'elicitation';
  /** The input that the model gave the call. */
  readonly input: unknown;
  /** For a question: its text. */
  readonly question?: string;
  /** For a question: the JSON Schema that the answer must fit; missing: the answer is text. */
  readonly schema?: Readonly<Record<string, Json>>;
  /** For a question: answers that the model proposes. */
  readonly choices?: readonly string[];
  /** For a question: its recipient. */
  readonly asked?: Asked;
  /** For a question of an MCP server: the server's name. */
  readonly server?: string;
  /** Epoch ms at which the call began to wait. */
  readonly at: number;
}

/** The calls that wait for a decision, approvals first, each kind in call order. */
export function waitingCalls(state: SessionState): readonly WaitingCall[] {
  const { approvals } = state;
  if (approvals === undefined) return [];
  return approvals.waiting.flatMap((callId): readonly WaitingCall[] => {
    const call = state.openCalls.get(callId);
    if (call === undefined) return [];
    const { name: toolName, input } = call;
    const asked = questionOf(state, callId);
    if (asked !== undefined) return [questionCall(asked, toolName, input)];
    return [{ callId, toolName, kind: 'approval', input, at: approvals.since ?? state.updatedAt }];
  });
}

/** The question that a waiting call asks; undefined for every other call. */
export function questionOf({ approvals }: Pick<SessionState, 'approvals'>, callId: string): AskedQuestion | undefined {
  return approvals?.questions?.find((each) => each.callId === callId);
}

/** The waiting question with this id; undefined if there is none. */
export function questionNamed({ approvals }: Pick<SessionState, 'approvals'>, id: string): AskedQuestion | undefined {
  return approvals?.questions?.find((each) => (each.id ?? each.callId) === id);
}

/** The open call with this id, or whose waiting question has this id. */
export function waitingCallNamed(state: SessionState, id: string): OpenCall | undefined {
  return state.openCalls.get(questionNamed(state, id)?.callId ?? id);
}

/** A copy of `approvals` in which a call waits only if `keeps` returns true for its id. */
export function withWaiting(approvals: Approvals, keeps: (callId: string) => boolean): Approvals {
  const { questions = [], ...rest } = approvals;
  const left = questions.filter(({ callId }) => keeps(callId));
  return { ...rest, waiting: rest.waiting.filter(keeps), ...(left.length === 0 ? {} : { questions: left }) };
}

function questionCall(asked: AskedQuestion, toolName: string, input: unknown): WaitingCall {
  const { callId, id = callId, question, choices, form, elicitation, at } = asked;
  return {
    callId: id,
    toolName,
    kind: elicitation === undefined ? 'question' : 'elicitation',
    input,
    question,
    ...(form === undefined ? {} : { schema: form.schema }),
    ...(choices === undefined ? {} : { choices }),
    asked: asked.asked,
    ...(elicitation === undefined ? {} : { server: elicitation.server }),
    at,
  };
}
