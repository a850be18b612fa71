/**
 * Checks whether a value is a JSON Schema of draft 2020-12. The usual keywords of a tool's schema are checked as in the
 * draft's meta-schema (json-schema.org/draft/2020-12/schema). Unknown keywords are annotations and pass. Pure.
 */
import { isRecord } from '../../base/json.ts';

/** Levels of nesting that are read; a deeper schema is a fault. */
const DEPTH_MAX = 64;

const TYPES: ReadonlySet<unknown> = new Set(['null', 'boolean', 'object', 'array', 'number', 'string', 'integer']);
const SCHEMA_KEYS = [
  ...['items', 'contains', 'not', 'if', 'then', 'else', 'propertyNames'],
  ...['additionalProperties', 'unevaluatedItems', 'unevaluatedProperties'],
] as const;
const SCHEMA_LIST_KEYS = ['allOf', 'anyOf', 'oneOf', 'prefixItems'] as const;
const SCHEMA_MAP_KEYS = ['properties', 'patternProperties', '$defs', 'dependentSchemas'] as const;
const NUMBER_KEYS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'] as const;
const COUNT_KEYS = [
  ...['minLength', 'maxLength', 'minItems', 'maxItems'],
  ...['minProperties', 'maxProperties', 'minContains', 'maxContains'],
] as const;
const STRING_KEYS = ['$ref', '$id', '$schema', 'title', 'description', 'pattern', 'format'] as const;

/** The fault of a schema, as `$.path: reason`; undefined if there is none. */
export function schemaFault(schema: unknown): string | undefined {
  return faultAt(schema, '$', 0);
}

function faultAt(schema: unknown, path: string, depth: number): string | undefined {
  if (typeof schema === 'boolean') return undefined;
  if (!isRecord(schema)) return `${path}: not a schema`;
  if (depth > DEPTH_MAX) return `${path}: nested deeper than ${DEPTH_MAX}`;
  return keywordFault(schema, path) ?? nestedFault(schema, path, depth);
}

function keywordFault(schema: Readonly<Record<string, unknown>>, path: string): string | undefined {
  const has = (key: string, test: (value: unknown) => boolean): boolean =>
    !Object.hasOwn(schema, key) || test(schema[key]);
  if (!has('type', isType)) return `${path}.type`;
  if (!has('enum', Array.isArray)) return `${path}.enum`;
  if (!has('required', isNameList)) return `${path}.required`;
  if (!has('multipleOf', (value) => typeof value === 'number' && value > 0)) return `${path}.multipleOf`;
  if (!has('uniqueItems', (value) => typeof value === 'boolean')) return `${path}.uniqueItems`;
  for (const key of NUMBER_KEYS) {
    if (!has(key, (value) => typeof value === 'number')) return `${path}.${key}`;
  }
  for (const key of COUNT_KEYS) {
    if (!has(key, (value) => Number.isInteger(value) && Number(value) >= 0)) return `${path}.${key}`;
  }
  for (const key of STRING_KEYS) {
    if (!has(key, (value) => typeof value === 'string')) return `${path}.${key}`;
  }
  return undefined;
}

function nestedFault(schema: Readonly<Record<string, unknown>>, path: string, depth: number): string | undefined {
  for (const key of SCHEMA_KEYS) {
    if (!Object.hasOwn(schema, key)) continue;
    const fault = faultAt(schema[key], `${path}.${key}`, depth + 1);
    if (fault !== undefined) return fault;
  }
  for (const key of SCHEMA_LIST_KEYS) {
    if (!Object.hasOwn(schema, key)) continue;
    const list: unknown = schema[key];
    if (!Array.isArray(list) || list.length === 0) return `${path}.${key}`;
    for (const [index, item] of list.entries()) {
      const fault = faultAt(item, `${path}.${key}[${index}]`, depth + 1);
      if (fault !== undefined) return fault;
    }
  }
  for (const key of SCHEMA_MAP_KEYS) {
    if (!Object.hasOwn(schema, key)) continue;
    const map: unknown = schema[key];
    if (!isRecord(map)) return `${path}.${key}`;
    for (const name of Object.keys(map)) {
      const fault = faultAt(map[name], `${path}.${key}.${name}`, depth + 1);
      if (fault !== undefined) return fault;
    }
  }
  return undefined;
}

function isType(value: unknown): boolean {
  if (!Array.isArray(value)) return TYPES.has(value);
  return value.length > 0 && value.every((item) => TYPES.has(item)) && isDistinct(value);
}

function isNameList(value: unknown): boolean {
  return Array.isArray(value) && value.every((item) => typeof item === 'string') && isDistinct(value);
}

function isDistinct(list: readonly unknown[]): boolean {
  return new Set(list).size === list.length;
}
