/**
 * JSON Schema 2020-12: checks schemas, and values against schemas. This file is the only importer of the validator
 * library, and loads the library with the first schema that needs it. The library is larger than all our code that
 * `import 'troupe'` loads.
 */

import type { Ajv2020, ErrorObject, ValidateFunction } from 'ajv/dist/2020.js';
import { VALID_SCHEMAS_MAX } from '../base/bounds.ts';
import { loadLibrary } from '../base/load-library.ts';
import { isPlainSchema } from './plain-schema.ts';

/** One fault of a value: its path (`$.a[0]`) and a description. */
export interface SchemaIssue {
  readonly path: string;
  readonly message: string;
}

// The validator is as lenient as the standard: unknown keywords and formats are annotations, not faults.
const LENIENT = { strict: false, validateFormats: false, logger: false } as const;
/**
 * The validators. `whole` first checks a schema against the meta-schema. `plain` is for schemas that need no such
 * check, so the meta-schema is not compiled for them. `thorough` finds all faults of a value instead of the first.
 * `thorough` also skips the check, because its schemas were found valid before.
 */
type Validators = Readonly<Record<'whole' | 'plain' | 'thorough', Ajv2020>>;
let loaded: Validators | undefined;

function validators(): Validators {
  if (loaded !== undefined) return loaded;
  const library = loadLibrary('ajv/dist/2020.js') as { readonly Ajv2020: typeof Ajv2020 };
  const make = (options: object): Ajv2020 => new library.Ajv2020({ ...LENIENT, ...options });
  const unchecked = { validateSchema: false, meta: false } as const;
  loaded = { whole: make({}), plain: make(unchecked), thorough: make({ ...unchecked, allErrors: true }) };
  return loaded;
}

/**
 * Compiled schemas by schema object. A tool's schema is compiled once per thread, and the result is garbage collected
 * with the tool.
 */
const compiledOnce: WeakMap<object, ValidateFunction> = new WeakMap();
const compiledThoroughly: WeakMap<object, ValidateFunction> = new WeakMap();
/**
 * Schemas found valid, as texts: compiling a schema is expensive, and the same tools are described for every agent and
 * shard.
 */
const valid: Set<string> = new Set();

/** The fault of `schema` as a 2020-12 schema, references included; `undefined` when it is valid. Never throws. */
export function schemaProblem(schema: object): string | undefined {
  try {
    const { $schema: _dialect, ...rest } = schema as Readonly<Record<string, unknown>>;
    if (isPlainSchema(rest)) return undefined;
    const text = JSON.stringify(schema);
    if (valid.has(text)) return undefined;
    compile(schema);
    if (valid.size < VALID_SCHEMAS_MAX) valid.add(text);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : 'it cannot be compiled';
  }
}

/** The first fault of `value` against `schema`. Throws when the schema itself cannot be compiled. */
export function schemaIssue(schema: object, value: unknown): SchemaIssue | undefined {
  const validate = compile(schema);
  if (validate(value) === true) return undefined;
  const error = validate.errors?.[0];
  if (error === undefined) return { path: '$', message: 'does not fit the schema' };
  return { path: pathOf(error.instancePath), message: messageOf(error) };
}

/**
 * Every fault of `value` against `schema`, at most `issuesMax`. Throws when the schema itself cannot be compiled. A
 * model that corrects its answer needs all faults at once.
 */
export function schemaIssues(schema: object, value: unknown, issuesMax: number): readonly SchemaIssue[] {
  if (schemaIssue(schema, value) === undefined) return [];
  const validate = compile(schema, 'thorough', compiledThoroughly);
  validate(value);
  return (validate.errors ?? [])
    .slice(0, issuesMax)
    .map((error) => ({ path: pathOf(error.instancePath), message: messageOf(error) }));
}

function compile(
  schema: object,
  given?: keyof Validators,
  compiled: WeakMap<object, ValidateFunction> = compiledOnce,
): ValidateFunction {
  const known = compiled.get(schema);
  if (known !== undefined) return known;
  // `$schema` is ignored: the rules that matter here are the same in other dialects.
  const { $schema: _dialect, ...rest } = schema as Readonly<Record<string, unknown>>;
  const library = validators()[given ?? (isPlainSchema(rest) ? 'plain' : 'whole')];
  try {
    const validate = library.compile(rest);
    compiled.set(schema, validate);
    return validate;
  } finally {
    // The library keeps every schema, and refuses a second one with the same `$id`. But two tools may have equal
    // schemas.
    library.removeSchema(rest);
    if (typeof rest['$id'] === 'string') library.removeSchema(rest['$id']);
  }
}

function messageOf(error: ErrorObject): string {
  const message = error.message ?? 'does not fit the schema';
  const params = error.params as Readonly<Record<string, unknown>>;
  if (error.keyword === 'additionalProperties') return `${message}: ${JSON.stringify(params['additionalProperty'])}`;
  if (error.keyword === 'enum') return `${message}: ${JSON.stringify(params['allowedValues'])}`;
  return message;
}

/** Converts a JSON pointer to our notation of paths. */
function pathOf(pointer: string): string {
  const parts = pointer.split('/').slice(1);
  return pathText(parts.map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~')));
}

/** A path as text: `['a', 0, 'b']` as `$.a[0].b`. */
export function pathText(parts: readonly unknown[]): string {
  let text = '$';
  for (const part of parts) {
    const key = typeof part === 'object' && part !== null && 'key' in part ? String(part.key) : String(part);
    text += /^\d+$/.test(key) ? `[${key}]` : `.${key}`;
  }
  return text;
}
