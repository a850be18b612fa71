/** Questions of an MCP server within one call: their ids, and the call with the answer to its last question. Pure. */
import type { AskedQuestion } from '../state/boundary.ts';
import type { ElicitationResponse } from '../state/elicitation.ts';
import type { OpenCall } from '../state/messages.ts';

/**
 * The id by which the call's next question is answered. The first question has the id of the call. A later question
 * also has a number. Otherwise an answer that is sent twice could answer two questions.
 */
export function nextQuestionId({ id, elicited }: OpenCall): string {
  return elicited === undefined ? id : `${id}#${elicited.round + 1}`;
}

/** The call that asked, together with the response to its question; undefined if no MCP server asked the question. */
export function continuedCall(
  call: OpenCall,
  { elicitation }: AskedQuestion,
  response: ElicitationResponse,
): OpenCall | undefined {
  if (elicitation === undefined) return undefined;
  return { ...call, elicited: { ...elicitation, response, round: (call.elicited?.round ?? 0) + 1 } };
}
