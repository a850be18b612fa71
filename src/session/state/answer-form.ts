/** The form of a structured answer. A message, an agent or a child's task asks for it. Plain data, stored in logs. */
import type { Json } from '../../base/json.ts';

/** The form that an answer must have. */
export interface AnswerForm {
  /** The JSON Schema that was asked for. An answer is accepted only if it fits this schema. */
  readonly schema: Readonly<Record<string, Json>>;
  /** A fingerprint of the schema. Two forms with the same key put the same fields into a request. */
  readonly key: string;
}

/** One reason why an answer does not have its form: the path of the fault (`$.a[0]`), and its description. */
export interface AnswerIssue {
  readonly path: string;
  readonly message: string;
}

/** How a session's answers are asked for and judged while the session asks for a form. */
export interface AnswerFacts {
  /** The tool that the model calls with its answer; undefined: the model writes the answer as text. */
  readonly tool: string | undefined;
  /**
   * Returns the value, or a bounded number of reasons why the value does not fit. In the returned value, constants have
   * upper and lower case as in the schema.
   */
  readonly fit: (value: Json) => { readonly value: Json } | { readonly issues: readonly AnswerIssue[] };
}
