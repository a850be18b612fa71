import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  checkHeaders,
  checkRequest,
  checkRequestText,
  fatalOf,
  type LegalityOptions,
} from '../../src/context/legality/legality.ts';

type Body = Record<string, unknown>;
type Block = Record<string, unknown>;
interface Msg {
  role: string;
  content: string | Block[];
}

const MARK = { type: 'ephemeral' };
const PIXEL = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } };

function tool(name: string): Body {
  return {
    name,
    description: 'A tool.',
    input_schema: {
      type: 'object',
      properties: { a: { type: ['number', 'null'] }, b: { type: 'array', items: { type: 'string' } } },
      required: ['a'],
      additionalProperties: false,
    },
  };
}

/** A legal request with every kind of part: each test changes one thing. */
function legal(changes: Body = {}): Body & { messages: Msg[] } {
  return {
    model: 'claude-opus-4-6',
    max_tokens: 4_096,
    stream: true,
    system: [{ type: 'text', text: 'Be brief.', cache_control: MARK }],
    tools: [tool('add'), { ...tool('look_up'), cache_control: MARK }],
    messages: [
      { role: 'user', content: 'Add and look.' },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: '', signature: 'sig' },
          { type: 'text', text: 'Both at once. ' },
          { type: 'tool_use', id: 'toolu_1', name: 'add', input: { a: 1 } },
          { type: 'tool_use', id: 'toolu_2', name: 'look_up', input: {} },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'toolu_1', content: '' },
          { type: 'tool_result', tool_use_id: 'toolu_2', content: [{ type: 'text', text: 'found' }], is_error: false },
          { ...PIXEL, cache_control: MARK },
        ],
      },
    ],
    ...changes,
  };
}

function blocks(body: { messages: Msg[] }, message: number): Block[] {
  return body.messages[message]?.content as Block[];
}

/** A request that ends with an assistant message, for models that accept one. */
function prefilled(content: unknown, changes: Body = {}): Body {
  return {
    model: 'claude-sonnet-4-5',
    max_tokens: 100,
    messages: [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content },
    ],
    ...changes,
  };
}

const SERVER_CALL = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'x' } };
const SEARCH = { type: 'web_search_20250305', name: 'web_search' };
const LONG = 'word '.repeat(200_000);

const FATAL: readonly (readonly [string, string, () => unknown, LegalityOptions?])[] = [
  [
    'R01',
    'a call without a result',
    () => {
      const body = legal();
      blocks(body, 2).splice(1, 1);
      return body;
    },
  ],
  [
    'R01',
    'a call in the last message',
    () => prefilled([{ type: 'tool_use', id: 't', name: 'add', input: {} }], { tools: [tool('add')] }),
  ],
  [
    'R02',
    'text before the results',
    () => {
      const body = legal();
      blocks(body, 2).reverse();
      return body;
    },
  ],
  [
    'R03',
    'results in two user messages',
    () => {
      const body = legal();
      const [first, second] = blocks(body, 2).splice(0, 2);
      blocks(body, 2).unshift(first as Block);
      body.messages.push({ role: 'assistant', content: 'Wait.' }, { role: 'user', content: [second as Block] });
      return body;
    },
  ],
  [
    'R04',
    'a result without a call',
    () => {
      const body = legal();
      blocks(body, 2).splice(2, 0, { type: 'tool_result', tool_use_id: 'toolu_9', content: 'x' });
      return body;
    },
  ],
  [
    'R04',
    'a result that comes again later',
    () => {
      const body = legal();
      body.messages.push(
        { role: 'assistant', content: 'Done.' },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'x' }] },
      );
      return body;
    },
  ],
  [
    'R04',
    'a result in an assistant message',
    () => {
      const body = legal();
      blocks(body, 1).push({ type: 'tool_result', tool_use_id: 'toolu_1', content: 'x' });
      return body;
    },
  ],
  [
    'R05',
    'an id used twice',
    () => {
      const body = legal();
      body.messages.push(
        { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'add', input: {} }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'x' }] },
      );
      return body;
    },
  ],
  ['R07', 'an id with a colon', () => JSON.parse(JSON.stringify(legal()).replaceAll('toolu_1', 'toolu:1'))],
  ['R07', 'an empty id', () => JSON.parse(JSON.stringify(legal()).replaceAll('toolu_1', ''))],
  [
    'R08',
    'an empty text block',
    () => {
      const body = legal();
      blocks(body, 1)[1] = { type: 'text', text: '' };
      return body;
    },
  ],
  [
    'R08',
    'an empty text block in a result',
    () => {
      const body = legal();
      blocks(body, 2)[1] = { type: 'tool_result', tool_use_id: 'toolu_2', content: [{ type: 'text', text: '' }] };
      return body;
    },
  ],
  [
    'R09',
    'a blank text block',
    () => {
      const body = legal();
      blocks(body, 1)[1] = { type: 'text', text: ' \n\t' };
      return body;
    },
  ],
  ['R09', 'a blank string', () => legal({ messages: [{ role: 'user', content: '  ' }] })],
  ['R10', 'an empty message', () => legal({ messages: [{ role: 'user', content: [] }] })],
  ['R10', 'an empty string', () => legal({ messages: [{ role: 'user', content: '' }] })],
  ['R11', 'a final assistant text with a blank end', () => prefilled('The answer is ')],
  ['R12', 'a prefill', () => prefilled('The answer is', { model: 'claude-opus-4-6' })],
  [
    'R13',
    'a system message for an older model',
    () =>
      legal({
        messages: [
          { role: 'user', content: 'a' },
          { role: 'system', content: 'b' },
        ],
      }),
  ],
  [
    'R13',
    'a system message before a user message',
    () =>
      legal({
        model: 'claude-opus-4-8',
        messages: [
          { role: 'user', content: 'a' },
          { role: 'system', content: 'b' },
          { role: 'user', content: 'c' },
        ],
      }),
  ],
  [
    'R13',
    'a system message for a model that the documentation leaves out',
    () =>
      legal({
        model: 'claude-sonnet-5',
        messages: [
          { role: 'user', content: 'a' },
          { role: 'system', content: 'b' },
        ],
      }),
  ],
  [
    'R13',
    'a system message after an assistant message',
    () =>
      legal({
        model: 'claude-opus-4-8',
        messages: [
          { role: 'user', content: 'a' },
          { role: 'assistant', content: 'b' },
          { role: 'system', content: 'c' },
          { role: 'user', content: 'd' },
        ],
      }),
  ],
  ['R14', 'no message', () => legal({ messages: [] })],
  [
    'R14',
    'an unknown role',
    () =>
      legal({
        messages: [
          { role: 'user', content: 'a' },
          { role: 'tool', content: 'b' },
        ],
      }),
  ],
  [
    'R16',
    'five cache marks',
    () => {
      const body = legal();
      for (const block of blocks(body, 2).slice(0, 2)) block['cache_control'] = MARK;
      return body;
    },
  ],
  [
    'R16',
    'four cache marks and one of the whole request',
    () => {
      const body = legal({ cache_control: MARK });
      for (const block of blocks(body, 2)) block['cache_control'] = MARK;
      delete blocks(body, 2)[2]?.['cache_control'];
      return body;
    },
  ],
  [
    'R18',
    'an hour after five minutes',
    () => {
      const body = legal();
      (blocks(body, 2)[2] as Block)['cache_control'] = { type: 'ephemeral', ttl: '1h' };
      return body;
    },
  ],
  ['R19', 'a top-level mark of another lifetime', () => legal({ cache_control: { type: 'ephemeral', ttl: '1h' } })],
  [
    'R22',
    'manual thinking and a turn that starts with a call',
    () => {
      const body = legal({ thinking: { type: 'enabled', budget_tokens: 1_024 } });
      blocks(body, 1).splice(0, 2);
      return body;
    },
  ],
  [
    'R23',
    'final thinking with thinking off',
    () =>
      prefilled([
        { type: 'thinking', thinking: 'a', signature: 'b' },
        { type: 'text', text: 'c' },
      ]),
  ],
  ['R24', 'a small budget', () => legal({ thinking: { type: 'enabled', budget_tokens: 1_000 } })],
  ['R24', 'a budget of all tokens', () => legal({ thinking: { type: 'enabled', budget_tokens: 4_096 } })],
  [
    'R25',
    'manual thinking on a newer model',
    () => legal({ model: 'claude-opus-4-7', thinking: { type: 'enabled', budget_tokens: 2_000 } }),
  ],
  ['R49', 'temperature on a newer model', () => legal({ model: 'claude-sonnet-5-5', temperature: 1 })],
  [
    'R27',
    'no thinking at the highest effort',
    () => legal({ model: 'claude-opus-5', thinking: { type: 'disabled' }, output_config: { effort: 'max' } }),
  ],
  [
    'R27',
    'no thinking of a small model at a high effort',
    () => legal({ model: 'claude-haiku-5-5', thinking: { type: 'disabled' }, output_config: { effort: 'xhigh' } }),
  ],
  [
    'R28',
    'thinking and a forced tool',
    () => legal({ thinking: { type: 'adaptive' }, tool_choice: { type: 'tool', name: 'add' } }),
  ],
  ['R29', 'a tool name with a dot', () => legal({ tools: [tool('add'), tool('look.up')] })],
  ['R29', 'a long tool name', () => legal({ tools: [tool('a'.repeat(129))] })],
  ['R30', 'a tool name twice', () => legal({ tools: [tool('add'), tool('add')] })],
  [
    'R31',
    'a schema of draft 4',
    () =>
      legal({
        tools: [
          {
            name: 'a',
            input_schema: { type: 'object', properties: { a: { type: 'number', exclusiveMinimum: true } } },
          },
        ],
      }),
  ],
  [
    'R31',
    'a list of item schemas',
    () =>
      legal({
        tools: [{ name: 'a', input_schema: { type: 'object', properties: { a: { items: [{ type: 'string' }] } } } }],
      }),
  ],
  ['R31', 'a schema that is no object', () => legal({ tools: [{ name: 'a', input_schema: { type: 'string' } }] })],
  ['R31', 'no schema', () => legal({ tools: [{ name: 'a' }] })],
  ['R32', 'oneOf at the top', () => legal({ tools: [{ name: 'a', input_schema: { oneOf: [{ type: 'object' }] } }] })],
  [
    'R33',
    'a property key with a blank',
    () => legal({ tools: [{ name: 'a', input_schema: { type: 'object', properties: { 'a b': {} } } }] }),
  ],
  ['R34', 'a prompt too long', () => prefilled('x', { messages: [{ role: 'user', content: LONG }] })],
  [
    'R34',
    'a prompt and an answer too long for an early model',
    () => ({
      model: 'claude-3-opus-20240229',
      max_tokens: 199_999,
      messages: [{ role: 'user', content: 'Hello there.' }],
    }),
  ],
  ['R34', 'a prompt longer than the option says', () => legal(), { contextTokensMax: 10 }],
  ['R36', 'half a surrogate pair', () => legal({ messages: [{ role: 'user', content: 'a\ud83db' }] })],
  ['R36', 'half a surrogate pair in a key', () => legal({ metadata: { '\ude00': 1 } })],
  [
    'R37',
    'a server result without its call',
    () => {
      const body = legal();
      blocks(body, 1).splice(1, 0, { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [] });
      return body;
    },
  ],
  [
    'R38',
    'a paused turn that was changed',
    () => prefilled([SERVER_CALL], { model: 'claude-opus-4-6', tools: [SEARCH] }),
    { isPausedTurn: () => false },
  ],
  [
    'R61',
    'an image of an unknown type',
    () =>
      legal({
        messages: [
          {
            role: 'user',
            content: [{ type: 'image', source: { type: 'base64', media_type: 'image/bmp', data: 'AA' } }],
          },
        ],
      }),
  ],
  ['R39', 'no max_tokens', () => legal({ max_tokens: undefined })],
  ['R39', 'max_tokens -1', () => legal({ max_tokens: -1 })],
  ['R39', 'an output format of a beta without the beta', () => legal({ output_format: {} }), { betas: [] }],
  ['R39', 'more messages than a request takes', () => legal({ messages: new Array(100_001).fill({}) })],
  ['R39', 'no model', () => legal({ model: undefined })],
  ['R39', 'no messages', () => legal({ messages: undefined })],
  ['R39', 'a body that is a list', () => []],
  [
    'R39',
    'an input that is a text',
    () => {
      const body = legal();
      (blocks(body, 1)[2] as Block)['input'] = '{}';
      return body;
    },
  ],
  [
    'R39',
    'a thought without signature',
    () => {
      const body = legal();
      blocks(body, 1)[0] = { type: 'thinking', thinking: 'x' };
      return body;
    },
  ],
];

const WARNING: readonly (readonly [string, string, () => unknown])[] = [
  [
    'R06',
    'two results of one call',
    () => {
      const body = legal();
      blocks(body, 2).splice(1, 0, { type: 'tool_result', tool_use_id: 'toolu_1', content: 'again' });
      return body;
    },
  ],
  [
    'R14',
    'an assistant message first',
    () =>
      legal({
        messages: [
          { role: 'assistant', content: 'a' },
          { role: 'user', content: 'b' },
        ],
      }),
  ],
  [
    'R15',
    'two user messages in a row',
    () =>
      legal({
        messages: [
          { role: 'user', content: 'a' },
          { role: 'user', content: 'b' },
        ],
      }),
  ],
  [
    'R28',
    'explicit thinking and a forced tool of a model that thinks by default',
    () => legal({ model: 'claude-opus-5', thinking: { type: 'adaptive' }, tool_choice: { type: 'any' } }),
  ],
  ['R39', 'an unknown field', () => legal({ seq: 1 })],
  ['R39', 'an unknown field of a message', () => legal({ messages: [{ role: 'user', content: 'a', at: 1 }] })],
  [
    'R39',
    'an unknown field of a block',
    () => legal({ messages: [{ role: 'user', content: [{ type: 'text', text: 'a', at: 1 }] }] }),
  ],
  [
    'R40',
    'an empty failure',
    () => {
      const body = legal();
      (blocks(body, 2)[0] as Block)['is_error'] = true;
      return body;
    },
  ],
  ['R41', 'an unknown chosen tool', () => legal({ tool_choice: { type: 'tool', name: 'nope' } })],
  ['R41', 'calls without tools', () => legal({ tools: undefined })],
  [
    'R43',
    'a mark on a thought',
    () => {
      const body = legal();
      delete (blocks(body, 2)[2] as Block)['cache_control'];
      (blocks(body, 1)[0] as Block)['cache_control'] = MARK;
      return body;
    },
  ],
];

function rulesOf(violations: readonly { readonly rule: string }[]): readonly string[] {
  return [...new Set(violations.map((violation) => violation.rule))];
}

describe('checkRequest', () => {
  it('I3: a legal request breaks no rule, checked as a value and as text', () => {
    expect(checkRequest(legal())).toEqual([]);
    expect(checkRequestText(JSON.stringify(legal()))).toEqual([]);
  });

  it.each(FATAL.map(([rule, what, build, options]) => ({ rule, what, build, options })))(
    '$rule: $what is refused as exactly that',
    ({ rule, build, options }) => {
      const found = fatalOf(checkRequest(build(), options ?? {}));
      expect(rulesOf(found)).toEqual([rule]);
      expect(found[0]?.message).not.toBe('');
    },
  );

  it.each(WARNING.map(([rule, what, build]) => ({ rule, what, build })))(
    '$rule: $what warns as exactly that',
    ({ rule, build }) => {
      const found = checkRequest(build());
      expect(rulesOf(found)).toEqual([rule]);
      expect(fatalOf(found)).toEqual([]);
    },
  );

  it('R17: a mark on an empty text block is reported beside R08', () => {
    const body = legal();
    blocks(body, 2)[2] = { type: 'text', text: '', cache_control: MARK };
    expect(rulesOf(checkRequest(body))).toEqual(['R08', 'R69', 'R17']);
  });

  it('R01: the message names the ids and the position of the calls', () => {
    const body = legal({ messages: [...legal().messages.slice(0, 2), { role: 'user', content: 'no' }] });
    const [violation] = fatalOf(checkRequest(body));
    expect(violation).toMatchObject({ rule: 'R01', path: 'messages.1' });
    expect(violation?.message).toMatch(/^messages\.1: `tool_use` ids were found.*toolu_1, toolu_2\./);
  });

  it('R10, R12: a request with an empty or prefilled end is legal for models that accept one', () => {
    expect(fatalOf(checkRequest(prefilled('')))).toEqual([]);
    expect(fatalOf(checkRequest(prefilled('The answer is')))).toEqual([]);
    expect(fatalOf(checkRequest(prefilled('x', { model: 'some-model' })))).toEqual([]);
  });

  it('R12, R38: a paused turn may stay last on any model', () => {
    const body = prefilled([{ type: 'text', text: 'Looking ' }, SERVER_CALL], {
      model: 'claude-opus-5',
      tools: [SEARCH],
    });
    expect(fatalOf(checkRequest(body))).toEqual([]);
    const seen: unknown[] = [];
    const isPausedTurn = (content: readonly unknown[]): boolean => {
      seen.push(content);
      return true;
    };
    expect(fatalOf(checkRequest(body, { isPausedTurn }))).toEqual([]);
    expect(seen).toEqual([[{ type: 'text', text: 'Looking ' }, SERVER_CALL]]);
  });

  it('R58: a paused turn is resumed beside an output format, also one of text alone; a prefill is not', () => {
    const format = { type: 'json_schema', schema: { type: 'object', additionalProperties: false } };
    const body = prefilled([{ type: 'text', text: '{"a":' }], { output_config: { format } });
    expect(fatalOf(checkRequest(body, { isPausedTurn: () => true }))).toEqual([]);
    expect(fatalOf(checkRequest(body, { isPausedTurn: () => false })).map(({ rule }) => rule)).toEqual(['R58']);
    expect(fatalOf(checkRequest(body)).map(({ rule }) => rule)).toEqual(['R58']);
  });

  it('R13: newer models take a system message after a user message', () => {
    const messages = [
      { role: 'user', content: 'a' },
      { role: 'system', content: 'b' },
    ];
    expect(checkRequest(legal({ model: 'claude-opus-4-8', messages }))).toEqual([]);
  });

  it('R22: earlier turns and later answers of a turn may lack thinking', () => {
    const call = (id: string): Msg => ({
      role: 'assistant',
      content: [{ type: 'tool_use', id, name: 'add', input: {} }],
    });
    const result = (id: string): Msg => ({
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: id, content: 'x' }],
    });
    const thought: Msg = {
      role: 'assistant',
      content: [{ type: 'redacted_thinking', data: 'x' }, ...(call('b').content as Block[])],
    };
    const messages = [
      { role: 'user', content: 'one' },
      ...[call('a'), result('a'), { role: 'assistant', content: 'done' }],
      { role: 'user', content: 'two' },
      ...[thought, result('b'), call('c'), result('c')],
    ];
    const thinking = { type: 'enabled', budget_tokens: 2_000 };
    expect(checkRequest(legal({ messages, thinking }))).toEqual([]);
    // A pair of call and result that no model made, at the start of the turn. A8 must avoid such a pair.
    messages.splice(5, 2);
    expect(rulesOf(checkRequest(legal({ messages, thinking })))).toEqual(['R22']);
  });

  it('R25: older models keep manual thinking', () => {
    for (const model of [
      'claude-sonnet-4-6',
      'claude-haiku-4-5',
      'claude-3-7-sonnet-20250219',
      'claude-opus-4-20250514',
    ]) {
      expect(checkRequest(legal({ model, thinking: { type: 'enabled', budget_tokens: 2_000 } })), model).toEqual([]);
    }
  });

  it('R29 to R33: the rules for our tools do not apply to a provider\u2019s own tools', () => {
    expect(checkRequest(legal({ tools: [tool('add'), { type: 'web_search_20250305', name: 'web_search' }] }))).toEqual(
      [],
    );
  });

  it('R35: a body beyond 32 MB is refused for its size alone', () => {
    const text = JSON.stringify(legal({ metadata: { filler: 'x'.repeat(32 * 1024 * 1024) } }));
    expect(checkRequestText(text)).toMatchObject([{ rule: 'R35', fatal: true }]);
  });

  it('R36: text that is not strict JSON is refused, and so is the escaped lone surrogate that JSON.stringify writes', () => {
    expect(checkRequestText('{"model":')).toMatchObject([{ rule: 'R36', fatal: true }]);
    const text = JSON.stringify(legal({ messages: [{ role: 'user', content: 'a\udc00' }] }));
    expect(text).toContain('\\udc00');
    const [violation] = checkRequestText(text);
    expect(violation).toMatchObject({ rule: 'R36', path: 'messages.0.content', fatal: true });
  });

  it('R39: a counting request needs no max_tokens', () => {
    expect(checkRequest(legal({ max_tokens: undefined }), { counting: true })).toEqual([]);
  });

  it.each([
    ['claude-3-haiku-20240307', 4_096],
    ['claude-3-5-sonnet-20241022', 8_192],
    ['claude-opus-4-1-20250805', 32_000],
    ['claude-sonnet-4-20250514', 64_000],
    ['claude-haiku-4-5', 64_000],
    ['claude-opus-4-6', 128_000],
  ])('R39: %s gives %i tokens at most; one more warns', (model, tokens) => {
    const short = { model, messages: [{ role: 'user', content: 'Hi' }] };
    expect(checkRequest({ ...short, max_tokens: tokens })).toEqual([]);
    expect(checkRequest({ ...short, max_tokens: tokens + 1 })).toMatchObject([{ rule: 'R39', fatal: false }]);
  });

  it('R39: an unknown model has no known limit', () => {
    for (const model of ['claude-opus-7', 'some-model']) {
      expect(checkRequest({ model, max_tokens: 1e9, messages: [{ role: 'user', content: 'Hi' }] })).toEqual([]);
    }
  });

  it('R44: valid beta flags are not judged, in one header or several', () => {
    const headers = { 'anthropic-version': '2023-06-01', 'content-type': 'application/json' };
    const flags = 'context-1m-2025-08-07, claude-code-20250219';
    expect(checkHeaders({ ...headers, 'anthropic-beta': flags })).toEqual([]);
    expect(checkHeaders({ ...headers, 'anthropic-beta': [flags, 'mcp-client-2025-04-04'] })).toEqual([]);
    expect(checkHeaders({ ...headers, 'anthropic-beta': `${flags},2025-04-04` })).toMatchObject([
      { rule: 'R44', fatal: false },
    ]);
  });

  it('R44: version and content type', () => {
    const headers = { 'anthropic-version': '2023-06-01', 'content-type': 'application/json; charset=utf-8' };
    expect(checkHeaders(headers)).toEqual([]);
    expect(rulesOf(checkHeaders({ ...headers, 'anthropic-version': 'new' }))).toEqual(['R44']);
    expect(checkHeaders({})).toHaveLength(2);
  });

  it('T5: never throws, whatever the request', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (messages, tools) => {
        checkRequest({ model: 'claude-opus-5', max_tokens: 1, messages, tools });
        checkRequest(messages);
      }),
    );
  });

  it('I3: a history of whole turns is legal, and without any one of its results it breaks R01', () => {
    const turn = fc.record({ text: fc.stringMatching(/^[a-z]{1,9}$/), calls: fc.nat(3), rider: fc.boolean() });
    fc.assert(
      fc.property(fc.array(turn, { minLength: 1, maxLength: 6 }), fc.nat(), (turns, choice) => {
        const { messages, results } = history(turns);
        expect(rulesOf(checkRequest(legal({ messages })))).toEqual(hasRider(messages) ? ['R69'] : []);
        if (results.length === 0) return;
        const lost = results[choice % results.length];
        const poorer = messages.map((message) =>
          typeof message.content === 'string' ? message : { ...message, content: withoutBlock(message.content, lost) },
        );
        expect(rulesOf(fatalOf(checkRequest(legal({ messages: poorer }))))).toEqual(['R01']);
      }),
    );
  });
});

/** Text follows the results of a message. */
function hasRider(messages: readonly Msg[]): boolean {
  return messages.some(({ content }) => {
    if (typeof content === 'string') return false;
    return content.some(({ type }) => type === 'tool_result') && content.at(-1)?.['type'] === 'text';
  });
}

function withoutBlock(content: Block[], lost: Block | undefined): Block[] {
  const rest = content.filter((block) => block !== lost);
  return rest.length > 0 ? rest : [{ type: 'text', text: 'nothing' }];
}

function history(turns: readonly { text: string; calls: number; rider: boolean }[]): {
  messages: Msg[];
  results: Block[];
} {
  const messages: Msg[] = [];
  const results: Block[] = [];
  turns.forEach(({ text, calls, rider }, place) => {
    if (messages.at(-1)?.role !== 'user') messages.push({ role: 'user', content: text });
    const ids = Array.from({ length: calls }, (_, n) => `call_${place}_${n}`);
    const asked = ids.map((id) => ({ type: 'tool_use', id, name: 'add', input: {} }));
    messages.push({ role: 'assistant', content: [{ type: 'text', text }, ...asked] });
    if (calls === 0) {
      messages.push({ role: 'user', content: text });
      return;
    }
    const answers = ids.map((id): Block => ({ type: 'tool_result', tool_use_id: id, content: text }));
    results.push(...answers);
    messages.push({ role: 'user', content: rider ? [...answers, { type: 'text', text }] : answers });
  });
  return { messages, results };
}
