/**
 * Finds the options of an agent that its model refuses, by the model's traits. An option is refused here only if the
 * traits say so. For an unknown model the API decides. Pure.
 */
import { isRecord } from '../base/json.ts';
import { BODY_FIELDS } from '../context/legality/fields.ts';
import { isCalledByCode } from '../context/legality/tool-types.ts';
import type { Effort, ThinkingType } from '../context/model-traits.ts';
import type { RequestTraits } from '../context/request-traits.ts';
import type { ModelOptions } from './model-options.ts';

/** An option that the model refuses. */
export interface OptionRefusal {
  /** The option with its member, such as `thinking.type`. */
  readonly key: string;
  readonly value: unknown;
  /** The rule of the Messages API that the request would break. */
  readonly rule: string;
  /** A value or an option to use instead. */
  readonly remedy: string;
}

/** A tool that the provider runs, as a request has it. */
export interface CheckedServerTool {
  readonly type: string;
  readonly name: string;
  readonly [field: string]: unknown;
}

/** The options of a request together with its `maxTokens` and the provider's tools. */
export interface CheckedModelOptions extends ModelOptions {
  readonly maxTokens: number;
  readonly serverTools?: readonly CheckedServerTool[];
}

/** The first option that a model with these traits refuses; undefined if it may accept all. */
export function refusedOption(options: CheckedModelOptions, traits: RequestTraits): OptionRefusal | undefined {
  return (
    refusedThinking(options, traits) ??
    refusedEffort(options, traits) ??
    refusedToolChoice(options, traits) ??
    refusedTokens(options, traits) ??
    refusedSpeed(options, traits) ??
    refusedField(options, traits) ??
    refusedServerTools(options, traits)
  );
}

function refusedServerTools(
  { serverTools = [] }: CheckedModelOptions,
  traits: RequestTraits,
): OptionRefusal | undefined {
  for (const each of serverTools) {
    const refused = refusedServerTool(each, traits);
    if (refused !== undefined) return refused;
  }
  return undefined;
}

/** Why a model with these traits refuses a tool that the provider runs; undefined if the tool is allowed (R60). */
export function refusedServerTool(tool: CheckedServerTool, traits: RequestTraits): OptionRefusal | undefined {
  const refusal = { key: 'tools', value: tool.type, rule: 'R60' };
  const isMissing =
    (tool.name === 'web_search' && traits.webSearch === false) ||
    (tool.name === 'code_execution' && traits.codeExecution === false);
  if (isMissing) return { ...refusal, remedy: 'leave it out, or use a model that has it' };
  if (traits.codeCallsTools === false && isCalledByCode(tool)) {
    return { ...refusal, remedy: "give the tool allowed_callers: ['direct'], or use an earlier type of it" };
  }
  return undefined;
}

/** The rule that a thinking type breaks on a model that does not have it. */
const THINKING_RULES: Readonly<Record<ThinkingType, string>> = {
  enabled: 'R25',
  disabled: 'R45',
  adaptive: 'R46',
  between_tools: 'R47',
};

function refusedThinking({ thinking }: ModelOptions, { thinkingTypes }: RequestTraits): OptionRefusal | undefined {
  if (thinking === undefined || thinkingTypes === undefined || thinkingTypes.has(thinking.type)) return undefined;
  const { type } = thinking;
  return { key: 'thinking.type', value: type, rule: THINKING_RULES[type], remedy: thinkingRemedy(type, thinkingTypes) };
}

function thinkingRemedy(type: ThinkingType, accepted: ReadonlySet<ThinkingType>): string {
  if (type === 'disabled' && accepted.has('between_tools')) {
    return "use thinking { type: 'between_tools' }, or leave thinking out and use effort 'low'";
  }
  if (type === 'disabled') return "leave thinking out and use effort 'low'";
  if (type === 'enabled') return "use thinking { type: 'adaptive' }, and effort in place of a budget";
  const others = [...accepted].map((each) => `'${each}'`).join(', ');
  return `accepted are ${others}; or leave thinking out`;
}

/** Efforts that go with thinking between tools (R47). */
export const BETWEEN_TOOLS_EFFORTS: readonly Effort[] = ['low', 'medium', 'high'];

function refusedEffort({ effort, thinking }: ModelOptions, traits: RequestTraits): OptionRefusal | undefined {
  if (effort === undefined) return undefined;
  const { efforts, effortsWithoutThinking } = traits;
  if (efforts !== undefined && !efforts.includes(effort)) {
    const remedy = efforts.length === 0 ? 'leave effort out' : `accepted are ${efforts.join(', ')}`;
    return { key: 'effort', value: effort, rule: 'R59', remedy };
  }
  if (thinking?.type === 'disabled' && effortsWithoutThinking?.includes(effort) === false) {
    const remedy = `without thinking, accepted are ${effortsWithoutThinking.join(', ')}`;
    return { key: 'effort', value: effort, rule: 'R27', remedy };
  }
  if (thinking?.type === 'between_tools' && !BETWEEN_TOOLS_EFFORTS.includes(effort)) {
    const remedy = `with thinking between tools, accepted are ${BETWEEN_TOOLS_EFFORTS.join(', ')}`;
    return { key: 'effort', value: effort, rule: 'R47', remedy };
  }
  return undefined;
}

function refusedToolChoice({ toolChoice, thinking }: ModelOptions, traits: RequestTraits): OptionRefusal | undefined {
  if (toolChoice === undefined || toolChoice === 'auto' || toolChoice === 'none') return undefined;
  if (traits.forcedTool === false) {
    const remedy = "use 'auto', and ask for the tool in the system prompt";
    return { key: 'toolChoice', value: toolChoice, rule: 'R48', remedy };
  }
  const thinks = thinking !== undefined && thinking.type !== 'disabled';
  // No model accepts a forced tool together with a budget for thoughts.
  if (thinking?.type === 'enabled' || (thinks && traits.forcedToolWithThinking === false)) {
    const remedy = "leave thinking out, or use toolChoice 'auto'";
    return { key: 'toolChoice', value: toolChoice, rule: 'R28', remedy };
  }
  return undefined;
}

function refusedTokens(
  { maxTokens, thinking }: CheckedModelOptions,
  { outputTokensMax }: RequestTraits,
): OptionRefusal | undefined {
  if (outputTokensMax !== undefined && maxTokens > outputTokensMax) {
    return { key: 'maxTokens', value: maxTokens, rule: 'R39', remedy: `at most ${outputTokensMax} are accepted` };
  }
  if (thinking?.type !== 'enabled' || thinking.budget_tokens < maxTokens) return undefined;
  const remedy = `it must be less than maxTokens, which is ${maxTokens}`;
  return { key: 'thinking.budget_tokens', value: thinking.budget_tokens, rule: 'R24', remedy };
}

function refusedSpeed({ speed }: ModelOptions, { fast }: RequestTraits): OptionRefusal | undefined {
  if (speed !== 'fast' || fast !== false) return undefined;
  return { key: 'speed', value: speed, rule: 'R64', remedy: "use 'standard', or a model with a fast mode" };
}

function refusedField({ request }: ModelOptions, traits: RequestTraits): OptionRefusal | undefined {
  const geo = request?.['inference_geo'];
  if (geo !== undefined && traits.inferenceGeo === false) {
    return { key: 'request.inference_geo', value: geo, rule: 'R63', remedy: 'leave it out' };
  }
  const config = request?.['output_config'];
  if (isRecord(config) && config['format'] !== undefined && traits.structuredOutputs === false) {
    const key = 'request.output_config.format';
    return { key, value: config['format'], rule: 'R57', remedy: 'leave it out' };
  }
  return undefined;
}

/** Fields of a body that an agent's option `request` may not set, and what to use instead. */
const FIELD_REMEDIES: Readonly<Record<string, string>> = {
  model: 'use option "model"',
  max_tokens: 'use option "maxTokens"',
  system: 'use option "system"',
  tools: 'use option "tools"',
  messages: 'the session writes the messages',
  stream: 'every answer is streamed',
  thinking: 'use option "thinking"',
  tool_choice: 'use option "toolChoice"',
  stop_sequences: 'use option "stopSequences"',
  service_tier: 'use option "serviceTier"',
  speed: 'use option "speed"',
  cache_control: 'use option "cacheTtl"',
  betas: 'use option "betas"',
  output_format: 'use "output_config" with the member "format"',
  temperature: 'the API refuses it for every model; use option "effort"',
  top_p: 'the API refuses it for every model; use option "effort"',
  top_k: 'the API refuses it for every model; use option "effort"',
  mcp_servers: 'give the tools of a server with `troupe/mcp`',
  thread: 'use "settings.llm.threads" of `open`',
  compaction: 'use option "compression"',
  fallbacks: 'an answer must come from the model of the agent',
  fallback_credit_token: 'it belongs to a single request',
};

/** Why the option `request` may not hold this field; undefined if it may. */
export function refusedRequestField(field: string): string | undefined {
  if (Object.hasOwn(FIELD_REMEDIES, field)) return FIELD_REMEDIES[field];
  return BODY_FIELDS.has(field) ? undefined : 'the Messages API has no such field';
}

/** Betas whose features every request has now (API version 2026-10-21). */
const ENDED_BETAS: ReadonlySet<string> = new Set([
  ...['prompt-caching-2024-07-31', 'pdfs-2024-09-25', 'token-counting-2024-11-01', 'message-batches-2024-09-24'],
  ...['token-efficient-tools-2025-02-19', 'extended-cache-ttl-2025-04-11', 'cache-diagnosis-2026-04-07'],
]);

const BETA_NAME = /^[a-z0-9]+(?:-[a-z0-9]+)*$/u;

/** Why the option `betas` may not hold this name; undefined if it may. */
export function refusedBeta(name: string): string | undefined {
  if (ENDED_BETAS.has(name)) return 'it is generally available now: leave it out';
  return BETA_NAME.test(name) ? undefined : 'must be lower-case letters, digits and hyphens';
}
