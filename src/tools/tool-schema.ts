/** Describes a tool as plain data, and checks it against the rules that the Messages API has for tools (R29 to R33). */
import { TOOL_DESCRIPTION_CHARACTERS_MAX, TOOL_GUIDELINES_MAX, TOOL_SNIPPET_CHARACTERS_MAX } from '../base/bounds.ts';
import { defined } from '../base/defined.ts';
import { ConfigError, describeValue } from '../base/errors.ts';
import { isToolName } from '../base/ids.ts';
import { cutText, isRecord, type Json } from '../base/json.ts';
import { inputSchemaOf } from './input-schema.ts';
import { retryPolicy } from './retry.ts';
import type { Effect, ToolDescription } from './tool.ts';

/** Characters shown of an invalid name. */
const NAME_SHOWN = 200;
const EFFECTS: readonly unknown[] = ['pure', 'keyed', 'once', 'probe'] satisfies readonly Effect[];

/** A tool as it appears in a request to the model. */
export interface AdvertisedTool {
  readonly name: string;
  readonly description: string;
  readonly input_schema: Readonly<Record<string, Json>>;
  readonly defer_loading?: true;
}

/** True for an object with the four members that make a tool; their content is not checked. */
export function looksLikeTool(value: unknown): value is Readonly<Record<string, unknown>> {
  return (
    isRecord(value) &&
    typeof value['name'] === 'string' &&
    typeof value['description'] === 'string' &&
    typeof value['run'] === 'function' &&
    value['input'] !== undefined
  );
}

/**
 * The description of a tool, with defaults filled in. Throws `ConfigError` that names the tool and the broken rule.
 * Runs where the tool's code is: on the host thread, or on a tool thread.
 */
export function describeTool(tool: unknown): ToolDescription {
  if (!isRecord(tool)) throw new ConfigError(`a tool must be an object, got ${describeValue(tool)}`);
  const name = toolName(tool['name']);
  const label = `tool ${JSON.stringify(name)}`;
  requireMember(label, 'run', 'a function', tool['run'], typeof tool['run'] === 'function');
  const timeoutMs = optional(tool, label, 'timeoutMs', 'a positive number of milliseconds', isPositive);
  const concurrency = optional(tool, label, 'concurrency', 'a positive integer', isPositiveInteger);
  const maxResultChars = optional(tool, label, 'maxResultChars', 'a positive integer', isPositiveInteger);
  const maxResultBytes = optional(tool, label, 'maxResultBytes', 'a positive integer', isPositiveInteger);
  if (maxResultChars !== undefined && tool['truncate'] === false) {
    const why = 'maxResultChars shortens a result, and truncate: false keeps it whole; leave one of them out';
    throw new ConfigError(`${label}: ${why}`, { data: { key: 'maxResultChars' } });
  }
  const isolation = optional(tool, label, 'isolation', '"process"', isIsolation);
  const snippet = optional(
    tool,
    label,
    'snippet',
    `one line of 1 to ${TOOL_SNIPPET_CHARACTERS_MAX} characters`,
    isLine,
  );
  const guidelines = optional(tool, label, 'guidelines', `at most ${TOOL_GUIDELINES_MAX} such lines`, areLines);
  const effect = toolEffect(tool, label);
  const retry = tool['retry'] === undefined ? undefined : retryPolicy(tool['retry'], effect, label);
  return {
    name,
    description: toolText(tool['description'], label),
    inputSchema: inputSchemaOf(tool['input'], label),
    effect,
    ...defined({ timeoutMs }),
    adjustableTimeout: optional(tool, label, 'adjustableTimeout', 'a boolean', isBoolean) ?? false,
    truncate: optional(tool, label, 'truncate', 'a boolean', isBoolean) ?? true,
    ...defined({ maxResultChars, maxResultBytes, concurrency, isolation, retry, snippet }),
    ...(optional(tool, label, 'deferLoading', 'a boolean', isBoolean) === true ? { deferLoading: true } : {}),
    ...(guidelines === undefined ? {} : { guidelines: [...guidelines] }),
  };
}

function isLine(value: unknown): value is string {
  if (typeof value !== 'string' || value.length > TOOL_SNIPPET_CHARACTERS_MAX) return false;
  return value.trim() !== '' && !/[\r\n]/u.test(value);
}

function areLines(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.length <= TOOL_GUIDELINES_MAX && value.every(isLine);
}

function toolName(name: unknown): string {
  if (typeof name !== 'string') throw new ConfigError(`a tool's name must be a string, got ${describeValue(name)}`);
  if (!isToolName(name)) {
    throw new ConfigError(
      `tool ${JSON.stringify(cutText(name, NAME_SHOWN))}: a name is 1 to 128 letters, digits, underscores and hyphens`,
      { data: { rule: 'R29', tool: cutText(name, NAME_SHOWN) } },
    );
  }
  return name;
}

function toolText(description: unknown, label: string): string {
  const fits =
    typeof description === 'string' &&
    description.trim() !== '' &&
    description.length <= TOOL_DESCRIPTION_CHARACTERS_MAX;
  const form = `a text of 1 to ${TOOL_DESCRIPTION_CHARACTERS_MAX} characters`;
  requireMember(label, 'description', form, description, fits);
  return String(description);
}

function toolEffect(tool: Readonly<Record<string, unknown>>, label: string): Effect {
  const effect = tool['effect'] ?? 'once';
  requireMember(label, 'effect', `one of ${EFFECTS.join(', ')}`, effect, EFFECTS.includes(effect));
  const hasProbe = typeof tool['probe'] === 'function';
  if (effect === 'probe' && !hasProbe) {
    throw new ConfigError(`${label}: effect "probe" needs a function \`probe\` that returns the outcome of a call`);
  }
  return effect as Effect;
}

function requireMember(label: string, key: string, form: string, value: unknown, fits: boolean): void {
  if (!fits) throw new ConfigError(`${label}: ${key} must be ${form}, got ${describeValue(value)}`, { data: { key } });
}

function optional<T>(
  tool: Readonly<Record<string, unknown>>,
  label: string,
  key: string,
  form: string,
  fits: (value: unknown) => value is T,
): T | undefined {
  const value = tool[key];
  if (value === undefined) return undefined;
  if (fits(value)) return value;
  throw new ConfigError(`${label}: ${key} must be ${form}, got ${describeValue(value)}`, { data: { key } });
}

function isPositive(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0;
}
function isPositiveInteger(value: unknown): value is number {
  return isPositive(value) && Number.isInteger(value);
}
function isIsolation(value: unknown): value is 'process' {
  return value === 'process';
}
function isBoolean(value: unknown): value is boolean {
  return typeof value === 'boolean';
}

/**
 * The tool as a model receives it. A tool with `adjustableTimeout` gets an optional integer property `timeout`, in
 * seconds, whose description names the default. `timeoutMs`: the default of tools without their own timeout.
 * `mayDefer`: true if the agent has a tool search that can find tools that are loaded later.
 */
export function advertiseTool(description: ToolDescription, timeoutMs: number, mayDefer = false): AdvertisedTool {
  const { name, inputSchema } = description;
  const advertised: AdvertisedTool = {
    name,
    description: description.description,
    input_schema: inputSchema,
    ...(mayDefer && description.deferLoading === true ? { defer_loading: true } : {}),
  };
  if (!takesTimeout(description)) return advertised;
  const properties = isRecord(inputSchema['properties']) ? inputSchema['properties'] : {};
  const timeout = {
    type: 'integer',
    minimum: 1,
    description: `Seconds (default: ${(description.timeoutMs ?? timeoutMs) / 1_000})`,
  };
  return {
    ...advertised,
    input_schema: { ...inputSchema, properties: { ...properties, timeout } } as Readonly<Record<string, Json>>,
  };
}

/**
 * True when the runtime reads `timeout` from a call's input. A tool with its own `timeout` property reads that property
 * itself.
 */
export function takesTimeout(tool: Pick<ToolDescription, 'adjustableTimeout' | 'inputSchema'>): boolean {
  if (!tool.adjustableTimeout) return false;
  const properties = tool.inputSchema['properties'];
  return !(isRecord(properties) && Object.hasOwn(properties, 'timeout'));
}
