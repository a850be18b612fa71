/** Questions of an MCP server within one call: their ids, and the call with the answer to the last one. Pure. */
import type { AskedQuestion } from '../state/boundary.ts';
import type { ElicitationResponse } from '../state/elicitation.ts';
import type { OpenCall } from '../state/messages.ts';

/**
 * The id that answers the next question of a call. The first has the id of the call, a further one has its number too:
 * otherwise an answer that is sent again could answer the question that came meanwhile.
 */
export function nextQuestionId({ id, elicited }: OpenCall): string {
  return elicited === undefined ? id : `${id}#${elicited.round + 1}`;
}

/** The call of a question, which continues with the response; undefined if no server asked the question. */
export function continuedCall(
  call: OpenCall,
  { elicitation }: AskedQuestion,
  response: ElicitationResponse,
): OpenCall | undefined {
  if (elicitation === undefined) return undefined;
  return { ...call, elicited: { ...elicitation, response, round: (call.elicited?.round ?? 0) + 1 } };
}
