/**
 * Rewrites the JSON Schema of a structured answer for the Messages API, which compiles schemas to grammars (R57). The
 * API accepts only a part of JSON Schema. A keyword that the API refuses moves into the description, where the model
 * can read it. The answer is checked against the original schema. Equal schemas give equal bytes. Source: the vendor's
 * page on structured outputs, as of 2026-11-22. Pure.
 */
import { ANSWER_SCHEMA_DEPTH_MAX } from '../base/bounds.ts';
import { ConfigError } from '../base/errors.ts';
import { isRecord, type Json } from '../base/json.ts';
import { type SchemaCost, strictSchemaFault } from '../context/legality/strict-schema.ts';
import { SCHEMA_COST_MAX } from '../context/legality/structured-output.ts';

/** A JSON Schema as plain data. */
type PlainSchema = Readonly<Record<string, Json>>;

/** Keywords that are sent unchanged. */
const KEPT: ReadonlySet<string> = new Set(['type', 'title', 'default', '$ref', 'required']);
/** Keywords that say nothing about an answer. */
const SILENT: ReadonlySet<string> = new Set(['$schema', '$id', '$anchor', '$comment']);
const LISTS: ReadonlySet<string> = new Set(['anyOf', 'allOf', 'oneOf']);
const MAPS: ReadonlySet<string> = new Set(['properties', '$defs', 'definitions']);
const FORMATS: ReadonlySet<Json> = new Set([
  ...['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'uri', 'ipv4', 'ipv6', 'uuid'],
]);
/** Back references, look-around, word borders, and counts: the API compiles only simple patterns. */
const REFUSED_PATTERN = /\\[1-9bB]|\\k<|\(\?<?[=!]|\{\d/;

/**
 * The schema as it is sent. Throws `ConfigError` (`data.key` is `label`) for a schema whose answers no grammar can
 * describe. The message names the path in the schema, and the remedy.
 */
export function grammarSchema(schema: PlainSchema, label: string): PlainSchema {
  const rewritten = rewrite(schema, '$', 0, label);
  const cost: SchemaCost = { optional: 0, unions: 0 };
  const fault = strictSchemaFault(rewritten, cost);
  if (fault !== undefined) {
    const isRecursive = fault.includes('recursive');
    throw refused(label, fault, isRecursive ? 'write the levels out, up to a depth' : 'simplify this part');
  }
  if (cost.optional > SCHEMA_COST_MAX.optional) {
    const what = `$: ${cost.optional} properties are optional, and at most ${SCHEMA_COST_MAX.optional} may be`;
    throw refused(label, what, 'make more properties required');
  }
  if (cost.unions > SCHEMA_COST_MAX.unions) {
    const what = `$: ${cost.unions} parts have several types, and at most ${SCHEMA_COST_MAX.unions} may have`;
    throw refused(label, what, 'give more parts a single type');
  }
  return rewritten;
}

function refused(label: string, what: string, remedy: string): ConfigError {
  return new ConfigError(`option ${JSON.stringify(label)}: ${what}; ${remedy}`, {
    data: { key: label, rule: 'R57', remedy },
  });
}

function rewrite(schema: PlainSchema, path: string, depth: number, label: string): PlainSchema {
  if (depth > ANSWER_SCHEMA_DEPTH_MAX) throw refused(label, `${path}: nested too deeply`, 'flatten the schema');
  const sent: Record<string, Json> = {};
  const moved: Record<string, Json> = {};
  const within = (value: Json, key: string): Json =>
    isPlainSchema(value) ? rewrite(value, `${path}.${key}`, depth + 1, label) : {};
  for (const [key, value] of Object.entries(schema)) {
    if (isSilent(key, value) || key === 'description' || key === 'additionalProperties') continue;
    if (KEPT.has(key)) sent[key] = value;
    else if (LISTS.has(key) && Array.isArray(value)) {
      // `anyOf` is sent in place of `oneOf`. The later check against the original schema finds a second fitting form.
      const name = key === 'oneOf' ? 'anyOf' : key;
      const parts = value.map((part: Json, index) => within(part, `${key}[${index}]`));
      // If a schema has both `anyOf` and `oneOf`, the first is sent and the second moves into the description.
      if (sent[name] === undefined) sent[name] = parts;
      else moved[key] = value;
    } else if (MAPS.has(key) && isPlainSchema(value)) {
      sent[key] = Object.fromEntries(
        Object.entries(value).map(([name, part]) => [name, within(part, `${key}.${name}`)]),
      );
    } else if (key === 'items' && isPlainSchema(value)) sent['items'] = within(value, key);
    else if (isSendable(key, value)) sent[key] = value;
    else moved[key] = value;
  }
  closeObject(schema, sent, { path, label });
  describe(schema, sent, moved);
  return sent;
}

/**
 * True for a keyword that excludes no answer. A bound at the largest exact integer of JavaScript excludes none either.
 */
function isSilent(key: string, value: Json): boolean {
  if (SILENT.has(key)) return true;
  return (key === 'minimum' || key === 'maximum') && Math.abs(Number(value)) === Number.MAX_SAFE_INTEGER;
}

/** Allows an object only the listed properties, because a grammar cannot describe an open list of names. */
function closeObject(
  schema: PlainSchema,
  sent: Record<string, Json>,
  { path, label }: { readonly path: string; readonly label: string },
): void {
  const { type, additionalProperties: others } = schema;
  const isObject = type === 'object' || (Array.isArray(type) && type.includes('object'));
  if (!isObject && schema['properties'] === undefined) return;
  const isOpen = isPlainSchema(others) && Object.keys(others).length > 0;
  const hasNames = isPlainSchema(schema['properties']) && Object.keys(schema['properties']).length > 0;
  if (isOpen || (others !== false && !hasNames && schema['$ref'] === undefined)) {
    const remedy = 'list its properties, or use an array of objects with a name and a value';
    throw refused(label, `${path}: an object with any property names cannot be asked for`, remedy);
  }
  sent['additionalProperties'] = false;
}

/** Sets the description, followed by the keywords that cannot be sent otherwise. */
function describe(schema: PlainSchema, sent: Record<string, Json>, moved: Readonly<Record<string, Json>>): void {
  const { description } = schema;
  const rest = Object.keys(moved).length === 0 ? undefined : JSON.stringify(moved);
  const parts = [typeof description === 'string' ? description : undefined, rest];
  const text = parts.filter((part) => part !== undefined && part !== '').join('\n\n');
  if (text !== '') sent['description'] = text;
}

/** True if the API accepts this value of the keyword. The API refuses some other values of the same keyword. */
function isSendable(key: string, value: Json): boolean {
  switch (key) {
    case 'enum':
      return Array.isArray(value) && value.length > 0 && value.every(isScalar);
    case 'const':
      return isScalar(value);
    case 'format':
      return FORMATS.has(value);
    case 'pattern':
      return typeof value === 'string' && !REFUSED_PATTERN.test(value);
    case 'minItems':
      return value === 0 || value === 1;
    default:
      return false;
  }
}

function isScalar(value: unknown): boolean {
  return value === null || typeof value !== 'object';
}

function isPlainSchema(value: unknown): value is PlainSchema {
  return isRecord(value);
}

/**
 * The value with each `enum` or `const` word in the letter case of the schema, because the API may answer in another
 * case. Everything else stays as it is, even if it does not fit the schema.
 */
export function withSchemaLetters(schema: PlainSchema, value: Json): Json {
  return lettered(schema, value, { root: schema, depth: 0 });
}

interface Walk {
  readonly root: PlainSchema;
  readonly depth: number;
}

function lettered(schema: PlainSchema, value: Json, walk: Walk): Json {
  if (walk.depth > ANSWER_SCHEMA_DEPTH_MAX) return value;
  const next = { root: walk.root, depth: walk.depth + 1 };
  let result = typeof value === 'string' ? wordOf(schema, value) : value;
  const target = definitionOf(walk.root, schema['$ref']);
  if (target !== undefined) result = lettered(target, result, next);
  for (const key of LISTS) {
    const parts = schema[key];
    if (!Array.isArray(parts)) continue;
    for (const part of parts as readonly Json[]) if (isPlainSchema(part)) result = lettered(part, result, next);
  }
  if (Array.isArray(result)) return letteredItems(schema, result as readonly Json[], next);
  const { properties } = schema;
  if (isPlainSchema(result) && isPlainSchema(properties)) {
    const members = Object.entries(result).map(([name, member]): [string, Json] => {
      const part = Object.hasOwn(properties, name) ? properties[name] : undefined;
      return [name, isPlainSchema(part) ? lettered(part, member, next) : member];
    });
    return Object.fromEntries(members);
  }
  return result;
}

function letteredItems(schema: PlainSchema, list: readonly Json[], walk: Walk): Json {
  const { items, prefixItems } = schema;
  return list.map((item, index) => {
    const own: unknown = Array.isArray(prefixItems) ? prefixItems[index] : undefined;
    const part = own ?? items;
    return isPlainSchema(part) ? lettered(part, item, walk) : item;
  });
}

function wordOf(schema: PlainSchema, text: string): string {
  const words: readonly unknown[] = Array.isArray(schema['enum']) ? schema['enum'] : [schema['const']];
  if (words.includes(text)) return text;
  const found = words.find((word) => typeof word === 'string' && word.toLowerCase() === text.toLowerCase());
  return typeof found === 'string' ? found : text;
}

function definitionOf(root: PlainSchema, reference: unknown): PlainSchema | undefined {
  if (typeof reference !== 'string') return undefined;
  const found = /^#\/(\$defs|definitions)\/([^/]+)$/.exec(reference);
  const map = root[found?.[1] ?? ''];
  const definition = isPlainSchema(map) ? map[found?.[2] ?? ''] : undefined;
  return isPlainSchema(definition) ? definition : undefined;
}
