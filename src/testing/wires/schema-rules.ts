/** Rules that several wires share: names of functions, schemas, tool choices. Pure. */
import { isRecord } from '../../base/json.ts';
import type { Refuse } from './wire-fake.ts';

const NAME = /^[a-zA-Z0-9_-]{1,64}$/u;

/** Reports a name that OpenAI's wires do not take. */
export function checkName(rule: string, name: unknown, path: string, refuse: Refuse): void {
  if (typeof name === 'string' && NAME.test(name)) return;
  refuse(rule, path, `Invalid '${path}': string does not match pattern '^[a-zA-Z0-9_-]+$'.`, 'invalid_value');
}

/** Reports a function's schema that is not of type `object`. */
export function checkFunctionSchema(rule: string, name: unknown, schema: unknown, path: string, refuse: Refuse): void {
  const type = isRecord(schema) ? schema['type'] : undefined;
  if (schema === undefined || type === 'object') return;
  const text = `schema must be a JSON Schema of 'type: "object"', got 'type: "${String(type ?? 'None')}"'.`;
  refuse(rule, path, `Invalid schema for function '${String(name)}': ${text}`, 'invalid_function_parameters');
}

/** Reports a choice of a tool that the request does not have. */
export function checkChoice(rule: string, name: unknown, names: readonly unknown[], refuse: Refuse): void {
  if (name === undefined || names.includes(name)) return;
  refuse(rule, 'tool_choice', `Tool choice '${String(name)}' not found in 'tools' parameter.`);
}

/**
 * The first reason why a schema is not accepted as strict; undefined if there is none. Source: the guide "Structured
 * outputs".
 */
export function strictFault(schema: unknown, context = '()'): string | undefined {
  if (!isRecord(schema)) return undefined;
  const { properties, required, additionalProperties: others, items } = schema;
  if (schema['type'] === 'object' || isRecord(properties)) {
    if (others !== false) {
      return `In context=${context}, 'additionalProperties' is required to be supplied and to be false.`;
    }
    const listed: readonly unknown[] = Array.isArray(required) ? required : [];
    const names = isRecord(properties) ? Object.keys(properties) : [];
    const missing = names.find((name) => !listed.includes(name));
    if (missing !== undefined) {
      return `In context=${context}, 'required' is required to be supplied and to be an array including every key in properties. Missing '${missing}'.`;
    }
  }
  const parts = [...(isRecord(properties) ? Object.entries(properties) : []), ['items', items] as const];
  for (const [name, part] of parts) {
    const fault = strictFault(part, `('${name}')`);
    if (fault !== undefined) return fault;
  }
  return undefined;
}
