/** The input of a call, checked against the tool's schema before the tool receives it. */
import { INPUT_ISSUES_MAX } from '../base/bounds.ts';
import { describeValue } from '../base/errors.ts';
import { isRecord } from '../base/json.ts';
import { isStandardSchema } from './input-schema.ts';
import { pathText, type SchemaIssue, schemaIssue } from './json-schema.ts';
import { isThenable } from './thenable.ts';
import type { StandardResult } from './tool.ts';

/** A checked input, or a text for the model that lists the faults of the input by path. */
export type CheckedInput = { readonly value: unknown } | { readonly error: string };

/** The parts of a tool that decide about its input. */
export interface InputOwner {
  readonly name: string;
  readonly input: unknown;
  readonly adjustableTimeout?: boolean | undefined;
}

/**
 * Checks `input` with the tool's own schema; defaults and transforms of a Standard Schema are applied. Returns a
 * promise only if the schema does. Never throws and never rejects: an error of the schema also becomes an error text.
 */
export function validateInput(tool: InputOwner, input: unknown): CheckedInput | Promise<CheckedInput> {
  if (!isRecord(input)) {
    return { error: errorText(tool.name, [{ path: '$', message: `expected an object, got ${describeValue(input)}` }]) };
  }
  try {
    const checked = check(tool, withoutTimeout(tool, input));
    return checked instanceof Promise ? checked.catch((error: unknown) => schemaFailed(tool, error)) : checked;
  } catch (error) {
    return schemaFailed(tool, error);
  }
}

function schemaFailed(tool: InputOwner, error: unknown): CheckedInput {
  const why = error instanceof Error ? error.message : describeValue(error);
  return { error: `Invalid input for tool ${JSON.stringify(tool.name)}: its schema failed: ${why}` };
}

function check(tool: InputOwner, input: unknown): CheckedInput | Promise<CheckedInput> {
  if (isStandardSchema(tool.input)) {
    const result = tool.input['~standard'].validate(input);
    if (isThenable(result)) return Promise.resolve(result).then((settled) => checkedBy(tool, settled));
    return checkedBy(tool, result);
  }
  if (!isRecord(tool.input)) return { error: `Tool ${JSON.stringify(tool.name)} has no input schema` };
  const issue = schemaIssue(tool.input, input);
  return issue === undefined ? { value: input } : { error: errorText(tool.name, [issue]) };
}

function checkedBy(tool: InputOwner, result: StandardResult<unknown>): CheckedInput {
  if (result.issues === undefined) return { value: result.value };
  const issues = result.issues.map(({ path, message }) => ({ path: pathText(path ?? []), message }));
  return { error: errorText(tool.name, issues) };
}

/**
 * The input without the `timeout` that the runtime asks the model for. The tool's own schema does not have this
 * property, and would reject the input if it is strict.
 */
function withoutTimeout(tool: InputOwner, input: Readonly<Record<string, unknown>>): unknown {
  if (tool.adjustableTimeout !== true || !Object.hasOwn(input, 'timeout') || ownsTimeout(tool.input)) return input;
  const { timeout: _ours, ...rest } = input;
  return rest;
}

function ownsTimeout(schema: unknown): boolean {
  // zod keeps its properties in `shape`, a JSON Schema in `properties`.
  const holder: unknown = isRecord(schema) ? (schema['properties'] ?? schema['shape']) : undefined;
  return isRecord(holder) && Object.hasOwn(holder, 'timeout');
}

function errorText(name: string, issues: readonly SchemaIssue[]): string {
  const lines = issues.slice(0, INPUT_ISSUES_MAX).map(({ path, message }) => `${path}: ${message}`);
  const more = issues.length - lines.length;
  if (more > 0) lines.push(`and ${more} more`);
  return `Invalid input for tool ${JSON.stringify(name)}:\n${lines.join('\n')}`;
}
