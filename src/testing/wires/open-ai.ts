/**
 * A strict fake of OpenAI's Responses API (`POST /responses`): a `fetch` for `createOpenAI({ fetch })`.
 *
 * Owns: the items it has answered with, and the text of each encrypted reasoning. Does not own: the script.
 *
 * | rule | refused | source |
 * | --- | --- | --- |
 * | O01 | an unknown parameter | API reference, "Create a model response"; `unknown_parameter` of its error |
 * | O02 | no model, no input, an item of an unknown type | API reference, `input` |
 * | O03 | content of the wrong kind for its role | API reference, "Input message", "Output message" |
 * | O04 | an output without its call | error "No tool call found for function call output with call_id" |
 * | O05 | a call without its output | error "No tool output found for function call" |
 * | O06 | a `call_id` of more than 64 characters | error `string_above_max_length` |
 * | O07 | reasoning without the item that followed it | guide "Reasoning models"; error "without its required following item" |
 * | O08 | an item without the reasoning before it | error "was provided without its required 'reasoning' item" |
 * | O09 | a reference to an item that is not stored | error "Item with id … not found"; guide "Conversation state" |
 * | O10 | encrypted reasoning that the API did not give | error `invalid_encrypted_content` |
 * | O11 | an id of the wrong kind, an id that occurs twice | error "Expected an ID that begins with"; "Duplicate item" |
 * | O12 | an image that is neither an address nor a data URL | guide "Images and vision" |
 * | O13 | a function without a name, or whose schema is not an object | guide "Function calling" |
 * | O14 | a strict schema that is open or has optional properties | guide "Structured outputs" |
 * | O15 | a tool choice that names no tool of the request | API reference, `tool_choice` |
 * | O16 | `max_output_tokens` below 16 | API reference, `max_output_tokens` |
 */
import { createHash } from 'node:crypto';
import { isRecord } from '../../base/json.ts';
import type { ModelResponse } from '../../models/provider.ts';
import { OpenAiItems } from './open-ai-items.ts';
import { checkChoice, checkFunctionSchema, checkName, strictFault } from './schema-rules.ts';
import {
  createWireFake,
  eventOf,
  piecesOf,
  type Refuse,
  recordsOf,
  type WireCall,
  type WireFake,
  type WireFakeOptions,
} from './wire-fake.ts';

const BODY_FIELDS: ReadonlySet<string> = new Set([
  ...['background', 'conversation', 'include', 'input', 'instructions', 'max_output_tokens', 'max_tool_calls'],
  ...['metadata', 'model', 'parallel_tool_calls', 'previous_response_id', 'prompt', 'prompt_cache_key'],
  ...['prompt_cache_options', 'prompt_cache_retention', 'reasoning', 'safety_identifier', 'service_tier', 'store'],
  ...['stream', 'stream_options', 'temperature', 'text', 'tool_choice', 'tools', 'top_logprobs', 'top_p'],
  ...['truncation', 'user'],
]);
const OUTPUT_TOKENS_MIN = 16;

/**
 * A fake of OpenAI's Responses API. It streams answers from the script, and refuses what the API refuses. A thought of
 * a reply becomes a reasoning item. Throws `ConfigError` for a bad script. Runs on the thread of its caller.
 *
 * ```ts
 * const fake = fakeOpenAi({ script: ['Hello.'] });
 * const model = createOpenAI({ apiKey: 'test', fetch: fake.fetch })('gpt-5.5');
 * ```
 */
export function fakeOpenAi(options: WireFakeOptions): WireFake {
  const items = new OpenAiItems();
  return createWireFake(
    {
      serves: (path) => path.endsWith('/responses'),
      modelOf: ({ body }) => String(body['model']),
      hasKey: (headers) => (headers.get('authorization') ?? '').startsWith('Bearer '),
      check: (call, refuse) => checkResponsesRequest(call, items, refuse),
      stream: (response, call, number) => streamOf(response, call, number, items),
      errorBody: (_status, message, refusal) => ({
        error: {
          message,
          type: 'invalid_request_error',
          param: refusal?.path ?? null,
          code: refusal?.code ?? null,
        },
      }),
    },
    options,
  );
}

/** Reports every rule that a request breaks. `items`: the items of the answers so far. */
export function checkResponsesRequest({ body }: Pick<WireCall, 'body'>, items: OpenAiItems, refuse: Refuse): void {
  for (const field of Object.keys(body)) {
    if (BODY_FIELDS.has(field)) continue;
    refuse('O01', field, `Unknown parameter: '${field}'.`, 'unknown_parameter');
  }
  const { model, input, max_output_tokens: tokens, tools, tool_choice: choice, text } = body;
  if (typeof model !== 'string' || model === '') {
    refuse('O02', 'model', "Missing required parameter: 'model'.", 'missing_required_parameter');
  }
  if (!Array.isArray(input) || input.length === 0) {
    refuse('O02', 'input', "Missing required parameter: 'input'.", 'missing_required_parameter');
  } else {
    items.check(input, refuse);
  }
  if (typeof tokens === 'number' && tokens < OUTPUT_TOKENS_MIN) {
    const message = `Invalid 'max_output_tokens': integer below minimum value. Expected a value >= ${OUTPUT_TOKENS_MIN}, but got ${tokens} instead.`;
    refuse('O16', 'max_output_tokens', message, 'integer_below_min_value');
  }
  const names: unknown[] = [];
  for (const [tool, place] of recordsOf(tools)) {
    if (tool['type'] !== 'function') continue;
    names.push(tool['name']);
    checkName('O13', tool['name'], `tools[${place}].name`, refuse);
    checkFunctionSchema('O13', tool['name'], tool['parameters'], `tools[${place}].parameters`, refuse);
    if (tool['strict'] === true) checkStrict(tool['parameters'], `function '${String(tool['name'])}'`, refuse);
  }
  checkChoice('O15', isRecord(choice) ? choice['name'] : undefined, names, refuse);
  checkFormat(isRecord(text) ? text['format'] : undefined, refuse);
}

function checkFormat(format: unknown, refuse: Refuse): void {
  if (!isRecord(format) || format['type'] !== 'json_schema') return;
  checkName('O14', format['name'], 'text.format.name', refuse);
  if (format['strict'] === true) checkStrict(format['schema'], `response_format '${String(format['name'])}'`, refuse);
}

function checkStrict(schema: unknown, what: string, refuse: Refuse): void {
  const fault = strictFault(schema);
  if (fault === undefined) return;
  refuse('O14', 'schema', `Invalid schema for ${what}: ${fault}`, 'invalid_json_schema');
}

function streamOf(
  { content, stop_reason: stop, usage }: ModelResponse,
  { body }: WireCall,
  number: number,
  items: OpenAiItems,
): readonly string[] {
  const texts: string[] = [];
  let sequence = 0;
  const push = (type: string, fields: object): void => {
    texts.push(eventOf({ type, sequence_number: sequence, ...fields }));
    sequence += 1;
  };
  const response = { id: `resp_${number}`, created_at: number, model: String(body['model']) };
  push('response.created', { response });
  // Without a store, reasoning can be sent back only if the request asks for its encrypted form.
  const isEncrypted = Array.isArray(body['include']) && body['include'].includes('reasoning.encrypted_content');
  const answer = items.answer(body['store'] !== false);
  content.forEach((block, place) => {
    const at = { output_index: place };
    const id = (prefix: string): string => `${prefix}_${number}_${place}`;
    if (block.type === 'thinking') {
      const encrypted = isEncrypted ? encryptedText(block.thinking, number, place) : null;
      const item = { type: 'reasoning', id: id('rs'), encrypted_content: encrypted, summary: [] };
      answer.reasoning(item.id, encrypted ?? undefined);
      push('response.output_item.added', { ...at, item });
      // A thought without a text is reasoning without a summary.
      if (block.thinking !== '') {
        const part = { item_id: item.id, summary_index: 0 };
        push('response.reasoning_summary_part.added', part);
        for (const delta of piecesOf(block.thinking)) push('response.reasoning_summary_text.delta', { ...part, delta });
        push('response.reasoning_summary_part.done', part);
      }
      push('response.output_item.done', { ...at, item });
    } else if (block.type === 'tool_use') {
      const call = { type: 'function_call', id: id('fc'), call_id: block.id, name: block.name };
      const args = typeof block.input === 'string' ? block.input : JSON.stringify(block.input);
      answer.item(call.id, block.id);
      push('response.output_item.added', { ...at, item: { ...call, arguments: '' } });
      for (const delta of piecesOf(args)) {
        push('response.function_call_arguments.delta', { ...at, item_id: call.id, delta });
      }
      push('response.output_item.done', { ...at, item: { ...call, arguments: args, status: 'completed' } });
    } else if (block.type === 'text') {
      const item = { type: 'message', id: id('msg') };
      answer.item(item.id);
      push('response.output_item.added', { ...at, item });
      for (const delta of piecesOf(block.text)) push('response.output_text.delta', { item_id: item.id, delta });
      push('response.output_item.done', { ...at, item });
    }
  });
  const counted = {
    input_tokens: usage.input_tokens + (usage.cache_read_input_tokens ?? 0),
    input_tokens_details: { cached_tokens: usage.cache_read_input_tokens ?? 0 },
    output_tokens: usage.output_tokens,
    output_tokens_details: { reasoning_tokens: usage.output_tokens_details?.thinking_tokens ?? 0 },
  };
  const reason = stop === 'max_tokens' ? 'max_output_tokens' : stop === 'refusal' ? 'content_filter' : undefined;
  push(reason === undefined ? 'response.completed' : 'response.incomplete', {
    response: { ...response, usage: counted, incomplete_details: reason === undefined ? null : { reason } },
  });
  return texts;
}

function encryptedText(thinking: string, number: number, place: number): string {
  return createHash('sha256').update(`${number} ${place} ${thinking}`).digest('base64');
}
