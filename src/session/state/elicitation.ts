/**
 * An elicitation: a question that an MCP server asks during a call of one of its tools. The question ends that run of
 * the tool. The call continues, with another run, once there is an answer. Plain data, stored in logs.
 */
import type { Json } from '../../base/json.ts';

/** The data that a server needs to continue its call. Only the server reads `key` and `state`. */
export interface Elicitation {
  readonly server: string;
  /** The server's own name for the question. */
  readonly key: string;
  /** The server's state for the call. Missing if the server keeps none. */
  readonly state?: string;
}

/** The answer in the form of the MCP protocol. */
export type ElicitationResponse =
  | { readonly action: 'accept'; readonly content: Json }
  | { readonly action: 'decline' };

/** A server's question that was answered or declined. The call continues with the response. */
export interface AnsweredElicitation extends Elicitation {
  readonly response: ElicitationResponse;
  /** How many questions the call has asked, this question included. */
  readonly round: number;
}
