/**
 * The fields of a request that the AI SDK's specification has no place for. A request with such a field is refused,
 * because an accepted option must have an effect. The request is sent without the field only if its options were given
 * for another model (`transport.fits`). Pure.
 */
import { defined } from '../../base/defined.ts';
import { BODY_FIELDS } from '../../context/legality/fields.ts';
import type { ModelRequest, RequestRefusal, RequestShape } from '../provider.ts';
import type { ReasoningLevel } from './specification.ts';

/** The model that a request is for. */
export interface RequestReader {
  readonly version: 'v3' | 'v4';
  readonly model: string;
}

const USE_PROVIDER_OPTIONS = "leave it out, and give the provider's own option in aiModel(model, { providerOptions })";

/** Fields that the specification has, or that are checked one by one. */
const SENT_FIELDS: ReadonlySet<string> = new Set([
  ...['model', 'max_tokens', 'messages', 'system', 'tools', 'tool_choice', 'stop_sequences', 'output_config'],
  ...['thinking', 'transport', 'service_tier', 'speed'],
  // The container of Anthropic's code execution is left out: no other provider can use it.
  'container',
]);

/** The first option that the model cannot have; undefined if the request can be sent. */
export function refusedRequest(request: RequestShape, reader: RequestReader): RequestRefusal | undefined {
  if (request.model !== reader.model) {
    const remedy = `this provider has the model ${reader.model} only: name it in option "model"`;
    return { key: 'model', value: request.model, remedy };
  }
  // The options were written for another model. Options that have no place here are left out.
  if (request.transport?.fits === true) return undefined;
  return (
    refusedThinking(request, reader) ??
    refusedTools(request) ??
    refusedTransport(request) ??
    refusedTier(request) ??
    refusedField(request)
  );
}

function refusedThinking(
  { thinking, output_config: config }: RequestShape,
  { version }: RequestReader,
): RequestRefusal | undefined {
  const effort = config?.effort;
  if (thinking !== undefined && (version === 'v3' || thinking.type !== 'disabled')) {
    return { key: 'thinking', value: thinking.type, remedy: USE_PROVIDER_OPTIONS };
  }
  if (effort !== undefined && version === 'v3') return { key: 'effort', value: effort, remedy: USE_PROVIDER_OPTIONS };
  if (effort === 'max') return { key: 'effort', value: effort, remedy: "the highest is 'xhigh'" };
  if (effort === undefined || thinking === undefined) return undefined;
  return { key: 'effort', value: effort, remedy: "leave out effort or thinking { type: 'disabled' }" };
}

/** The reasoning level of a request to a model of version 4. */
export function reasoningLevel({ thinking, output_config: config }: RequestShape): ReasoningLevel | undefined {
  if (thinking?.type === 'disabled') return 'none';
  const effort = config?.effort;
  return effort === 'max' ? 'xhigh' : effort;
}

function refusedTools({ tools = [], tool_choice: choice }: RequestShape): RequestRefusal | undefined {
  const foreign = tools.find((tool) => !('input_schema' in tool) || tool.defer_loading === true);
  if (foreign !== undefined) {
    const value = 'type' in foreign ? foreign.type : foreign.name;
    return { key: 'tools', value, remedy: 'leave it out: only Anthropic runs it' };
  }
  if (choice === undefined || choice.type === 'none' || choice.disable_parallel_tool_use !== true) return undefined;
  return { key: 'parallelToolCalls', value: false, remedy: USE_PROVIDER_OPTIONS };
}

function refusedTransport({ transport }: RequestShape): RequestRefusal | undefined {
  if (transport?.betas !== undefined) {
    return { key: 'betas', value: transport.betas, remedy: 'leave it out: only Anthropic has betas' };
  }
  if (transport?.cacheTtl !== undefined) {
    return { key: 'cacheTtl', value: transport.cacheTtl, remedy: USE_PROVIDER_OPTIONS };
  }
  // `threads` only permits message threads. The setting is for all agents, and some may have a provider with threads.
  return undefined;
}

function refusedTier({ service_tier: tier, speed }: RequestShape): RequestRefusal | undefined {
  if (tier !== undefined) return { key: 'serviceTier', value: tier, remedy: USE_PROVIDER_OPTIONS };
  return speed === undefined ? undefined : { key: 'speed', value: speed, remedy: USE_PROVIDER_OPTIONS };
}

function refusedField(request: RequestShape): RequestRefusal | undefined {
  for (const [field, value] of Object.entries(defined(request))) {
    if (SENT_FIELDS.has(field)) continue;
    const what = BODY_FIELDS.has(field) ? 'a field of the Messages API' : 'not known';
    return { key: `request.${field}`, value, remedy: `it is ${what}: ${USE_PROVIDER_OPTIONS}` };
  }
  const config: NonNullable<ModelRequest['output_config']> = request.output_config ?? {};
  const { effort: _effort, format, ...others } = config;
  const [member] = Object.entries(others);
  if (member !== undefined) {
    return { key: `request.output_config.${member[0]}`, value: member[1], remedy: USE_PROVIDER_OPTIONS };
  }
  const type = typeof format === 'object' && format !== null && 'type' in format ? format['type'] : format;
  if (format === undefined || type === 'json_schema') return undefined;
  return { key: 'request.output_config.format', value: type, remedy: "use the type 'json_schema'" };
}
