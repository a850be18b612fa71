/** The question that an MCP server asks during a call, in place of a result. */
import type { AnswerForm } from '../session/state/answer-form.ts';
import type { Elicitation } from '../session/state/elicitation.ts';

/** A question of a server: its text, the form of the answer, and what the server needs to continue. Plain data. */
export interface ServerQuestion {
  readonly question: string;
  readonly form: AnswerForm;
  readonly elicitation: Elicitation;
}

/**
 * The returned value of a tool whose server asks a question. This is a class, so that no other value looks like such a
 * result.
 */
export class AskingResult {
  readonly asks: ServerQuestion;
  constructor(asks: ServerQuestion) {
    this.asks = asks;
  }
}
