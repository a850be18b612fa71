/**
 * Decides which form a structured answer must have, and whether the answer fits its form. The value of an answer is the
 * input of its call of the answer tool. Without such a call, the value is the answer's text, parsed as JSON. Pure.
 */
import { ANSWER_ISSUE_CHARACTERS_MAX } from '../../base/bounds.ts';
import { TurnFailedError } from '../../base/errors.ts';
import { cutText, type Json, NotPlainError, toPlainJson } from '../../base/json.ts';
import type { ContentBlock } from '../../base/messages.ts';
import type { AnswerFacts, AnswerForm, AnswerIssue } from '../state/answer-form.ts';
import type { Held } from '../state/boundary.ts';
import type { OpenCall } from '../state/messages.ts';
import type { SessionState } from '../state/state.ts';
import { STOPS_THAT_CUT } from './answer.ts';
import { lastAnswerText } from './run-loop.ts';

/** The name of the answer tool, unless the agent has a tool of that name. */
export const ANSWER_TOOL = 'final_answer';

/**
 * The form that the session itself asks for. This is the form of the message that began the turn. Without such a form,
 * it is the form of a child's task until the child has replied. Undefined: the agent decides.
 */
export function formInForce(state: Pick<SessionState, 'turn' | 'form' | 'exit'>): AnswerForm | undefined {
  return state.turn?.form ?? (state.exit?.reason === 'completed' ? undefined : state.form);
}

/** True if these blocks of an answer call the answer tool. */
export function callsAnswerTool(content: readonly ContentBlock[], { tool }: AnswerFacts): boolean {
  return tool !== undefined && content.some((block) => block.type === 'tool_use' && block.name === tool);
}

/** The verdict on a held answer. */
export type AnswerVerdict =
  | { readonly type: 'fits'; readonly value: Json }
  | { readonly type: 'misfit'; readonly issues: readonly AnswerIssue[] }
  /** There is no answer to correct: the model refused, or the answer was cut by a token limit. */
  | { readonly type: 'none'; readonly error: TurnFailedError };

/** Judges the held answer. `call`: the call of the answer tool that gives the answer; undefined: the text gives it. */
export function judgeForm(
  state: SessionState,
  held: Held,
  answer: AnswerFacts,
  call: OpenCall | undefined,
): AnswerVerdict {
  const { stop, stopDetails } = held;
  if (stop === 'refusal') {
    const details = stopDetails === undefined ? {} : { stopDetails };
    return none('answer_refused', 'the model refused to answer', { stop, ...details });
  }
  if (STOPS_THAT_CUT.has(stop)) {
    return none('answer_cut', `the structured answer was cut (${stop}): allow more tokens, or ask for less`, { stop });
  }
  const unreadable = held.calls.find(({ id }) => id === call?.id)?.refused;
  if (unreadable !== undefined) return misfit(unreadable);
  if (call !== undefined) return fitted(answer, call.input as Json);
  try {
    return fitted(answer, toPlainJson(JSON.parse(turnText(state))));
  } catch (error) {
    if (error instanceof NotPlainError) return misfit(error.message);
    return misfit(answer.tool === undefined ? 'it is not JSON' : `give it by calling the tool ${answer.tool}`);
  }
}

function fitted(answer: AnswerFacts, value: Json): AnswerVerdict {
  const found = answer.fit(value);
  return 'value' in found ? { type: 'fits', value: found.value } : { type: 'misfit', issues: found.issues };
}

function misfit(message: string): AnswerVerdict {
  return { type: 'misfit', issues: [{ path: '$', message: cutText(message, ANSWER_ISSUE_CHARACTERS_MAX) }] };
}

function none(
  code: 'answer_refused' | 'answer_cut',
  message: string,
  data: Readonly<Record<string, unknown>>,
): AnswerVerdict {
  return { type: 'none', error: new TurnFailedError(message, { code, data }) };
}

/** The open call that gives the held answer; undefined if the answer is text. */
export function answerCall({ openCalls }: SessionState, held: Held, { tool }: AnswerFacts): OpenCall | undefined {
  if (tool === undefined) return undefined;
  return held.calls.map(({ id }) => openCalls.get(id)).find((call) => call?.name === tool);
}

/** The text of the last answer. The parts of a paused answer are joined. */
function turnText(state: SessionState): string {
  const last = lastAnswerText(state);
  const { turn } = state;
  return turn !== undefined && (last.trim() !== '' || turn.pauses > 0) ? turn.text : last;
}

/** The text that asks the model for a correction. */
export function correctionText(issues: readonly AnswerIssue[], { tool }: AnswerFacts): string {
  const lines = issues.map(({ path, message }) => `${path}: ${message}`);
  const how = tool === undefined ? 'Answer again with' : `Call ${tool} again with`;
  return `Your answer does not fit its schema:\n${lines.join('\n')}\n${how} the whole corrected value.`;
}

/** The error of a turn whose answer does not fit after the last correction. */
export function misfitError(issues: readonly AnswerIssue[], corrections: number): TurnFailedError {
  const [first] = issues;
  const what = first === undefined ? '' : `: ${first.path}: ${first.message}`;
  return new TurnFailedError(`the answer does not fit its schema after ${corrections} corrections${what}`, {
    code: 'answer_invalid',
    data: { issues, corrections },
  });
}
