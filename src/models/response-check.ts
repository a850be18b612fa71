/** The door for what a provider answers: an unknown value becomes a `ModelResponse` that can be stored and sent again. Pure. */
import { describeValue } from '../base/errors.ts';
import { isRecord, type Json, NotPlainError, toPlainJson } from '../base/json.ts';
import type { ContentBlock, Usage } from '../base/messages.ts';
import { protocolError } from './model-error.ts';
import type { ModelResponse } from './provider.ts';

/** String fields a block of each type must have. */
const REQUIRED_STRINGS: Readonly<Record<string, readonly string[]>> = {
  text: ['text'],
  tool_use: ['name'],
  thinking: ['thinking', 'signature'],
  redacted_thinking: ['data'],
};

/**
 * A plain, well-formed copy of what a provider answered. A missing or absurd usage counts as zero, so that the caller's own
 * estimate takes its place. The input of a call may be any JSON: what is no object the session refuses, and tells the model
 * (F27). Throws `ModelError` `model_protocol` when it is no response.
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
  return {
    content: content.map((block: unknown, index) => checkBlock(block, index)),
    stop_reason: stopReason ?? null,
    usage: readUsage(value['usage']),
    ...(typeof value['model'] === 'string' ? { model: value['model'] } : {}),
    ...(typeof value['id'] === 'string' ? { id: value['id'] } : {}),
  };
}

/** The counters of a usage object; what is no count of tokens is zero. */
export function readUsage(value: unknown): Usage {
  const usage = isRecord(value) ? value : {};
  const created = tokenCount(usage['cache_creation_input_tokens']);
  const read = tokenCount(usage['cache_read_input_tokens']);
  return {
    input_tokens: tokenCount(usage['input_tokens']) ?? 0,
    output_tokens: tokenCount(usage['output_tokens']) ?? 0,
    ...(created === undefined ? {} : { cache_creation_input_tokens: created }),
    ...(read === undefined ? {} : { cache_read_input_tokens: read }),
  };
}

/** A count of tokens, or undefined: null, negative, fractional or beyond what integers hold. */
export function tokenCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

function checkBlock(block: unknown, index: number): ContentBlock {
  if (!isRecord(block) || typeof block['type'] !== 'string') {
    throw protocolError(`content.${index} of the answer is ${describeValue(block)}, not a block`);
  }
  const type = block['type'];
  for (const key of Object.hasOwn(REQUIRED_STRINGS, type) ? (REQUIRED_STRINGS[type] ?? []) : []) {
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
