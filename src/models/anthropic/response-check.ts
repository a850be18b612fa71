/**
 * Checks the answer of a provider: an unknown value becomes a `ModelResponse` that can be stored and sent again. Pure.
 */
import { ANSWER_FACT_BYTES_MAX, ERROR_CODE_CHARACTERS_MAX } from '../../base/bounds.ts';
import { defined } from '../../base/defined.ts';
import type { Draft } from '../../base/draft.ts';
import { describeValue, ModelError } from '../../base/errors.ts';
import { cutText, isRecord, type Json, NotPlainError, toPlainJson } from '../../base/json.ts';
import { type ContentBlock, isServerResult, isServerUse } from '../../base/messages.ts';
import { KNOWN_STOP_REASONS, type ModelResponse, type SentRequest, THREAD_OUTCOMES } from '../provider.ts';
import { readRateLimits } from '../rate-limits.ts';
import { readUsage, tokenCount } from '../usage.ts';

/** The string fields that a block of each type must have. */
const REQUIRED_STRINGS: ReadonlyMap<string, readonly string[]> = new Map([
  ['text', ['text']],
  ['tool_use', ['name']],
  ['thinking', ['thinking', 'signature']],
  ['redacted_thinking', ['data']],
]);
const NONE: readonly string[] = [];
const TOKEN_COUNTERS = [
  'input_tokens',
  'output_tokens',
  'cache_creation_input_tokens',
  'cache_read_input_tokens',
] as const;

const EXPECTED =
  "a ModelProvider answers as the Messages API does: { content: [{ type: 'text', text: 'Hi' }], stop_reason: 'end_turn', usage: { input_tokens: 1, output_tokens: 1 } }";

function shapeError(message: string, cause?: unknown): ModelError {
  return new ModelError('model_protocol', `${message}; ${EXPECTED}`, { retryable: false, ...defined({ cause }) });
}

/**
 * A plain, well-formed copy of a provider's answer. A missing or impossible usage counts as zero, so that the caller's
 * own estimate replaces it. The input of a call may be any JSON: the session refuses an input that is not an object and
 * informs the model (F27). Throws `ModelError` `model_protocol` when the value is not a response. That error is not
 * retryable, because the provider's code would answer in the wrong shape again.
 */
export function checkResponse(value: unknown): ModelResponse {
  if (!isRecord(value)) throw shapeError(`the provider answered ${describeValue(value)}`);
  const content = value['content'];
  if (!Array.isArray(content)) {
    throw shapeError(`the provider's content is ${describeValue(content)}, not a list of blocks`);
  }
  const stopReason = value['stop_reason'];
  if (stopReason !== null && stopReason !== undefined && typeof stopReason !== 'string') {
    throw shapeError(`the provider's stop_reason is ${describeValue(stopReason)}, not a string or null`);
  }
  const blocks: ContentBlock[] = [];
  for (let index = 0; index < content.length; index += 1) blocks.push(checkBlock(content[index], index));
  const response: Draft<ModelResponse> = {
    content: blocks,
    stop_reason: stopReason ?? null,
    usage: readUsage(value['usage']),
    ...readFacts(value),
  };
  const { model, id, rateLimits, sent } = value;
  const limits = readRateLimits(rateLimits);
  if (limits !== undefined) response.rateLimits = limits;
  const sending = readSent(sent);
  if (sending !== undefined) response.sent = sending;
  if (typeof model === 'string') response.model = model;
  if (typeof id === 'string') response.id = id;
  return response;
}

/** The block types of an answer that this library reads, besides those of the vendor's own tools. */
const KNOWN_BLOCKS: readonly string[] = [...REQUIRED_STRINGS.keys(), 'provider_part', 'container_upload'];

/**
 * `checkResponse` for a provider that an embedder wrote. Such a provider does not follow newer versions of the API, so
 * its block types, stop reasons and usage must be known to this library. An unknown value is a mistake, and is refused
 * instead of ignored. Throws as `checkResponse` does.
 */
export function checkOwnResponse(value: unknown): ModelResponse {
  const response = checkResponse(value);
  for (const [index, block] of response.content.entries()) {
    if (KNOWN_BLOCKS.includes(block.type) || isServerUse(block) || isServerResult(block)) continue;
    const known = `${KNOWN_BLOCKS.join(', ')}, or those of server tools`;
    throw shapeError(`content.${index}.type of the answer is ${describeValue(block.type)}, not one of ${known}`);
  }
  const given = isRecord(value) ? value : {};
  const reason = given['stop_reason'];
  if (!KNOWN_STOP_REASONS.some((known) => known === reason)) {
    const known = KNOWN_STOP_REASONS.join(', ');
    throw shapeError(`the provider's stop_reason is ${describeValue(reason)}, not one of ${known}`);
  }
  const usage = given['usage'];
  if (!isRecord(usage))
    throw shapeError(`the provider's usage is ${describeValue(usage)}, not an object of token counts`);
  for (const key of TOKEN_COUNTERS) {
    const count = usage[key];
    const isMissing = count === undefined || count === null;
    if (isMissing ? key.startsWith('cache_') : tokenCount(count) !== undefined) continue;
    throw shapeError(`the provider's usage.${key} is ${describeValue(count)}, not a whole number of tokens, 0 or more`);
  }
  return response;
}

/** The members of an answer besides its content, stop reason and usage that are kept as plain JSON. */
const FACTS = ['stop_sequence', 'stop_details', 'container', 'context_management', 'input_transformations'] as const;

/**
 * The `FACTS` of an answer, as plain JSON. A member that is null, is not plain or exceeds `ANSWER_FACT_BYTES_MAX` is
 * left out: the answer itself does not depend on it.
 */
export function readFacts(value: Readonly<Record<string, unknown>>): Pick<ModelResponse, (typeof FACTS)[number]> {
  const facts: Draft<Pick<ModelResponse, (typeof FACTS)[number]>> = {};
  for (const key of FACTS) {
    const fact = plainFact(value[key]);
    if (fact !== undefined) facts[key] = fact;
  }
  return facts;
}

/** How a provider sent its request; a faulty member is left out. */
function readSent(value: unknown): SentRequest | undefined {
  if (!isRecord(value)) return undefined;
  const bytes = tokenCount(value['bytes']);
  const thread = THREAD_OUTCOMES.find((each) => each === value['thread']);
  const code = typeof value['code'] === 'string' ? cutText(value['code'], ERROR_CODE_CHARACTERS_MAX) : undefined;
  return defined({ bytes, thread, code });
}

function plainFact(value: unknown): Json | undefined {
  if (value === undefined || value === null) return undefined;
  try {
    const fact = toPlainJson(value);
    return Buffer.byteLength(JSON.stringify(fact)) <= ANSWER_FACT_BYTES_MAX ? fact : undefined;
  } catch (error) {
    if (error instanceof NotPlainError) return undefined;
    throw error;
  }
}

function checkBlock(block: unknown, index: number): ContentBlock {
  if (!isRecord(block) || typeof block['type'] !== 'string') {
    const missing = isRecord(block) ? `; its type is ${describeValue(block['type'])}` : '';
    throw shapeError(`content.${index} of the answer is ${describeValue(block)}, not a block${missing}`);
  }
  const type = block['type'];
  for (const key of REQUIRED_STRINGS.get(type) ?? NONE) {
    if (typeof block[key] === 'string') continue;
    throw shapeError(
      `content.${index}.${key} of the answer, a block of type ${type}, is ${describeValue(block[key])}, not a string`,
    );
  }
  return plainBlock(block, index) as unknown as ContentBlock;
}

function plainBlock(block: unknown, index: number): Json {
  try {
    return toPlainJson(block);
  } catch (error) {
    if (error instanceof NotPlainError) {
      throw shapeError(`content.${index} of the answer: ${error.message}`, error);
    }
    throw error;
  }
}
