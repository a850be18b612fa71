/**
 * The JSON Schema of a tool's input. The tool gives a JSON Schema, a zod 4 schema, or another Standard Schema that can
 * convert itself. Schemas that the Messages API refuses are rejected (rules R31 to R33).
 */
import { z } from 'zod';
import { ConfigError, describeValue } from '../base/errors.ts';
import { fingerprint } from '../base/fingerprint.ts';
import { isRecord, type Json, toPlainJson } from '../base/json.ts';
import type { AnswerForm } from '../session/state/answer-form.ts';
import { schemaProblem } from './json-schema.ts';
import type { StandardSchema } from './tool.ts';

/** The property names that rule R33 allows. */
const PROPERTY_KEY = /^[a-zA-Z0-9_.-]{1,64}$/;
/** The keywords that rule R32 forbids at the top of a schema. */
const COMBINATORS = ['oneOf', 'allOf', 'anyOf'] as const;
/** The dialect that the Messages API reads. */
const DIALECT = 'draft-2020-12';

/** True for a Standard Schema: an object or a function with `~standard` (arktype's types are functions). */
export function isStandardSchema(input: unknown): input is StandardSchema {
  if ((typeof input !== 'object' || input === null) && typeof input !== 'function') return false;
  const standard: unknown = Reflect.get(input, '~standard');
  return isRecord(standard) && typeof standard['validate'] === 'function';
}

/**
 * The JSON Schema that a model receives for `input`, as a plain copy without `$schema`. `label` names the tool in
 * errors. Throws `ConfigError` that names the broken rule.
 */
export function inputSchemaOf(input: unknown, label: string): Readonly<Record<string, Json>> {
  return objectSchemaOf(input, label, 'input');
}

/**
 * The JSON Schema of an object, as a plain copy without `$schema`. The rules of a tool's input also hold for a
 * structured answer: some models can give such an answer only as a tool's input. `label` and `member` name the schema
 * in errors. `bytesMax`: the most bytes of the schema's JSON; a larger schema is refused before it is compiled.
 */
export function objectSchemaOf(
  input: unknown,
  label: string,
  member: 'input' | 'output',
  bytesMax: number = Number.POSITIVE_INFINITY,
): Readonly<Record<string, Json>> {
  const { $schema: _dialect, ...schema } = plainSchema(rawSchema(input, label, member), label, member);
  const bytes = bytesMax === Number.POSITIVE_INFINITY ? 0 : Buffer.byteLength(JSON.stringify(schema));
  if (bytes > bytesMax) {
    const what = `the JSON Schema of ${member} has ${bytes} bytes, and at most ${bytesMax} are sent`;
    throw new ConfigError(`${label}: ${what}; ask for less at once`);
  }
  for (const key of COMBINATORS) {
    if (Object.hasOwn(schema, key)) {
      throw broken(label, 'R32', `${member} has ${key} at the top level, which the Messages API refuses`);
    }
  }
  if (schema['type'] !== 'object') {
    throw broken(
      label,
      'R31',
      `${member} must have type "object" at the top level, got ${describeValue(schema['type'])}`,
    );
  }
  for (const key of Object.keys(isRecord(schema['properties']) ? schema['properties'] : {})) {
    if (!PROPERTY_KEY.test(key)) {
      throw broken(label, 'R33', `property ${JSON.stringify(key)} must match ${PROPERTY_KEY.source}`);
    }
  }
  const problem = schemaProblem(schema);
  if (problem !== undefined) throw broken(label, 'R31', `${member} is not a valid JSON Schema 2020-12: ${problem}`);
  return schema;
}

function broken(label: string, rule: string, why: string): ConfigError {
  return new ConfigError(`${label}: ${why}`, { data: { rule } });
}

function plainSchema(raw: unknown, label: string, member: string): Readonly<Record<string, Json>> {
  try {
    const plain = toPlainJson(raw);
    if (isRecord(plain)) return plain as Readonly<Record<string, Json>>;
  } catch (error) {
    throw new ConfigError(`${label}: ${member} is not plain JSON`, { cause: error, data: { rule: 'R31' } });
  }
  throw broken(label, 'R31', `${member} must be a Standard Schema or a JSON Schema object, got ${describeValue(raw)}`);
}

function rawSchema(input: unknown, label: string, member: string): unknown {
  if (!isStandardSchema(input)) return input;
  try {
    if (isZod4(input)) return z.toJSONSchema(input, { io: 'input', target: DIALECT });
    const converter: unknown = Reflect.get(input['~standard'], 'jsonSchema');
    if (isRecord(converter) && typeof converter['input'] === 'function') {
      return converter['input']({ target: DIALECT }) as unknown;
    }
  } catch (error) {
    throw new ConfigError(`${label}: ${member} has no JSON Schema form; give a JSON Schema instead`, {
      cause: error,
      data: { rule: 'R31' },
    });
  }
  const vendor = input['~standard'].vendor;
  throw new ConfigError(
    `${label}: a schema of ${vendor} cannot be shown to the model; use zod 4, a Standard Schema with JSON Schema, or give a JSON Schema`,
    { data: { rule: 'R31' } },
  );
}

/**
 * True for a schema of zod 4. A schema of zod 3 names the same vendor, but lacks the internals that the conversion
 * reads.
 */
function isZod4(input: StandardSchema): input is StandardSchema & z.ZodType {
  return input['~standard'].vendor === 'zod' && '_zod' in input;
}

/** The form of the answers that a schema describes. The key of the form depends only on the schema. */
export function formOfSchema(schema: AnswerForm['schema']): AnswerForm {
  return { schema, key: fingerprint(JSON.stringify(schema)) };
}
