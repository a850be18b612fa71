/**
 * A question of an MCP server that one of its tools asks while it runs. The run ends with it, and the call continues with
 * the answer. Plain data, stored in logs.
 */
import type { Json } from '../../base/json.ts';

/** The parts that a server needs to continue its call. Only the server reads them. */
export interface Elicitation {
  readonly server: string;
  /** The server's name of its question. */
  readonly key: string;
  /** The server's state of the call; missing: it has none. */
  readonly state?: string;
}

/** The answer in the form of the protocol. */
export type ElicitationResponse =
  | { readonly action: 'accept'; readonly content: Json }
  | { readonly action: 'decline' };

/** A question of a server that was answered or declined. The call continues with it. */
export interface AnsweredElicitation extends Elicitation {
  readonly response: ElicitationResponse;
  /** How many questions the call has asked, this one included. */
  readonly round: number;
}
