/** The work of every system: turns and families whose every message is durable before anything depends on it. */

/** The question of one turn. Its answer is `sum <a + b>`, or `sum <a + times * b>`. */
export interface Question {
  readonly a: number;
  readonly b: number;
  /** Text after the question, for workloads that need long messages. */
  readonly filler?: string;
  /** Calls of the tool before the answer, one after another, each adding `b` to the sum so far; 1 when missing. */
  readonly times?: number;
}

/** A way to hold conversations durably. */
export interface DrainSystem {
  /** One turn of a session: the question is accepted durably, two half-steps follow; resolves with the answer. */
  turn(session: string, question: Question): Promise<string>;
  /** One parent, a child for each question, one turn each; resolves when every reply is delivered to the parent. */
  family(parent: string, questions: readonly Question[]): Promise<void>;
  /** The replies that the parent received, one text a child, in any order. */
  replies(parent: string): Promise<readonly string[]>;
  /** Messages in a session's log. */
  messages(session: string): Promise<number>;
  close(): Promise<void>;
}

/** The text of a question. */
export function textOf({ a, b, filler, times }: Question): string {
  const repeated = times === undefined ? '' : ` times ${times}`;
  return filler === undefined ? `add ${a} ${b}${repeated}` : `add ${a} ${b}${repeated} ${filler}`;
}

/** The answer to a question. */
export function answerOf({ a, b, times = 1 }: Question): string {
  return `sum ${a + times * b}`;
}

/** Number of messages of one turn: question, call, result, answer. */
export const MESSAGES_A_TURN = 4;
/** Model calls of one turn. */
export const HALF_STEPS_A_TURN = 2;
