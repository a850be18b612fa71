/**
 * A strict fake of the chat completions that many servers offer (`POST /chat/completions`): a `fetch` for
 * `createOpenAICompatible({ fetch })`. It owns only what `wire-fake.ts` owns.
 *
 * | rule | refused | source |
 * | --- | --- | --- |
 * | C01 | an unknown parameter, an unknown member of a message | OpenAI's API reference, "Create chat completion" |
 * | C02 | no model, no messages, an unknown role | API reference, `messages` |
 * | C03 | a `tool` message that answers no call | error "messages with role 'tool' must be a response to a preceeding message" |
 * | C04 | calls without a `tool` message for each | error "must be followed by tool messages responding to each" |
 * | C05 | an id of more than 40 characters | error `string_above_max_length` for `tool_calls[0].id` |
 * | C06 | an assistant message without content and calls | error "Invalid value for 'content': expected a string, got
 *   null" |
 * | C07 | a result that is not a text | API reference, "Tool message" |
 * | C08 | a part of a user message that is not a text, image, audio or file | API reference, "User message" |
 * | C09 | a call whose arguments are not a JSON text | API reference, `tool_calls` |
 * | C10 | a function without a name, or whose schema is not an object | guide "Function calling" |
 * | C11 | a tool choice that names no tool of the request | API reference, `tool_choice` |
 * | C12 | more than four stop sequences | API reference, `stop` |
 * | C13 | a strict schema that is open or has optional properties | guide "Structured outputs" |
 */
import { isRecord } from '../../base/json.ts';
import type { ModelResponse } from '../../models/provider.ts';
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

type Fields = Readonly<Record<string, unknown>>;

const BODY_FIELDS: ReadonlySet<string> = new Set([
  ...['model', 'messages', 'max_tokens', 'max_completion_tokens', 'stream', 'stream_options', 'stop', 'tools'],
  ...['tool_choice', 'parallel_tool_calls', 'response_format', 'temperature', 'top_p', 'frequency_penalty', 'user'],
  ...['presence_penalty', 'seed', 'n', 'logprobs', 'top_logprobs', 'logit_bias', 'reasoning_effort', 'verbosity'],
  ...['metadata', 'service_tier', 'store', 'modalities', 'prediction', 'audio', 'prompt_cache_key'],
]);
/** Members of a message, by role. These servers send and receive reasoning as `reasoning_content`. */
const MESSAGE_FIELDS: Readonly<Record<string, ReadonlySet<string>>> = {
  system: new Set(['role', 'content', 'name']),
  developer: new Set(['role', 'content', 'name']),
  user: new Set(['role', 'content', 'name']),
  assistant: new Set(['role', 'content', 'name', 'tool_calls', 'refusal', 'audio', 'reasoning_content']),
  tool: new Set(['role', 'content', 'tool_call_id']),
};
const USER_PARTS: ReadonlySet<unknown> = new Set(['text', 'image_url', 'input_audio', 'file']);
const ID_CHARACTERS_MAX = 40;
const STOPS_MAX = 4;

/**
 * A fake of chat completions. It streams answers from the script, and refuses what OpenAI's own interface refuses. A
 * thought of a reply is sent as `reasoning_content`. Throws `ConfigError` for a bad script. Runs on the thread of its
 * caller.
 *
 * ```ts
 * const fake = fakeOpenAiCompatible({ script: ['Hello.'] });
 * const provider = createOpenAICompatible({ name: 'local', baseURL: 'http://local/v1', apiKey: 'k', fetch: fake.fetch });
 * ```
 */
export function fakeOpenAiCompatible(options: WireFakeOptions): WireFake {
  return createWireFake(
    {
      serves: (path) => path.endsWith('/chat/completions'),
      modelOf: ({ body }) => String(body['model']),
      hasKey: (headers) => (headers.get('authorization') ?? '').startsWith('Bearer '),
      check,
      stream: streamOf,
      errorBody: (_status, message, refusal) => ({
        error: { message, type: 'invalid_request_error', param: refusal?.path ?? null, code: refusal?.code ?? null },
      }),
    },
    options,
  );
}

function check({ body }: WireCall, refuse: Refuse): void {
  const unknown = Object.keys(body).find((field) => !BODY_FIELDS.has(field));
  if (unknown !== undefined) refuse('C01', unknown, `Unrecognized request argument supplied: ${unknown}`);
  const { model, messages, tools, tool_choice: choice, stop, response_format: format } = body;
  if (typeof model !== 'string' || model === '') refuse('C02', 'model', 'you must provide a model parameter');
  if (!Array.isArray(messages) || messages.length === 0) {
    refuse('C02', 'messages', "Invalid 'messages': empty array. Expected an array with minimum length 1.");
  }
  const list = recordsOf(messages);
  for (const [message, place] of list) checkMessage(message, `messages.[${place}]`, refuse);
  checkPairing(
    list.map(([message]) => message),
    refuse,
  );
  if (Array.isArray(stop) && stop.length > STOPS_MAX) {
    refuse('C12', 'stop', `Invalid 'stop': array too long. Expected an array with maximum length ${STOPS_MAX}.`);
  }
  const functions = recordsOf(tools).flatMap(([tool]) => (isRecord(tool['function']) ? [tool['function']] : []));
  functions.forEach(({ name, parameters }, place) => {
    checkName('C10', name, `tools[${place}].function.name`, refuse);
    checkFunctionSchema('C10', name, parameters, `tools[${place}].function.parameters`, refuse);
  });
  const chosen = isRecord(choice) && isRecord(choice['function']) ? choice['function']['name'] : undefined;
  checkChoice(
    'C11',
    chosen,
    functions.map(({ name }) => name),
    refuse,
  );
  const schema = isRecord(format) ? format['json_schema'] : undefined;
  const fault = isRecord(schema) && schema['strict'] === true ? strictFault(schema['schema']) : undefined;
  if (fault !== undefined) refuse('C13', 'response_format', `Invalid schema for response_format: ${fault}`);
}

function checkMessage(message: Fields, path: string, refuse: Refuse): void {
  const { role, content, tool_calls: calls } = message;
  const fields = typeof role === 'string' && Object.hasOwn(MESSAGE_FIELDS, role) ? MESSAGE_FIELDS[role] : undefined;
  if (fields === undefined) {
    refuse('C02', `${path}.role`, `Invalid value: '${String(role)}'.`, 'invalid_value');
    return;
  }
  const unknown = Object.keys(message).find((field) => !fields.has(field));
  if (unknown !== undefined)
    refuse('C01', `${path}.${unknown}`, `Additional properties are not allowed ('${unknown}' was unexpected)`);
  if (role === 'assistant') {
    const hasCalls = Array.isArray(calls) && calls.length > 0;
    if (typeof content !== 'string' && !hasCalls) {
      refuse('C06', `${path}.content`, "Invalid value for 'content': expected a string, got null.");
    }
    for (const [call, place] of recordsOf(calls)) checkCall(call, `${path}.tool_calls[${place}]`, refuse);
    return;
  }
  if (typeof content === 'string') return;
  const parts = recordsOf(content);
  const isText = role !== 'user';
  const isWrong = ([part]: (typeof parts)[number]): boolean =>
    isText ? part['type'] !== 'text' : !USER_PARTS.has(part['type']);
  if (parts.length > 0 && !parts.some(isWrong)) return;
  refuse(
    role === 'tool' ? 'C07' : 'C08',
    `${path}.content`,
    `Invalid value for 'content' of a message with role '${role}'.`,
  );
}

function checkCall(call: Fields, path: string, refuse: Refuse): void {
  const { id, function: called } = call;
  if (typeof id !== 'string' || id.length > ID_CHARACTERS_MAX) {
    const length = String(id).length;
    refuse(
      'C05',
      `${path}.id`,
      `Invalid '${path}.id': string too long. Expected a string with maximum length ${ID_CHARACTERS_MAX}, but got a string with length ${length} instead.`,
      'string_above_max_length',
    );
  }
  const { name, arguments: text } = isRecord(called) ? called : {};
  if (typeof name === 'string' && typeof text === 'string' && isJson(text)) return;
  refuse('C09', `${path}.function`, `Invalid type for '${path}.function.arguments': expected a JSON string.`);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Reports C03 and C04. */
function checkPairing(messages: readonly Fields[], refuse: Refuse): void {
  let open = new Set<unknown>();
  const close = (): void => {
    if (open.size > 0) {
      refuse(
        'C04',
        'messages',
        `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${[...open].join(', ')}`,
      );
    }
    open = new Set();
  };
  messages.forEach((message, place) => {
    const { role, tool_call_id: id, tool_calls: calls } = message;
    if (role === 'tool') {
      if (!open.delete(id)) {
        refuse(
          'C03',
          `messages.[${place}].role`,
          "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
        );
      }
      return;
    }
    close();
    if (role === 'assistant') open = new Set(recordsOf(calls).map(([call]) => call['id']));
  });
  close();
}

function streamOf(
  { content, stop_reason: stop, usage }: ModelResponse,
  { body }: WireCall,
  number: number,
): readonly string[] {
  const head = { id: `chatcmpl-${number}`, object: 'chat.completion.chunk', created: number, model: body['model'] };
  const texts: string[] = [];
  const push = (delta: object, reason: string | null = null): void => {
    texts.push(eventOf({ ...head, choices: [{ index: 0, delta, finish_reason: reason }] }));
  };
  push({ role: 'assistant' });
  let calls = 0;
  for (const block of content) {
    if (block.type === 'thinking') for (const text of piecesOf(block.thinking)) push({ reasoning_content: text });
    else if (block.type === 'text') for (const text of piecesOf(block.text)) push({ content: text });
    else if (block.type === 'tool_use') {
      const text = typeof block.input === 'string' ? block.input : JSON.stringify(block.input);
      const [first = '', ...others] = piecesOf(text);
      const index = calls;
      calls += 1;
      push({
        tool_calls: [{ index, id: block.id, type: 'function', function: { name: block.name, arguments: first } }],
      });
      for (const piece of others) push({ tool_calls: [{ index, function: { arguments: piece } }] });
    }
  }
  push({}, FINISH_REASONS.get(String(stop)) ?? 'stop');
  const counted = {
    prompt_tokens: usage.input_tokens + (usage.cache_read_input_tokens ?? 0),
    prompt_tokens_details: { cached_tokens: usage.cache_read_input_tokens ?? 0 },
    completion_tokens: usage.output_tokens,
    completion_tokens_details: { reasoning_tokens: usage.output_tokens_details?.thinking_tokens ?? 0 },
    total_tokens: usage.input_tokens + usage.output_tokens,
  };
  texts.push(eventOf({ ...head, choices: [], usage: counted }), eventOf('[DONE]'));
  return texts;
}

const FINISH_REASONS: ReadonlyMap<string, string> = new Map([
  ['max_tokens', 'length'],
  ['refusal', 'content_filter'],
  ['tool_use', 'tool_calls'],
]);
