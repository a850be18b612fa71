/**
 * The options of an agent that shape its requests, and their fields in the Messages API. Plain data: they cross to the
 * session threads. Whether a model accepts them is checked in `model-option-checks.ts`. Pure.
 */
import { defined } from '../base/defined.ts';
import { isRecord, type Json } from '../base/json.ts';
import type { Settings } from '../base/settings.ts';
import type { Effort } from '../context/model-traits.ts';
import type { RequestTraits } from '../context/request-traits.ts';
import type { RequestHeader } from './pool.ts';
import type { RequestTransport, Thinking, ToolChoiceField } from './provider.ts';

/**
 * Which tools the model may or must call: `auto`, as the model decides; `any`, at least one; `none`; or the named tool.
 */
export type ToolChoice = 'auto' | 'any' | 'none' | { readonly tool: string };

/** The options of an agent that shape its requests. `open` checks them against the agent's model. */
export interface ModelOptions {
  /** How the model thinks. Default: the model's own behaviour without this field. */
  readonly thinking?: Thinking;
  /** How much the model thinks and writes. Default: the model's own. */
  readonly effort?: Effort;
  /**
   * Default `auto`. The choice holds for every call: with `any` or a tool, a turn ends only by `maxSteps`, `toolRounds`
   * or an interrupt. A sub-agent without the named tool has `auto`.
   */
  readonly toolChoice?: ToolChoice;
  /** False if an answer may call at most one tool. */
  readonly parallelToolCalls?: boolean;
  /** Texts at which the model stops. The answer does not contain them. */
  readonly stopSequences?: readonly string[];
  readonly serviceTier?: 'auto' | 'standardOnly';
  /** `fast` answers sooner and costs more. The beta that a model needs for it is added. Default `standard`. */
  readonly speed?: 'standard' | 'fast';
  /** How long the vendor keeps the cached beginning of a request. Default `5m`. */
  readonly cacheTtl?: '5m' | '1h';
  /** Values of the header `anthropic-beta`. */
  readonly betas?: readonly string[];
  /** Further fields of the request's body, as the Messages API names them. */
  readonly request?: Readonly<Record<string, Json>>;
}

/** The facts of a call that are not options of the agent. */
export interface CallFacts {
  /** `settings.llm.threads`. */
  readonly threads: boolean;
  /** The provider of the model; missing: the first one. */
  readonly provider?: string | undefined;
  /** True if the agent's options were written for another model of its list. */
  readonly fits?: true | undefined;
}

/** The fields of these options in a request for a model with these traits and these tools. */
export function requestFields(
  options: ModelOptions,
  traits: RequestTraits,
  toolNames: readonly string[],
  call: CallFacts,
): Partial<RequestHeader> {
  const { thinking, effort, stopSequences, serviceTier, speed, request = {} } = options;
  const { output_config: given, ...further } = request;
  const outputConfig = {
    ...(isRecord(given) ? (given as Readonly<Record<string, Json>>) : {}),
    ...defined({ effort }),
  };
  const hasStops = stopSequences !== undefined && stopSequences.length > 0;
  const transport = transportOf(options, traits, call);
  // The order of the members decides the bytes of the request, which the vendor's cache compares.
  return {
    ...defined({ thinking, tool_choice: toolChoiceField(options, toolNames) }),
    ...(Object.keys(outputConfig).length === 0 ? {} : { output_config: outputConfig }),
    ...(hasStops ? { stop_sequences: stopSequences } : {}),
    ...(serviceTier === undefined ? {} : { service_tier: serviceTier === 'auto' ? 'auto' : 'standard_only' }),
    ...(speed === 'fast' ? { speed } : {}),
    ...further,
    ...defined({ transport }),
  };
}

/** A request without tools has no `tool_choice`. A request without the named tool has `auto`, the API's default. */
function toolChoiceField(
  { toolChoice, parallelToolCalls }: ModelOptions,
  toolNames: readonly string[],
): ToolChoiceField | undefined {
  if (toolNames.length === 0) return undefined;
  if (toolChoice === 'none') return { type: 'none' };
  const single = parallelToolCalls === false ? ({ disable_parallel_tool_use: true } as const) : {};
  if (typeof toolChoice === 'object' && toolNames.includes(toolChoice.tool)) {
    return { type: 'tool', name: toolChoice.tool, ...single };
  }
  if (toolChoice === 'any') return { type: 'any', ...single };
  const isDefault = toolChoice !== 'auto' && parallelToolCalls !== false;
  return isDefault ? undefined : { type: 'auto', ...single };
}

function transportOf(
  { betas = [], speed, cacheTtl }: ModelOptions,
  { fastBeta }: RequestTraits,
  { threads, provider, fits }: CallFacts,
): RequestTransport | undefined {
  const all = [...new Set([...betas, ...(speed === 'fast' && fastBeta !== undefined ? [fastBeta] : [])])];
  if (all.length === 0 && cacheTtl !== '1h' && !threads && provider === undefined && fits !== true) return undefined;
  return {
    ...defined({ provider, fits }),
    ...(all.length === 0 ? {} : { betas: all }),
    ...(cacheTtl === '1h' ? { cacheTtl } : {}),
    ...(threads ? { threads } : {}),
  };
}

/** Further fields of a body that do not belong to the cached beginning of a request. */
const UNCACHED_FIELDS: ReadonlySet<string> = new Set(['stop_sequences', 'service_tier', 'metadata', 'diagnostics']);

/**
 * The value that stands for every `max_tokens`. It equals the default of `maxTokens`, so that sessions stored by
 * earlier versions keep their epoch.
 */
const ANY_MAX_TOKENS = 8_192;

/**
 * The members of a header that the vendor's cache depends on. A change of one of them opens an epoch. The cache does
 * not depend on `max_tokens`, so that member has the same value for every header.
 */
export function cachedFields(header: RequestHeader): object {
  const { transport, output_config: config, ...rest } = header;
  const { task_budget: _budget, ...outputConfig } = config ?? {};
  return {
    ...Object.fromEntries(Object.entries(rest).filter(([field]) => !UNCACHED_FIELDS.has(field))),
    max_tokens: ANY_MAX_TOKENS,
    ...(Object.keys(outputConfig).length === 0 ? {} : { output_config: outputConfig }),
    ...defined({ betas: transport?.betas, provider: transport?.provider }),
  };
}

/**
 * The header of a request for a summary: without the fields that may keep the model from writing a complete text.
 * Undefined if the header has no such fields.
 */
export function summaryHeader(header: RequestHeader): RequestHeader | undefined {
  const { tool_choice: choice, stop_sequences: stops, output_config: config, ...rest } = header;
  const isForced = choice?.type === 'any' || choice?.type === 'tool';
  if (!isForced && stops === undefined && config?.['format'] === undefined) return undefined;
  const { format: _format, ...outputConfig } = config ?? {};
  return {
    ...rest,
    ...(isForced ? {} : defined({ tool_choice: choice })),
    ...(Object.keys(outputConfig).length === 0 ? {} : { output_config: outputConfig }),
  };
}

/**
 * The models of an agent, in the order in which they are asked. Never empty. `isChild`: the agent runs as a sub-agent.
 */
export function modelsOf(
  definition: { readonly model?: string | readonly string[] | undefined },
  { llm }: Settings,
  isChild: boolean,
): readonly [string, ...string[]] {
  if (isChild && llm.subagentModel !== undefined) return [llm.subagentModel];
  const { model = llm.model } = definition;
  if (typeof model === 'string') return [model];
  const [first = llm.model, ...others] = model;
  return [first, ...others];
}

/** The first of an agent's models. */
export function modelOf(
  definition: { readonly model?: string | readonly string[] | undefined },
  settings: Settings,
  isChild: boolean,
): string {
  return modelsOf(definition, settings, isChild)[0];
}
