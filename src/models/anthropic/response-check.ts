/**
 * Checks the answer of a provider: an unknown value becomes a `ModelResponse` that can be stored and sent again. Pure.
 */
import type { Draft } from '../../base/draft.ts';
import { describeValue } from '../../base/errors.ts';
import { isRecord, type Json, NotPlainError, toPlainJson } from '../../base/json.ts';
import type { ContentBlock, Usage } from '../../base/messages.ts';
import { protocolError } from '../model-error.ts';
import type { ModelResponse } from '../provider.ts';

const NOTHING: Readonly<Record<string, unknown>> = {};

/** The string fields that a block of each type must have. */
const REQUIRED_STRINGS: ReadonlyMap<string, readonly string[]> = new Map([
  ['text', ['text']],
  ['tool_use', ['name']],
  ['thinking', ['thinking', 'signature']],
  ['redacted_thinking', ['data']],
]);
const NONE: readonly string[] = [];

/**
 * A plain, well-formed copy of a provider's answer. A missing or absurd usage counts as zero, so that the caller's own
 * estimate replaces it. The input of a call may be any JSON: the session refuses an input that is not an object and
 * informs the model (F27). Throws `ModelError` `model_protocol` when the value is not a response.
 */
export function checkResponse(value: unknown): ModelResponse {
  if (!isRecord(value)) throw protocolError(`the provider answered ${describeValue(value)}`);
  const content = value['content'];
  if (!Array.isArray(content)) {
    throw protocolError(`the provider's content is ${describeValue(content)}, not a list of blocks`);
  }
  const stopReason = value['stop_reason'];
  if (stopReason !== null && stopReason !== undefined && typeof stopReason !== 'string') {
    throw protocolError(`the provider's stop_reason is ${describeValue(stopReason)}`);
  }
  const blocks: ContentBlock[] = [];
  for (let index = 0; index < content.length; index += 1) blocks.push(checkBlock(content[index], index));
  const response: Draft<ModelResponse> = {
    content: blocks,
    stop_reason: stopReason ?? null,
    usage: readUsage(value['usage']),
  };
  const { model, id } = value;
  if (typeof model === 'string') response.model = model;
  if (typeof id === 'string') response.id = id;
  return response;
}

/** The counters of a usage object; a value that is not a token count becomes zero. */
export function readUsage(value: unknown): Usage {
  const usage = isRecord(value) ? value : NOTHING;
  const created = tokenCount(usage['cache_creation_input_tokens']);
  const read = tokenCount(usage['cache_read_input_tokens']);
  const counts: Draft<Usage> = {
    input_tokens: tokenCount(usage['input_tokens']) ?? 0,
    output_tokens: tokenCount(usage['output_tokens']) ?? 0,
  };
  if (created !== undefined) counts.cache_creation_input_tokens = created;
  if (read !== undefined) counts.cache_read_input_tokens = read;
  return counts;
}

/** A token count; undefined when the value is null, negative, fractional or too large for an integer. */
export function tokenCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

function checkBlock(block: unknown, index: number): ContentBlock {
  if (!isRecord(block) || typeof block['type'] !== 'string') {
    throw protocolError(`content.${index} of the answer is ${describeValue(block)}, not a block`);
  }
  const type = block['type'];
  for (const key of REQUIRED_STRINGS.get(type) ?? NONE) {
    if (typeof block[key] === 'string') continue;
    throw protocolError(`content.${index}.${type}.${key} of the answer is ${describeValue(block[key])}`);
  }
  return plainBlock(block, index) as unknown as ContentBlock;
}

function plainBlock(block: unknown, index: number): Json {
  try {
    return toPlainJson(block);
  } catch (error) {
    if (error instanceof NotPlainError) {
      throw protocolError(`content.${index} of the answer: ${error.message}`, error);
    }
    throw error;
  }
}
