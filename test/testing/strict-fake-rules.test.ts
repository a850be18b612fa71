/**
 * Goal: the validator itself is tested; each rule of the API has a request that breaks it (T6). Method: one legal
 * request with every kind of part, which the fake accepts without a warning. Each row of the table changes only the
 * part that breaks its rule. The fake must name only that rule, with the API's status and error text.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type StrictFake, strictFake } from '../../src/testing/strict-fake.ts';
import { LEGAL_ROWS } from '../support/legal-rows.ts';
import { RULE_ROWS } from '../support/rule-rows.ts';

type Fields = Record<string, unknown>;
interface Turn {
  role: string;
  content: string | Fields[];
}
interface Body extends Fields {
  model?: string;
  system: Fields[];
  tools: Fields[];
  messages: Turn[];
}

const HEADERS: Readonly<Record<string, string>> = {
  'x-api-key': 'k',
  'anthropic-version': '2026-10-21',
  'content-type': 'application/json',
};
const MARK = { type: 'ephemeral' };
const HOUR = { type: 'ephemeral', ttl: '1h' };
const PIXEL = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } };
/** Prefill and manual thinking are accepted; 200,000 tokens are the window. */
const OLDER = 'claude-sonnet-4-5';
const SERVER_CALL = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'x' } };

function tool(name: string): Fields {
  const properties = { a: { type: ['number', 'null'] }, b: { type: 'array', items: { type: 'string' } } };
  return { name, description: 'A tool.', input_schema: { type: 'object', properties, required: ['a'] } };
}

const ANSWER = [
  { type: 'thinking', thinking: 'Two at once.' },
  SERVER_CALL,
  { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [] },
  { type: 'text', text: 'Both at once. ' },
  { type: 'tool_use', id: 'toolu_1', name: 'add', input: { a: 1 } },
  { type: 'tool_use', id: 'toolu_2', name: 'look_up', input: { a: null } },
] as const;

let fake: StrictFake;
let legal: Body;
/** The number of requests the fake received so far; each violation has the number of its request. */
let sent = 0;

interface ApiError {
  readonly type: string;
  readonly message: string;
  readonly details?: { readonly error_code: string };
}

interface Reply {
  readonly status: number;
  readonly body: { readonly content: Fields[]; readonly error?: ApiError };
  /** The fake's answer to this request. */
  readonly violations: readonly { readonly rule: string; readonly fatal: boolean; readonly message: string }[];
}

async function post(body: unknown, headers: Readonly<Record<string, string>> = HEADERS): Promise<Reply> {
  const number = sent;
  sent += 1;
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const response = await fetch(`${fake.url}/v1/messages`, { method: 'POST', headers, body: text });
  const answer = (await response.json()) as Reply['body'];
  return {
    status: response.status,
    body: answer,
    violations: fake.violations.filter(({ request }) => request === number),
  };
}

function betaHeaders(betas: readonly string[] = []): Readonly<Record<string, string>> {
  return betas.length === 0 ? HEADERS : { ...HEADERS, 'anthropic-beta': betas.join(',') };
}

beforeAll(async () => {
  fake = await strictFake({ script: (request) => (request.messages.length === 1 ? { content: ANSWER } : 'Done.') });
  const first: Body = {
    model: 'claude-opus-4-6',
    max_tokens: 4_096,
    thinking: { type: 'adaptive' },
    system: [{ type: 'text', text: 'Be brief.', cache_control: MARK }],
    tools: [tool('add'), { ...tool('look_up'), cache_control: MARK }],
    messages: [{ role: 'user', content: [PIXEL, { type: 'text', text: 'Add and look.' }] }],
  };
  const { body } = await post(first);
  const results = [
    { type: 'tool_result', tool_use_id: 'toolu_1', content: '' },
    { type: 'tool_result', tool_use_id: 'toolu_2', content: [{ type: 'text', text: 'found' }, PIXEL] },
    { ...PIXEL, cache_control: MARK },
  ];
  legal = {
    ...first,
    messages: [...first.messages, { role: 'assistant', content: body.content }, { role: 'user', content: results }],
  };
});

afterAll(async () => {
  await fake.close();
});

/** Blocks of a message. */
function blocks(body: Body, message: number): Fields[] {
  return body.messages[message]?.content as Fields[];
}

/** The block of the answer, or of the results, at a position. */
function block(body: Body, message: number, place: number): Fields {
  return blocks(body, message)[place] as Fields;
}

/** The request is cloned through JSON text, so that no two members share a value. */
function copyOf(body: Body): Body {
  return JSON.parse(JSON.stringify(body)) as Body;
}

function rename(body: Body, from: string, to: string): Body {
  return JSON.parse(JSON.stringify(body).replaceAll(JSON.stringify(from), JSON.stringify(to))) as Body;
}

/** A last message of the model, for a model that accepts one. */
function prefill(body: Body, content: string | Fields[], changes: Fields = {}): Fields {
  const messages = [...body.messages, { role: 'assistant', content }];
  return { ...body, model: OLDER, thinking: { type: 'disabled' }, ...changes, messages };
}

interface Row {
  readonly rule: string;
  readonly what: string;
  /** A warning of rank C: the request is accepted. */
  readonly warns?: true;
  /** The status, if other than 400. */
  readonly status?: number;
  readonly says: RegExp;
  /** Changes a copy in place, or returns the request to send. */
  readonly breaks?: (body: Body) => unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** Other rules that the same change breaks unavoidably. */
  readonly along?: readonly string[];
}

const ORPHAN =
  /^messages\.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_\d(, toolu_\d)*\. Each `tool_use` block must have a corresponding `tool_result` block in the next message\.$/;
const SCHEMA = /^tools\.0\.custom\.input_schema/;

function schema(input_schema: unknown): (body: Body) => void {
  return (body) => {
    (body.tools[0] as Fields)['input_schema'] = input_schema;
  };
}

const ROWS: readonly Row[] = [
  { rule: 'R01', what: 'a call without a result', says: ORPHAN, breaks: (body) => void blocks(body, 2).splice(1, 1) },
  {
    rule: 'R01',
    what: 'a user who speaks instead of answering',
    says: ORPHAN,
    breaks: (body) => void body.messages.splice(2, 1, { role: 'user', content: 'never mind' }),
  },
  { rule: 'R02', what: 'text before the results', says: ORPHAN, breaks: (body) => void blocks(body, 2).reverse() },
  {
    rule: 'R03',
    what: 'parallel results in two messages',
    says: ORPHAN,
    breaks: (body) => {
      const [late] = blocks(body, 2).splice(1, 1);
      body.messages.push({ role: 'assistant', content: 'Wait.' }, { role: 'user', content: [late as Fields] });
    },
  },
  {
    rule: 'R04',
    what: 'a result nobody asked for',
    says: /^messages\.2\.content\.2: unexpected `tool_use_id` found in `tool_result` blocks: toolu_9\. Each `tool_result` block must have a corresponding `tool_use` block in the previous message\.$/,
    breaks: (body) => void blocks(body, 2).splice(2, 0, { type: 'tool_result', tool_use_id: 'toolu_9', content: 'x' }),
  },
  {
    rule: 'R05',
    what: 'an id of an earlier turn',
    says: /^messages\.3\.content\.0: `tool_use` ids must be unique$/,
    breaks: (body) => {
      body.messages.push(
        { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'add', input: {} }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'x' }] },
      );
    },
  },
  {
    rule: 'R06',
    what: 'two results of one call',
    warns: true,
    says: /each tool_use must have a single result\. Found multiple `tool_result` blocks with id: toolu_1$/,
    breaks: (body) => void blocks(body, 2).splice(1, 0, { type: 'tool_result', tool_use_id: 'toolu_1', content: 'x' }),
  },
  {
    rule: 'R07',
    what: 'an id with a colon',
    says: /^messages\.1\.content\.4\.tool_use\.id: String should match pattern '\^\[a-zA-Z0-9_-\]\+\$'$/,
    breaks: (body) => rename(body, 'toolu_1', 'toolu:1'),
  },
  {
    rule: 'R08',
    what: 'an empty text',
    says: /^messages: text content blocks must be non-empty$/,
    breaks: (body) => void Object.assign(block(body, 1, 3), { text: '' }),
  },
  {
    rule: 'R09',
    what: 'a blank text',
    says: /^messages: text content blocks must contain non-whitespace text$/,
    breaks: (body) => void Object.assign(block(body, 1, 3), { text: ' \n\t' }),
  },
  {
    rule: 'R10',
    what: 'an empty message',
    says: /^messages\.0: all messages must have non-empty content except for the optional final assistant message$/,
    breaks: (body) => void Object.assign(body.messages[0] as Turn, { content: [] }),
  },
  {
    rule: 'R11',
    what: 'a blank at the end of the last words of the model',
    says: /^messages: final assistant content cannot end with trailing whitespace$/,
    breaks: (body) => prefill(body, 'The sum is '),
  },
  {
    rule: 'R12',
    what: 'last words of a model that takes none',
    says: /^This model does not support assistant message prefill\. The conversation must end with a user message\.$/,
    breaks: (body) => prefill(body, 'The sum is', { model: 'claude-opus-4-6' }),
  },
  {
    rule: 'R13',
    what: 'a system message for a model before Opus 4.8',
    says: /^messages: Unexpected role "system"\. The Messages API accepts a top-level system parameter/,
    breaks: (body) => void body.messages.push({ role: 'system', content: 'Hurry.' }),
  },
  {
    rule: 'R13',
    what: 'a system message that follows no user',
    says: /^messages\.2: .*must follow a user message or a server tool result$/,
    breaks: (body) => {
      const [a, b, c, d] = ['user', 'assistant', 'system', 'user'].map((role) => ({ role, content: role }));
      return { ...body, model: 'claude-opus-4-8', messages: [a, b, c, d] };
    },
  },
  {
    rule: 'R14',
    what: 'no message at all',
    says: /^messages: at least one message is required$/,
    breaks: (body) => void body.messages.splice(0),
  },
  {
    rule: 'R14',
    what: 'a role nobody has',
    says: /^messages\.0\.role: Input should be 'user' or 'assistant'$/,
    breaks: (body) => ({ ...body, messages: [{ role: 'tool', content: 'x' }] }),
  },
  {
    rule: 'R14',
    what: 'the model first',
    warns: true,
    says: /^messages: first message must use the "user" role$/,
    breaks: (body) => void body.messages.unshift({ role: 'assistant', content: 'Welcome.' }),
  },
  {
    rule: 'R15',
    what: 'two user messages in a row',
    warns: true,
    says: /^messages\.3: roles must alternate, found multiple "user" roles in a row$/,
    breaks: (body) => void body.messages.push({ role: 'user', content: 'And?' }),
  },
  {
    rule: 'R16',
    what: 'five cache marks',
    says: /^A maximum of 4 blocks with cache_control may be provided\. Found 5\.$/,
    breaks: (body) => {
      block(body, 2, 0)['cache_control'] = MARK;
      block(body, 2, 1)['cache_control'] = MARK;
    },
  },
  {
    rule: 'R17',
    what: 'a mark on an empty text',
    warns: true,
    says: /cache_control cannot be set for empty text blocks$/,
    along: ['R08', 'R69'],
    breaks: (body) => void blocks(body, 2).splice(2, 1, { type: 'text', text: '', cache_control: MARK }),
  },
  {
    rule: 'R18',
    what: 'an hour after five minutes',
    says: /^messages\.2\.content\.2\.cache_control\.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block/,
    breaks: (body) => void Object.assign(block(body, 2, 2), { cache_control: HOUR }),
  },
  {
    rule: 'R19',
    what: 'a mark of the whole request that says otherwise than its block',
    says: /^Top-level cache_control has ttl='1h' but the target block already has ttl='5m'$/,
    breaks: (body) => ({ ...body, cache_control: HOUR }),
  },
  {
    rule: 'R20',
    what: 'a changed thought of the latest answer',
    says: /^messages\.1\.content\.0: thinking or redacted_thinking blocks in the latest assistant message cannot be modified\./,
    breaks: (body) => void Object.assign(block(body, 1, 0), { thinking: 'One at a time.' }),
  },
  {
    rule: 'R21',
    what: 'a thought after another beginning, for a model that binds it',
    says: /^messages\.1\.content\.0: Invalid `signature` in `thinking` block\. The block is bound to a different conversation\. Remove the block, or set `thinking\.block_binding\.prefix_mismatch_behavior` to "drop_block"\. That setting requires the `thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header\.$/,
    breaks: (body) => {
      block(body, 0, 1)['text'] = 'Subtract and look.';
      return { ...body, model: 'claude-opus-5-5' };
    },
  },
  {
    rule: 'R21',
    what: 'a signature that was tampered with in an earlier answer',
    says: /^messages\.1\.content\.0: Invalid `signature` in `thinking` block\.$/,
    breaks: (body) => {
      block(body, 1, 0)['signature'] = 'forged';
      body.messages.push({ role: 'assistant', content: 'Three.' }, { role: 'user', content: 'And?' });
    },
  },
  {
    rule: 'R22',
    what: 'manual thinking and an answer that begins with its calls',
    says: /^messages\.1\.content\.0\.type: Expected `thinking` or `redacted_thinking`, but found `text`\. When `thinking` is enabled/,
    breaks: (body) => {
      blocks(body, 1).splice(0, 3);
      return { ...body, thinking: { type: 'enabled', budget_tokens: 1_024 } };
    },
  },
  {
    rule: 'R23',
    what: 'a last thought with thinking off',
    says: /^messages\.3: When thinking is disabled, an `assistant` message in the final position cannot contain `thinking`\.$/,
    breaks: (body) => prefill(body, [block(body, 1, 0), { type: 'text', text: 'So' }]),
  },
  {
    rule: 'R24',
    what: 'too small a budget',
    says: /^thinking\.enabled\.budget_tokens: Input should be greater than or equal to 1024$/,
    breaks: (body) => ({ ...body, thinking: { type: 'enabled', budget_tokens: 1_023 } }),
  },
  {
    rule: 'R24',
    what: 'a budget of all tokens',
    says: /^`max_tokens` must be greater than `thinking\.budget_tokens`/,
    breaks: (body) => ({ ...body, thinking: { type: 'enabled', budget_tokens: 4_096 } }),
  },
  {
    rule: 'R25',
    what: 'manual thinking of a model that has none',
    says: /^"thinking\.type\.enabled" is not supported for this model/,
    breaks: (body) => ({ ...body, model: 'claude-opus-4-7', thinking: { type: 'enabled', budget_tokens: 2_000 } }),
  },
  {
    rule: 'R27',
    what: 'thinking off at the highest effort',
    says: /^thinking cannot be disabled with effort 'max'/,
    breaks: (body) => ({
      ...body,
      model: 'claude-opus-5',
      thinking: { type: 'disabled' },
      output_config: { effort: 'max' },
    }),
  },
  {
    rule: 'R28',
    what: 'thinking and a tool that is forced',
    says: /^Thinking may not be enabled when tool_choice forces tool use\.$/,
    breaks: (body) => ({ ...body, tool_choice: { type: 'any' } }),
  },
  {
    rule: 'R28',
    what: 'explicit thinking of a model that forces a tool while it thinks by default',
    warns: true,
    says: /^Thinking may not be enabled when tool_choice forces tool use\.$/,
    breaks: (body) => ({ ...body, model: 'claude-opus-5', tool_choice: { type: 'any' } }),
  },
  {
    rule: 'R29',
    what: 'a dot in a tool name',
    says: /^tools\.0\.custom\.name: String should match pattern '\^\[a-zA-Z0-9_-\]\{1,128\}\$'$/,
    breaks: (body) => void Object.assign(body.tools[0] as Fields, { name: 'add.up' }),
  },
  {
    rule: 'R29',
    what: 'a long tool name',
    says: /^tools\.0\.custom\.name: String should have at most 128 characters$/,
    breaks: (body) => void Object.assign(body.tools[0] as Fields, { name: 'a'.repeat(129) }),
  },
  {
    rule: 'R30',
    what: 'a tool name twice',
    says: /^tools: Tool names must be unique\.$/,
    breaks: (body) => void Object.assign(body.tools[0] as Fields, { name: 'look_up' }),
  },
  {
    rule: 'R31',
    what: 'a schema of an older draft',
    says: /^tools\.0\.custom\.input_schema: JSON schema is invalid\. It must match JSON Schema draft 2020-12/,
    breaks: schema({ type: 'object', properties: { a: { type: 'number', exclusiveMinimum: true } } }),
  },
  { rule: 'R31', what: 'a schema that is no object', says: SCHEMA, breaks: schema({ type: 'string' }) },
  {
    rule: 'R32',
    what: 'a choice at the top of a schema',
    says: /input_schema does not support oneOf, allOf, or anyOf at the top level$/,
    breaks: schema({ type: 'object', anyOf: [{ required: ['a'] }] }),
  },
  {
    rule: 'R33',
    what: 'a blank in a property key',
    says: /^tools\.0\.custom\.input_schema\.properties: Property keys should match pattern '\^\[a-zA-Z0-9_\.-\]\{1,64\}\$'$/,
    breaks: schema({ type: 'object', properties: { 'a b': {} } }),
  },
  {
    rule: 'R34',
    what: 'a prompt beyond the window',
    says: /^prompt is too long: \d+ tokens > 200000 maximum$/,
    breaks: (body) => {
      block(body, 0, 1)['text'] = 'word '.repeat(200_000);
      return { ...body, model: OLDER, thinking: { type: 'disabled' } };
    },
  },
  {
    rule: 'R34',
    what: 'a prompt and an answer beyond the window of an early model',
    says: /^input length and `max_tokens` exceed context limit: \d+ \+ 4096 > 200000$/,
    breaks: () => ({
      model: 'claude-3-opus-20240229',
      max_tokens: 4_096,
      messages: [{ role: 'user', content: 'word '.repeat(158_000) }],
    }),
  },
  {
    rule: 'R35',
    what: 'a body beyond 32 MB',
    status: 413,
    says: /maximum size/,
    breaks: (body) => ({ ...body, metadata: { user_id: 'x'.repeat(32 * 1024 * 1024) } }),
  },
  {
    rule: 'R36',
    what: 'half a surrogate pair, as its escape',
    says: /^The request body is not valid JSON: no low surrogate in string: line 1 column \d+$/,
    breaks: (body) => void Object.assign(block(body, 0, 1), { text: 'a\ud83d' }),
  },
  {
    rule: 'R36',
    what: 'a body that breaks off',
    says: /^The request body is not valid JSON: /,
    breaks: (body) => JSON.stringify(body).slice(0, -1),
  },
  {
    rule: 'R37',
    what: 'a server tool result without its call',
    says: /unexpected `tool_use_id` found in `web_search_tool_result` blocks: srvtoolu_1\. Each `web_search_tool_result` block must have a corresponding `server_tool_use` block before it\.$/,
    breaks: (body) => void blocks(body, 1).splice(1, 1),
  },
  {
    rule: 'R38',
    what: 'a turn that never paused, in the place of one',
    says: /^messages\.3: a paused assistant message must be sent back unchanged$/,
    breaks: (body) => {
      body.tools = [...body.tools, { type: 'web_search_20250305', name: 'web_search' }];
      body.messages.push({ role: 'assistant', content: [{ ...SERVER_CALL, id: 'srvtoolu_2' }] });
    },
  },
  {
    rule: 'R39',
    what: 'no max_tokens',
    says: /^max_tokens: Field required$/,
    breaks: ({ max_tokens: _left, ...body }) => body,
  },
  { rule: 'R39', what: 'no model', says: /^model: Field required$/, breaks: ({ model: _left, ...body }) => body },
  {
    rule: 'R39',
    what: 'max_tokens below 0',
    says: /^max_tokens: Input should be greater than or equal to 0$/,
    breaks: (body) => ({ ...body, max_tokens: -1 }),
  },
  {
    rule: 'R39',
    what: 'more max_tokens than the model has',
    warns: true,
    says: /^max_tokens: 64001 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5$/,
    breaks: ({ thinking: _off, ...body }) => ({ ...body, model: OLDER, max_tokens: 64_001 }),
  },
  {
    rule: 'R39',
    what: 'a field nobody knows',
    warns: true,
    says: /^messages\.1\.content\.3\.text\.seq: Extra inputs are not permitted$/,
    breaks: (body) => void Object.assign(block(body, 1, 3), { seq: 1 }),
  },
  {
    rule: 'R40',
    what: 'a failure that says nothing',
    warns: true,
    says: /content cannot be empty if is_error is true$/,
    breaks: (body) => void Object.assign(block(body, 2, 0), { is_error: true }),
  },
  {
    rule: 'R41',
    what: 'a tool chosen that is not there',
    warns: true,
    says: /^Tool 'nope' not found in provided tools$/,
    breaks: ({ thinking: _off, ...body }) => ({ ...body, tool_choice: { type: 'tool', name: 'nope' } }),
  },
  {
    rule: 'R41',
    what: 'calls in the history, and no tools',
    warns: true,
    says: /^tools: /,
    breaks: ({ tools: _left, ...body }) => body,
  },
  {
    rule: 'R61',
    what: 'an image of another type',
    says: /^messages\.0\.content\.0\.image\.source\.base64\.media_type: Input should be /,
    breaks: (body) => void Object.assign(block(body, 0, 0)['source'] as Fields, { media_type: 'image/bmp' }),
  },
  {
    rule: 'R61',
    what: 'an image of another type inside a result',
    says: /^messages\.2\.content\.1\.tool_result\.content\.1\.image\.source\.base64\.media_type: /,
    breaks: (body) => {
      const [, image] = block(body, 2, 1)['content'] as Fields[];
      Object.assign(image?.['source'] as Fields, { media_type: 'image/bmp' });
    },
  },
  {
    rule: 'R61',
    what: 'an image beyond 10 MB',
    says: /image exceeds 10 MB maximum$/,
    breaks: (body) =>
      void Object.assign(block(body, 0, 0)['source'] as Fields, { data: 'A'.repeat(10 * 1024 * 1024 + 4) }),
  },
  {
    rule: 'R43',
    what: 'a mark on a thought',
    warns: true,
    says: /^messages\.1\.content\.0: cache_control cannot be set for thinking blocks$/,
    breaks: (body) => void Object.assign(block(body, 1, 0), { cache_control: MARK }),
  },
  {
    rule: 'R44',
    what: 'no version',
    says: /^anthropic-version: header is required$/,
    headers: { 'x-api-key': 'k', 'content-type': 'application/json' },
  },
  {
    rule: 'R44',
    what: 'a body that is said to be text',
    says: /^content-type: /,
    headers: { ...HEADERS, 'content-type': 'text/plain' },
  },
  {
    rule: 'R44',
    what: 'a beta nobody knows',
    warns: true,
    says: /^Unexpected value\(s\) `faster-please` for the `anthropic-beta` header\.$/,
    headers: { ...HEADERS, 'anthropic-beta': 'context-1m-2025-08-07,faster-please' },
  },
];

/** R26 became R49, R42 became R61, and R67 and R68 are never refused. */
const UNUSED: ReadonlySet<number> = new Set([26, 42, 67, 68]);
const NUMBERS = Array.from({ length: 69 }, (_, index) => index + 1).filter((number) => !UNUSED.has(number));
const RULES = NUMBERS.map((number) => `R${String(number).padStart(2, '0')}`);

it('I3, T6: the table\u2019s first request is accepted without a warning, and every rule has a row', async () => {
  expect(await post(legal)).toMatchObject({ status: 200, violations: [] });
  expect([...new Set([...ROWS, ...RULE_ROWS].map(({ rule }) => rule))].sort()).toEqual(RULES);
});

it.each(ROWS.map((row) => [row.rule, row.what, row] as const))('%s: %s', async (rule, _what, row) => {
  const { warns, status, says, breaks, headers, along = [] } = row;
  const copy = copyOf(legal);
  const reply = await post(breaks?.(copy) ?? copy, headers);
  const own = reply.violations.filter((each) => each.rule === rule);
  expect([...new Set(reply.violations.map((each) => each.rule))].sort()).toEqual([rule, ...along].sort());
  expect(own[0]?.message).toMatch(says);
  expect(own.map(({ fatal }) => fatal)).toEqual(own.map(() => warns !== true));
  if (warns === true && along.length === 0) {
    expect(reply.status).toBe(200);
    return;
  }
  expect(reply.status).toBe(status ?? 400);
  expect(reply.body.error?.type).toBe(status === 413 ? 'request_too_large' : 'invalid_request_error');
  if (warns !== true) expect(reply.body.error?.message).toMatch(says);
});

it.each(RULE_ROWS.filter(({ batch }) => batch !== true).map((row) => [row.rule, row.what, row] as const))(
  '%s: %s',
  async (rule, _what, row) => {
    const reply = await post(row.body, betaHeaders(row.betas));
    expect([...new Set(reply.violations.map((each) => each.rule))]).toEqual([rule]);
    if (row.warns === true) {
      expect(reply.status).toBe(200);
      return;
    }
    expect(reply.status).toBe(400);
    expect(reply.body.error).toMatchObject({ type: 'invalid_request_error', message: expect.stringMatching(row.says) });
    expect(reply.body.error?.details?.error_code).toBe(row.code);
  },
);

it.each(LEGAL_ROWS.map((row) => [row.what, row] as const))('%s: is accepted', async (_what, { body, betas }) => {
  expect(await post(body, betaHeaders(betas))).toMatchObject({ status: 200, violations: [] });
});

it('R39, W8: a prompt that is only cached takes no reply and has no content', async () => {
  const { body } = await post({ model: 'claude-opus-5', max_tokens: 0, messages: [{ role: 'user', content: 'a' }] });
  expect(body).toMatchObject({ content: [], stop_reason: 'max_tokens' });
});

it('R21: a tool that is loaded later may join the conversation, another may not', async () => {
  const start = { ...legal, model: 'claude-opus-5-5', messages: legal.messages.slice(0, 1) };
  const { body } = await post(start);
  const messages = [...start.messages, { role: 'assistant', content: body.content }, legal.messages[2]];
  const join = (fields: Fields): Promise<Reply> => {
    return post({ ...start, tools: [{ ...tool('late'), ...fields }, ...legal.tools], messages });
  };
  expect(await join({ defer_loading: true })).toMatchObject({ status: 200, violations: [] });
  expect(await join({})).toMatchObject({ status: 400, violations: [{ rule: 'R21' }] });
});

describe('R21: thinking.block_binding', () => {
  const bind = (behavior: string): Fields => {
    const copy = copyOf(legal);
    block(copy, 0, 1)['text'] = 'Subtract and look.';
    return { ...copy, thinking: { type: 'adaptive', block_binding: { prefix_mismatch_behavior: behavior } } };
  };
  const beta = betaHeaders(['thinking-binding-controls-2026-08-01']);

  it('is refused without its beta', async () => {
    const reply = await post(bind('error'));
    expect(reply.body.error?.message).toBe('block_binding: Extra inputs are not permitted');
    expect(reply.violations).toMatchObject([{ rule: 'R21', fatal: true }]);
  });

  it('has any model check the beginning, or drop what does not fit', async () => {
    const refused = await post(bind('error'), beta);
    expect(refused.status).toBe(400);
    expect(refused.body.error?.message).toMatch(/bound to a different conversation.*to "drop_block"\.$/);
    expect(await post(bind('drop_block'), beta)).toMatchObject({ status: 200, violations: [] });
  });
});

it('R21: the token count refuses an altered thought as the call itself does', async () => {
  const copy = copyOf(legal);
  block(copy, 1, 0)['thinking'] = 'One at a time.';
  const response = await fetch(`${fake.url}/v1/messages/count_tokens`, {
    method: 'POST',
    headers: HEADERS,
    body: JSON.stringify(copy),
  });
  expect(response.status).toBe(400);
});
