/**
 * The part of JSON Schema that the Messages API compiles to a grammar, for structured outputs and strict tools (R57).
 * Source: the vendor's page on structured outputs, as of 2026-11-22. Pure.
 */
import { isRecord } from '../../base/json.ts';

/** Levels of nesting that are read; a deeper schema is a fault. */
const DEPTH_MAX = 64;

const REFUSED_KEYS = [
  ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
  ...['minLength', 'maxLength', 'maxItems', 'uniqueItems'],
] as const;
/** Back references, look-around assertions and word boundaries. */
const REFUSED_PATTERN = /\\[1-9bB]|\\k<|\(\?<?[=!]/;
const NESTED_LISTS = ['anyOf', 'allOf', 'oneOf'] as const;
const NESTED_MAPS = ['properties', '$defs', 'definitions'] as const;

/** The parts of schemas that count for the limits of a request. */
export interface SchemaCost {
  /** Properties that are not required. */
  optional: number;
  /** Schemas with `anyOf` or with several types. */
  unions: number;
}

/**
 * The first fault for which the API refuses a schema, as `path: reason`; undefined if there is none. Adds to `cost`.
 */
export function strictSchemaFault(schema: unknown, cost: SchemaCost): string | undefined {
  if (!isRecord(schema)) return undefined;
  return faultAt(schema, { root: schema, path: '$', depth: 0, cost }) ?? recursionIn(schema);
}

interface Place {
  readonly root: Readonly<Record<string, unknown>>;
  readonly path: string;
  readonly depth: number;
  readonly cost: SchemaCost;
}

function faultAt(schema: Readonly<Record<string, unknown>>, place: Place): string | undefined {
  if (place.depth > DEPTH_MAX) return `${place.path}: nested deeper than ${DEPTH_MAX}`;
  return keywordFault(schema, place) ?? nestedFault(schema, place);
}

function keywordFault(schema: Readonly<Record<string, unknown>>, { root, path, cost }: Place): string | undefined {
  const refused = REFUSED_KEYS.find((key) => Object.hasOwn(schema, key));
  if (refused !== undefined) return `${path}: '${refused}' is not supported`;
  const { type, enum: values, pattern, $ref: reference, minItems } = schema;
  if (typeof minItems === 'number' && minItems > 1) return `${path}: 'minItems' above 1 is not supported`;
  if (Array.isArray(values) && values.some((value) => value !== null && typeof value === 'object')) {
    return `${path}: an 'enum' of objects is not supported`;
  }
  if (typeof pattern === 'string' && REFUSED_PATTERN.test(pattern)) return `${path}: this 'pattern' is not supported`;
  if (typeof reference === 'string' && definitionOf(root, reference) === undefined) {
    return `${path}: '$ref' must name a definition of this schema`;
  }
  if (schema['anyOf'] !== undefined || Array.isArray(type)) cost.unions += 1;
  const isObject = type === 'object' || (Array.isArray(type) && type.includes('object'));
  if ((isObject || Object.hasOwn(schema, 'additionalProperties')) && schema['additionalProperties'] !== false) {
    return `${path}: for 'object' type, 'additionalProperties' must be explicitly set to false`;
  }
  const { properties, required } = schema;
  if (isRecord(properties)) {
    const needed = new Set(Array.isArray(required) ? required : []);
    cost.optional += Object.keys(properties).filter((name) => !needed.has(name)).length;
  }
  return undefined;
}

function nestedFault(schema: Readonly<Record<string, unknown>>, place: Place): string | undefined {
  for (const { key, value } of nestedIn(schema)) {
    const path = `${place.path}.${key}`;
    if (key.startsWith('allOf') && value['$ref'] !== undefined) return `${path}: '$ref' in 'allOf' is not supported`;
    const fault = faultAt(value, { ...place, path, depth: place.depth + 1 });
    if (fault !== undefined) return fault;
  }
  return undefined;
}

interface Nested {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}

function nestedIn(schema: Readonly<Record<string, unknown>>): readonly Nested[] {
  const found: Nested[] = [];
  const add = (key: string, value: unknown): void => {
    if (isRecord(value)) found.push({ key, value });
  };
  add('items', schema['items']);
  for (const key of NESTED_LISTS) {
    const list = schema[key];
    if (!Array.isArray(list)) continue;
    for (const [index, item] of list.entries()) add(`${key}[${index}]`, item);
  }
  for (const key of NESTED_MAPS) {
    const map = schema[key];
    if (isRecord(map)) for (const [name, value] of Object.entries(map)) add(`${key}.${name}`, value);
  }
  return found;
}

function definitionOf(
  root: Readonly<Record<string, unknown>>,
  reference: string,
): Readonly<Record<string, unknown>> | undefined {
  const found = /^#\/(\$defs|definitions)\/([^/]+)$/.exec(reference);
  const map = root[found?.[1] ?? ''];
  const definition = isRecord(map) ? map[found?.[2] ?? ''] : undefined;
  return isRecord(definition) ? definition : undefined;
}

/** The fault of a schema that refers to itself, directly or through definitions; undefined if it does not. */
function recursionIn(root: Readonly<Record<string, unknown>>): string | undefined {
  const done = new Set<unknown>();
  const open = new Set<unknown>();
  const visit = (schema: Readonly<Record<string, unknown>>, depth: number): boolean => {
    if (open.has(schema)) return true;
    if (done.has(schema) || depth > DEPTH_MAX) return false;
    open.add(schema);
    const reference = schema['$ref'];
    const target = typeof reference === 'string' ? definitionOf(root, reference) : undefined;
    const isRecursive =
      (target !== undefined && visit(target, depth + 1)) ||
      nestedIn(schema).some(({ value }) => visit(value, depth + 1));
    open.delete(schema);
    done.add(schema);
    return isRecursive;
  };
  return visit(root, 0) ? '$: a recursive schema is not supported' : undefined;
}
