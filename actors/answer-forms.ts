/**
 * Decides how a structured answer is asked for. Models that are known to compile a schema get the schema as
 * `output_config.format`. Any other model gets a tool whose input is the answer; a call of this tool ends the turn. No
 * tool is forced: a model that thinks may refuse a forced tool (R28, R48), and the other tools must stay usable. Pure.
 */
import { ANSWER_ISSUE_CHARACTERS_MAX, ANSWER_ISSUES_MAX } from '../src/base/bounds.ts';
import { ConfigError } from '../src/base/errors.ts';
import { cutText, type Json } from '../src/base/json.ts';
import type { RequestTraits } from '../src/context/request-traits.ts';
import { grammarSchema, withSchemaLetters } from '../src/models/answer-schema.ts';
import type { RequestTool, ToolSchema } from '../src/models/provider.ts';
import { ANSWER_TOOL } from '../src/session/rules/structured-answer.ts';
import type { AnswerFacts, AnswerForm, AnswerIssue } from '../src/session/state/answer-form.ts';
import { schemaIssues } from '../src/tools/json-schema.ts';

/** The parts of a request that ask for the form, and how its answer is judged. */
export interface AnswerParts {
  readonly facts: AnswerFacts;
  /** The value of `output_config.format`, if the model supports this option. */
  readonly format?: Readonly<Record<string, Json>>;
  /** The tool that takes the answer, if the model does not support `output_config.format`. */
  readonly tool?: ToolSchema;
}

const TOOL_DESCRIPTION =
  'Give your final answer with this tool, once you need no other tool. Its input is the answer. The call ends your turn.';

/** The parts for one form and a model with these traits. `taken`: names that the answer tool must not have. */
export function answerParts(form: AnswerForm, traits: RequestTraits, taken: readonly string[]): AnswerParts {
  const schema = sentSchema(form);
  const fit = fitOf(form);
  if (traits.structuredOutputs === true) {
    return { facts: { tool: undefined, fit }, format: { type: 'json_schema', schema } };
  }
  const name = freeName(taken);
  return { facts: { tool: name, fit }, tool: { name, description: TOOL_DESCRIPTION, input_schema: schema } };
}

/**
 * The tools of a request. `own`: the agent's tools. `answer`: the form that the request asks for; undefined: the result
 * is `own`. `callsNone`: the model may call none of the agent's tools.
 */
export function toolsWith(
  answer: AnswerParts | undefined,
  callsNone: boolean,
  own: readonly RequestTool[],
): readonly RequestTool[] {
  if (answer?.format !== undefined) return own.map(withoutCitations);
  if (answer?.tool === undefined) return own;
  return callsNone ? [answer.tool] : [...own, answer.tool];
}

/** The tool without its option `citations`: the API refuses citations together with a format (R58). */
function withoutCitations(tool: RequestTool): RequestTool {
  if (!('citations' in tool)) return tool;
  const { citations: _citations, ...rest } = tool;
  return rest;
}

/**
 * The schema that is sent. It was checked when the embedder gave it. A schema from the log of another version of this
 * library may fail the check, and is then sent unchanged.
 */
function sentSchema({ schema }: AnswerForm): Readonly<Record<string, Json>> {
  try {
    return grammarSchema(schema, 'output');
  } catch (error) {
    if (error instanceof ConfigError) return schema;
    throw error;
  }
}

function freeName(taken: readonly string[]): string {
  let name = ANSWER_TOOL;
  for (let n = 2; taken.includes(name); n += 1) name = `${ANSWER_TOOL}_${n}`;
  return name;
}

/**
 * Returns a function that judges values. It returns a fitting value in the schema's letter case, or a bounded number of
 * reasons why the value does not fit.
 */
export function fitOf({ schema }: AnswerForm): AnswerFacts['fit'] {
  return (value) => {
    const issues = schemaIssues(schema, value, ANSWER_ISSUES_MAX);
    if (issues.length === 0) return { value };
    const lettered = withSchemaLetters(schema, value);
    if (schemaIssues(schema, lettered, 1).length === 0) return { value: lettered };
    return { issues: issues.map(shortIssue) };
  };
}

function shortIssue({ path, message }: AnswerIssue): AnswerIssue {
  return {
    path: cutText(path, ANSWER_ISSUE_CHARACTERS_MAX),
    message: cutText(message, ANSWER_ISSUE_CHARACTERS_MAX),
  };
}
