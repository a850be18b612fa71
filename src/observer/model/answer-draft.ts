/**
 * The draft of an answer to a question. It gives the text that the answer's field has at first, and the value that a
 * text in the field stands for. Pure.
 */
import { SKELETON_LEVELS_MAX } from '../bounds.ts';
import { isRecord, type WireRecord } from '../wire.ts';

/** The value of a draft, or the problem that keeps the draft from having a value. */
export type DraftValue = { readonly value: unknown } | { readonly problem: string };

/** The text that the field has at first: empty, or JSON with the properties of the schema. */
export function firstDraft(schema: WireRecord | undefined): string {
  return schema === undefined ? '' : JSON.stringify(skeletonOf(schema, schema, SKELETON_LEVELS_MAX), undefined, 2);
}

/** The answer that a draft stands for: the text itself, or the parsed JSON if the question has a schema. */
export function draftValue(text: string, schema: WireRecord | undefined): DraftValue {
  if (schema === undefined) return text.trim() === '' ? { problem: 'The answer is empty.' } : { value: text };
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (error) {
    return { problem: `This is not JSON: ${error instanceof Error ? error.message : String(error)}` };
  }
}

/**
 * A value with the properties that the schema requires, or with all properties if it requires none. The value need not
 * fit the schema.
 */
function skeletonOf(schema: unknown, whole: WireRecord, levels: number): unknown {
  if (!isRecord(schema) || levels === 0) return null;
  const { $ref, const: fixed, default: usual, enum: values, properties, minimum } = schema;
  if (typeof $ref === 'string') return skeletonOf(pointed($ref, whole), whole, levels - 1);
  if (fixed !== undefined) return fixed;
  if (usual !== undefined) return usual;
  if (Array.isArray(values)) return values[0];
  const variants = schema['anyOf'] ?? schema['oneOf'] ?? schema['allOf'];
  if (Array.isArray(variants)) return skeletonOf(variants[0], whole, levels - 1);
  if (isRecord(properties)) {
    const needed = Array.isArray(schema['required']) ? schema['required'].map(String) : [];
    const names = needed.length === 0 ? Object.keys(properties) : needed;
    return Object.fromEntries(names.map((name) => [name, skeletonOf(properties[name], whole, levels - 1)]));
  }
  const types: readonly unknown[] = Array.isArray(schema['type']) ? schema['type'] : [schema['type']];
  switch (types.find((type) => type !== 'null')) {
    case 'string':
      return '';
    case 'number':
    case 'integer':
      return typeof minimum === 'number' ? minimum : 0;
    case 'boolean':
      return false;
    case 'array':
      return [];
    case 'object':
      return {};
    default:
      return null;
  }
}

/** The part of the schema at a local reference such as `#/$defs/seat`; undefined for any other reference. */
function pointed(reference: string, whole: WireRecord): unknown {
  if (!reference.startsWith('#')) return undefined;
  const names = reference.slice(1).split('/').slice(1);
  let part: unknown = whole;
  for (const name of names) {
    const key = name.replaceAll('~1', '/').replaceAll('~0', '~');
    part = isRecord(part) && Object.hasOwn(part, key) ? part[key] : undefined;
  }
  return part;
}
