/**
 * Recognises schemas that are evidently valid: they use only common keywords, each with a value that JSON Schema
 * 2020-12 allows. Nearly all tools have such a schema. The validator's own check must compile the standard's
 * meta-schema. Compiling it takes tens of milliseconds, at every opening of a store.
 */
import { isRecord } from '../base/json.ts';

const TYPES: ReadonlySet<unknown> = new Set(['object', 'array', 'string', 'number', 'integer', 'boolean', 'null']);
/** Maximum depth of a schema that is judged here. Deeper schemas are left to the validator, whatever they contain. */
const DEPTH_MAX = 16;

type Check = (value: unknown, depth: number) => boolean;

const isText: Check = (value) => typeof value === 'string';
const isNumber: Check = (value) => typeof value === 'number';
const isCount: Check = (value) => typeof value === 'number' && Number.isInteger(value) && value >= 0;
const isFlag: Check = (value) => typeof value === 'boolean';
const isList: Check = (value) => Array.isArray(value);
const isAnything: Check = () => true;

/**
 * The keywords that are judged here. The validator checks all others: combinations, references, patterns, rare
 * keywords.
 */
const KEYWORDS: ReadonlyMap<string, Check> = new Map<string, Check>([
  ['type', isTypes],
  ['properties', areSchemas],
  ['required', areNames],
  ['items', (value, depth) => isSchema(value, depth + 1)],
  ['additionalProperties', (value, depth) => isSchema(value, depth + 1)],
  // An empty `enum` fits no value, and the validator does not compile it.
  ['enum', (value) => Array.isArray(value) && value.length > 0],
  ['const', isAnything],
  ['default', isAnything],
  ['examples', isList],
  ['title', isText],
  ['description', isText],
  ['deprecated', isFlag],
  ['minimum', isNumber],
  ['maximum', isNumber],
  ['exclusiveMinimum', isNumber],
  ['exclusiveMaximum', isNumber],
  ['minLength', isCount],
  ['maxLength', isCount],
  ['minItems', isCount],
  ['maxItems', isCount],
  ['uniqueItems', isFlag],
]);

/** True for an evidently valid schema; false proves nothing. */
export function isPlainSchema(schema: unknown): boolean {
  return isSchema(schema, 0);
}

function isSchema(schema: unknown, depth: number): boolean {
  if (typeof schema === 'boolean') return true;
  if (!isRecord(schema) || Array.isArray(schema) || depth > DEPTH_MAX) return false;
  return Object.entries(schema).every(([keyword, value]) => KEYWORDS.get(keyword)?.(value, depth) === true);
}

function areSchemas(value: unknown, depth: number): boolean {
  if (!isRecord(value) || Array.isArray(value)) return false;
  return Object.values(value).every((each) => isSchema(each, depth + 1));
}

function isTypes(value: unknown): boolean {
  if (!Array.isArray(value)) return TYPES.has(value);
  return value.length > 0 && value.every((each) => TYPES.has(each)) && isUnique(value);
}

function areNames(value: unknown): boolean {
  return Array.isArray(value) && value.every((each) => typeof each === 'string') && isUnique(value);
}

function isUnique(values: readonly unknown[]): boolean {
  return new Set(values).size === values.length;
}
