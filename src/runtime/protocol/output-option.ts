/**
 * The option `output`: the form of a structured answer, as a Standard Schema or a JSON Schema. Session threads receive
 * the JSON Schema. The Standard Schema stays on the host thread, where it makes the typed answer.
 */
import { ANSWER_ISSUES_MAX, ANSWER_SCHEMA_BYTES_MAX } from '../../base/bounds.ts';
import { TurnFailedError } from '../../base/errors.ts';
import type { Json } from '../../base/json.ts';
import { grammarSchema } from '../../models/answer-schema.ts';
import type { AnswerForm } from '../../session/state/answer-form.ts';
import { formOfSchema, isStandardSchema, objectSchemaOf } from '../../tools/input-schema.ts';
import { pathText } from '../../tools/json-schema.ts';
import type { JsonSchema, StandardResult } from '../../tools/tool.ts';

/** A Standard Schema of an object: the part of the interface that is used (https://standardschema.dev, version 1). */
export interface ObjectSchema<Answer = unknown> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => StandardResult<Answer> | Promise<StandardResult<Answer>>;
    readonly types?: { readonly input: Readonly<Record<string, unknown>>; readonly output: Answer } | undefined;
  };
}

/** The form of a structured answer: a Standard Schema that has a JSON Schema (such as zod 4), or a JSON Schema. */
export type OutputSchema = ObjectSchema | JsonSchema;

/** The answer that a schema describes: the output of a Standard Schema, or any JSON for a JSON Schema. */
export type AnswerOf<Output> = Output extends ObjectSchema<infer Answer> ? Answer : Json;

/** A Standard Schema does not change, so its form is computed once. */
const forms = new WeakMap<object, AnswerForm>();

/** The form that a session thread receives. Throws a `ConfigError` that names the option (`key`) and the remedy. */
export function answerForm(output: unknown, key: string): AnswerForm {
  const isStandard = isStandardSchema(output);
  const known = isStandard ? forms.get(output) : undefined;
  if (known !== undefined) return known;
  const schema = objectSchemaOf(output, `option ${JSON.stringify(key)}`, 'output', ANSWER_SCHEMA_BYTES_MAX);
  grammarSchema(schema, key);
  const form = formOfSchema(schema);
  if (isStandard) forms.set(output, form);
  return form;
}

/**
 * The typed answer: the result of the schema for the stored value. Rejects with `TurnFailedError` (`answer_invalid`) if
 * there is no value, or if the schema's own checks refuse the value. Runs on the host thread.
 */
export async function typedAnswer<Answer>(schema: unknown, value: Json | undefined): Promise<Answer> {
  if (value === undefined) {
    throw new TurnFailedError('the turn ended without a structured answer', { code: 'answer_invalid' });
  }
  if (!isStandardSchema(schema)) return value as Answer;
  const result = await schema['~standard'].validate(value);
  if (result.issues === undefined) return result.value as Answer;
  const issues = result.issues
    .slice(0, ANSWER_ISSUES_MAX)
    .map(({ path, message }) => ({ path: pathText(path ?? []), message }));
  const [first] = issues;
  throw new TurnFailedError(`the answer does not pass its schema: ${first?.path ?? '$'}: ${first?.message ?? ''}`, {
    code: 'answer_invalid',
    data: { issues },
  });
}
