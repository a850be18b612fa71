/** The form of a structured answer, as a message, an agent or a child's task asks for it. Plain data, stored in logs. */
import type { Json } from '../../base/json.ts';

/** The form that an answer must have. */
export interface AnswerForm {
  /** The JSON Schema that was asked for. An answer is accepted only if it fits this schema. */
  readonly schema: Readonly<Record<string, Json>>;
  /** A fingerprint of the schema. Requests of two forms with one key have the same fields. */
  readonly key: string;
}

/** One reason why an answer does not have its form: where (`$.a[0]`), and what. */
export interface AnswerIssue {
  readonly path: string;
  readonly message: string;
}

/** How the answers of a session are asked for and judged while a form is in force. */
export interface AnswerFacts {
  /** The tool that takes the answer; undefined: the model writes the answer as its text. */
  readonly tool: string | undefined;
  /** The value in the letters of the schema, or every reason (within a bound) why it does not fit. */
  readonly fit: (value: Json) => { readonly value: Json } | { readonly issues: readonly AnswerIssue[] };
}
