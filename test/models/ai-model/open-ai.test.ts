/**
 * Goal: sessions run on OpenAI's Responses API through `@ai-sdk/openai` (V3). Method: a strict fake of the wire behind
 * the real package; a request that the API would refuse is a refusal of the fake.
 */
import { inspect } from 'node:util';
import { createOpenAI } from '@ai-sdk/openai';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { agent, content, open, tool } from '../../../src/index.ts';
import { type AiModelOptions, aiModel } from '../../../src/models/ai-model/index.ts';
import type { GenerateContext, ModelRequest } from '../../../src/models/provider.ts';
import { fakeOpenAi, type WireFake, type WireScript } from '../../../src/testing/index.ts';
import { add } from '../../support/pure-tools.ts';
import { PICTURE, PIXEL } from './samples.ts';

const MODEL = 'gpt-5.5';
const UNSTORED = { openai: { store: false, reasoningSummary: 'auto' } };

const look = tool({
  name: 'look',
  description: 'Shows a picture.',
  input: z.object({}),
  effect: 'pure',
  run: () => content([{ type: 'text', text: 'A dot.' }, PICTURE]),
});

function model(fake: WireFake): ReturnType<ReturnType<typeof createOpenAI>> {
  return createOpenAI({ apiKey: 'test', fetch: fake.fetch })(MODEL);
}

function request(fields: Partial<ModelRequest> & Readonly<Record<string, unknown>>): ModelRequest {
  const { tools = [{ name: 'add', description: 'Adds.', input_schema: { type: 'object' } }] } = fields;
  return { model: MODEL, max_tokens: 100, messages: [{ role: 'user', content: 'hi' }], ...fields, tools };
}

function context(): GenerateContext {
  return { signal: new AbortController().signal, onDelta: () => undefined, session: 's' };
}

async function run(script: WireScript, texts: readonly string[], options: AiModelOptions = {}) {
  const fake = fakeOpenAi({ script });
  const provider = aiModel(model(fake), options);
  const helper = agent({ name: 'helper', model: MODEL, system: 'Be brief.', tools: [add, look] });
  const runtime = await open(':memory:', { provider, agents: [helper], logger: false });
  try {
    const session = runtime.session('s');
    const answers: string[] = [];
    for (const text of texts) answers.push(await session.ask(text));
    const { usage } = await session.state();
    return { fake, answers, usage };
  } finally {
    await runtime.close();
  }
}

const CALLS: WireScript = [
  {
    thinking: 'Two numbers.',
    toolUse: [{ name: 'add', input: { a: 1, b: 2 } }, { name: 'look' }],
  },
  {
    content: [
      { type: 'thinking', thinking: '' },
      { type: 'text', text: 'Three.' },
    ],
    usage: {
      input_tokens: 50,
      cache_read_input_tokens: 40,
      output_tokens: 9,
      output_tokens_details: { thinking_tokens: 4 },
    },
  },
  { thinking: 'Again.', text: 'Still three.' },
];

describe('a session with tools, thoughts and pictures', () => {
  it.each([
    ['stored items', {}],
    ['encrypted reasoning', { providerOptions: UNSTORED }],
  ])('runs with %s, and every request is accepted', async (_name, options) => {
    const { fake, answers, usage } = await run(CALLS, ['What is 1 + 2?', 'Sure?'], options);
    expect(fake.refusals).toEqual([]);
    expect(answers).toEqual(['Three.', 'Still three.']);
    expect(usage).toMatchObject({ cache_read_input_tokens: 40, output_tokens_details: { thinking_tokens: 4 } });
  });

  it('sends encrypted reasoning and the ids of items back verbatim', async () => {
    const { fake } = await run(CALLS, ['What is 1 + 2?', 'Sure?'], { providerOptions: UNSTORED });
    const [, , last] = fake.requests;
    const items = last?.['input'] as readonly Record<string, unknown>[];
    expect(items.map((item) => item['type'] ?? item['role'])).toEqual([
      ...['developer', 'user', 'reasoning', 'function_call', 'function_call', 'function_call_output'],
      ...['function_call_output', 'reasoning', 'assistant', 'user'],
    ]);
    const [, , first, call] = items;
    expect(first).toMatchObject({ id: 'rs_0_0', summary: [{ type: 'summary_text', text: 'Two numbers.' }] });
    expect(first?.['encrypted_content']).toMatch(/=$/);
    expect(call).toMatchObject({ name: 'add', arguments: '{"a":1,"b":2}' });
    expect(items[6]?.['output']).toEqual([
      { type: 'input_text', text: 'A dot.' },
      { type: 'input_image', image_url: `data:image/png;base64,${PIXEL}` },
    ]);
  });
});

it('a refusal of the wire is an invalid request with the words of the vendor', async () => {
  const fake = fakeOpenAi({ script: ['never'] });
  const generate = aiModel(model(fake)).generate(request({ max_tokens: 1 }), context());
  await expect(generate).rejects.toMatchObject({ code: 'model_invalid_request', status: 400 });
  expect(fake.refusals).toMatchObject([{ rule: 'O16', request: 0 }]);
});

describe('errors', () => {
  it.each([
    [{ status: 401 }, { code: 'model_authentication', retryable: false }],
    [{ status: 404 }, { code: 'model_invalid_request', status: 404 }],
    [
      { status: 429, retryAfterMs: 7_000 },
      { code: 'model_rate_limited', retryAfterMs: 7_000, retryable: true },
    ],
    [{ status: 500 }, { code: 'model_overloaded', retryable: true }],
    [
      { status: 400, message: 'Your input exceeds the context window of this model.' },
      { code: 'model_invalid_request', data: { reason: 'context_overflow' } },
    ],
  ])('%j', async (error, expected) => {
    const fake = fakeOpenAi({ script: [{ error }] });
    await expect(aiModel(model(fake)).generate(request({}), context())).rejects.toMatchObject(expected);
  });

  it('holds neither the request nor the key', async () => {
    const fake = fakeOpenAi({ script: [{ error: { status: 400 } }] });
    const error: unknown = await aiModel(model(fake))
      .generate(request({ messages: [{ role: 'user', content: 'secret text' }] }), context())
      .catch((thrown: unknown) => thrown);
    expect(inspect(error, { depth: 10, showHidden: true })).not.toMatch(/secret text|Bearer/);
  });
});

describe('the stop reason', () => {
  it.each([
    [{ text: 'cut', stopReason: 'max_tokens' }, 'max_tokens'],
    [{ text: 'no', stopReason: 'refusal' }, 'refusal'],
    [{ toolUse: { name: 'add' } }, 'tool_use'],
    ['done', 'end_turn'],
  ])('%j', async (reply, expected) => {
    const fake = fakeOpenAi({ script: [reply] });
    const answer = await aiModel(model(fake)).generate(request({}), context());
    expect(answer.stop_reason).toBe(expected);
  });
});

describe('B3: the input of a call that is no JSON', () => {
  const broken = { content: [{ type: 'tool_use', id: 'call_1', name: 'add', input: '{"a":' }] };
  it.each([
    ['keeps its text, so that the model is informed', broken, '{"a":'],
    ['becomes empty where the token limit cut it', { ...broken, stop_reason: 'max_tokens' }, {}],
  ])('%s', async (_name, reply, input) => {
    const fake = fakeOpenAi({ script: [reply] });
    const { content: blocks } = await aiModel(model(fake)).generate(request({}), context());
    expect(blocks).toMatchObject([{ type: 'tool_use', id: 'call_1', input }]);
  });
});

describe('M4: options', () => {
  it('a format is sent as the schema of the answer', async () => {
    const schema = {
      type: 'object',
      properties: { a: { type: 'string' } },
      required: ['a'],
      additionalProperties: false,
    };
    const fake = fakeOpenAi({ script: ['{"a":"b"}'] });
    await aiModel(model(fake)).generate(
      request({ output_config: { format: { type: 'json_schema', schema } } }),
      context(),
    );
    expect(fake.requests[0]?.['text']).toEqual({
      format: { type: 'json_schema', strict: true, name: 'answer', schema },
    });
  });

  it('a setting that the model ignores is refused', async () => {
    const fake = fakeOpenAi({ script: ['never'] });
    const generate = aiModel(model(fake)).generate(request({ stop_sequences: ['x'] }), context());
    await expect(generate).rejects.toMatchObject({ code: 'model_invalid_request', data: { feature: 'stopSequences' } });
  });

  it.each([
    [{ model: 'other' }, 'model'],
    [{ thinking: { type: 'adaptive' } }, 'thinking'],
    [{ output_config: { effort: 'low' } }, 'effort'],
    [{ service_tier: 'auto' }, 'serviceTier'],
    [{ speed: 'fast' }, 'speed'],
    [{ transport: { betas: ['x'] } }, 'betas'],
    [{ transport: { cacheTtl: '1h' } }, 'cacheTtl'],
    [{ tool_choice: { type: 'auto', disable_parallel_tool_use: true } }, 'parallelToolCalls'],
    [{ tools: [{ type: 'web_search_20250305', name: 'web_search' }] }, 'tools'],
    [{ metadata: { user_id: 'x' } }, 'request.metadata'],
    [{ output_config: { task_budget: 1 } }, 'request.output_config.task_budget'],
  ] satisfies readonly (readonly [Partial<ModelRequest> & Readonly<Record<string, unknown>>, string])[])(
    '%j is refused as %s',
    async (fields, key) => {
      const fake = fakeOpenAi({ script: ['never'] });
      const provider = aiModel(model(fake));
      await expect(provider.generate(request(fields), context())).rejects.toMatchObject({ data: { key } });
      expect(provider.refuses?.(request(fields))).toMatchObject({ key });
      expect(fake.requests).toEqual([]);
    },
  );

  it('an agent that falls back to this model has options of another, which are left out', async () => {
    const fake = fakeOpenAi({ script: ['ok'] });
    const fields = {
      thinking: { type: 'adaptive' },
      output_config: { effort: 'max', task_budget: 1 },
      speed: 'fast',
      stop_sequences: ['x'],
      tool_choice: { type: 'tool', name: 'web_search', disable_parallel_tool_use: true },
      transport: { betas: ['x'], threads: true, fits: true },
      metadata: {},
    } as const;
    const answer = await aiModel(model(fake)).generate(request(fields), context());
    expect(answer.content).toMatchObject([{ type: 'text', text: 'ok' }]);
    expect(Object.keys(fake.requests[0] ?? {}).sort()).toEqual([
      'input',
      'max_output_tokens',
      'model',
      'stream',
      'tools',
    ]);
  });

  it('a request that only writes a cache is not sent', async () => {
    const fake = fakeOpenAi({ script: [] });
    const answer = await aiModel(model(fake)).generate(request({ max_tokens: 0 }), context());
    expect(answer).toMatchObject({ content: [], stop_reason: 'max_tokens' });
    expect(fake.requests).toEqual([]);
  });
});

it('an aborted call is cancelled, and ends the request', async () => {
  const fake = fakeOpenAi({ script: [{ text: 'late', delayMs: 60_000 }] });
  const ending = new AbortController();
  const call = aiModel(model(fake)).generate(request({}), { ...context(), signal: ending.signal });
  while (fake.requests.length === 0) await new Promise((resolve) => setImmediate(resolve));
  ending.abort();
  await expect(call).rejects.toMatchObject({ code: 'cancelled' });
});
