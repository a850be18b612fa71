/**
 * Goal: `aiModel` as an embedder uses it: as a value, in a module, with a model of version 4, with bad options; its
 * deadlines; and what a switch of the model keeps. Method: hand-written language models, and a runtime where one is
 * needed.
 */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LanguageModelV3 } from '@ai-sdk/provider';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ModelError } from '../../../src/base/errors.ts';
import { agent, open, serverTool } from '../../../src/index.ts';
import { createAiModelProvider } from '../../../src/models/ai-model/ai-model.ts';
import { aiModel, type LanguageModel, LOSSES } from '../../../src/models/ai-model/index.ts';
import type { CallOptions } from '../../../src/models/ai-model/specification.ts';
import { checkResponse } from '../../../src/models/anthropic/response-check.ts';
import type { GenerateContext, ModelRequest } from '../../../src/models/provider.ts';
import { manualClock, scripted } from '../../../src/testing/index.ts';
import { PICTURE, PIXEL } from './samples.ts';

type Parts = readonly Readonly<Record<string, unknown>>[];

const END = {
  type: 'finish',
  finishReason: { unified: 'stop', raw: 'stop' },
  usage: {
    inputTokens: { total: 10, noCache: 3, cacheRead: 5, cacheWrite: 2 },
    outputTokens: { total: 7, text: 4, reasoning: 3 },
  },
};

/** A language model that answers with these parts, and keeps the options of its calls. */
function modelOf(
  version: 'v3' | 'v4',
  answers: readonly (Parts | Error)[],
): LanguageModel & { readonly calls: CallOptions[] } {
  const calls: CallOptions[] = [];
  return {
    specificationVersion: version,
    provider: 'vendor.responses',
    modelId: 'm-1',
    supportedUrls: Promise.resolve({ 'image/*': [/^https:\/\/vendor\.example\//] }),
    calls,
    doStream(options: never) {
      const answer = answers[calls.length];
      calls.push(options);
      if (answer === undefined || answer instanceof Error) return Promise.reject(answer ?? new Error('no answer'));
      return Promise.resolve({ stream: ReadableStream.from(answer) as ReadableStream<unknown> });
    },
  };
}

const text = (delta: string): Parts => [
  { type: 'text-start', id: '0' },
  { type: 'text-delta', id: '0', delta },
  { type: 'text-end', id: '0' },
];

function request(fields: Partial<ModelRequest> = {}): ModelRequest {
  return { model: 'm-1', max_tokens: 100, messages: [{ role: 'user', content: 'hi' }], ...fields };
}

function context(fields: Partial<GenerateContext> = {}): GenerateContext {
  return { signal: new AbortController().signal, onDelta: () => undefined, session: 's', ...fields };
}

describe('version 4', () => {
  it('has its own form of files, results and reasoning', async () => {
    const model = modelOf('v4', [[...text('ok'), END]]);
    const use = { type: 'tool_use', id: 'call_1', name: 'look', input: {} } as const;
    const answer = await aiModel(model, { providerOptions: { vendor: { a: 1 } } }).generate(
      request({
        system: 'Be brief.',
        output_config: { effort: 'high' },
        tool_choice: { type: 'any' },
        stop_sequences: ['END'],
        tools: [{ name: 'look', description: 'Looks.', input_schema: { type: 'object' } }],
        messages: [
          {
            role: 'user',
            content: [PICTURE, { type: 'image', source: { type: 'url', url: 'https://vendor.example/a.png' } }],
          },
          { role: 'assistant', content: [use] },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: [PICTURE] }] },
        ],
      }),
      context(),
    );
    const file = { type: 'file', mediaType: 'image/png', data: { type: 'data', data: PIXEL } };
    expect(model.calls[0]).toMatchObject({
      maxOutputTokens: 100,
      reasoning: 'high',
      toolChoice: { type: 'required' },
      stopSequences: ['END'],
      providerOptions: { vendor: { a: 1 } },
      tools: [{ type: 'function', name: 'look', description: 'Looks.', inputSchema: { type: 'object' } }],
      prompt: [
        { role: 'system', content: 'Be brief.' },
        {
          role: 'user',
          content: [
            file,
            { type: 'file', mediaType: 'image/*', data: { type: 'url', url: new URL('https://vendor.example/a.png') } },
          ],
        },
        { role: 'assistant', content: [{ type: 'tool-call', toolCallId: 'call_1', toolName: 'look', input: {} }] },
        {
          role: 'tool',
          content: [{ type: 'tool-result', toolCallId: 'call_1', output: { type: 'content', value: [file] } }],
        },
      ],
    });
    expect(answer).toEqual({
      content: [{ type: 'text', text: 'ok' }],
      stop_reason: 'end_turn',
      usage: {
        input_tokens: 3,
        cache_read_input_tokens: 5,
        cache_creation_input_tokens: 2,
        output_tokens: 7,
        output_tokens_details: { thinking_tokens: 3 },
      },
    });
  });

  it.each([
    [{ thinking: { type: 'disabled' } }, 'none'],
    [{ output_config: { effort: 'xhigh' } }, 'xhigh'],
    [{}, undefined],
  ] satisfies readonly (readonly [Partial<ModelRequest>, string | undefined])[])(
    '%j is reasoning %s',
    async (fields, level) => {
      const model = modelOf('v4', [[...text('ok'), END]]);
      await aiModel(model).generate(request(fields), context());
      expect(model.calls[0]?.reasoning).toBe(level);
    },
  );

  it('B1: a file, a custom part and a call of the provider come back verbatim, in their places', async () => {
    const metadata = { vendor: { itemId: 'i_1' } };
    const bytes = new Uint8Array([104, 105]);
    const parts: Parts = [
      { type: 'reasoning-start', id: 'r' },
      { type: 'reasoning-end', id: 'r', providerMetadata: metadata },
      { type: 'custom', kind: 'vendor.compaction', providerMetadata: metadata },
      { type: 'file', mediaType: 'image/png', data: { type: 'data', data: bytes } },
      {
        type: 'reasoning-file',
        mediaType: 'image/png',
        data: { type: 'url', url: new URL('https://vendor.example/f') },
      },
      { type: 'tool-call', toolCallId: 'p_1', toolName: 'search', input: '{"q":"x"}', providerExecuted: true },
      { type: 'tool-result', toolCallId: 'p_1', toolName: 'search', result: { found: 1 }, preliminary: true },
      { type: 'tool-result', toolCallId: 'p_1', toolName: 'search', result: { found: 2 } },
      ...text('See.'),
      END,
    ];
    const model = modelOf('v4', [parts, [...text('ok'), END]]);
    const provider = aiModel(model);
    const { content } = await provider.generate(request(), context());
    // The log stores JSON.
    const stored = JSON.parse(JSON.stringify(content));
    const messages = [
      ...request().messages,
      { role: 'assistant', content: stored },
      { role: 'user', content: 'go' },
    ] as const;
    await provider.generate(request({ messages }), context());
    expect(model.calls[1]?.prompt[1]?.content).toEqual([
      { type: 'reasoning', text: '', providerOptions: metadata },
      { type: 'custom', kind: 'vendor.compaction', providerOptions: metadata },
      { type: 'file', mediaType: 'image/png', data: { type: 'data', data: 'aGk=' } },
      {
        type: 'reasoning-file',
        mediaType: 'image/png',
        data: { type: 'url', url: new URL('https://vendor.example/f') },
      },
      { type: 'tool-call', toolCallId: 'p_1', toolName: 'search', input: { q: 'x' }, providerExecuted: true },
      { type: 'tool-result', toolCallId: 'p_1', toolName: 'search', output: { type: 'json', value: { found: 2 } } },
      { type: 'text', text: 'See.' },
    ]);
  });
});

it('a file that the model makes is in the blocks of the message', async () => {
  const file = { type: 'file', mediaType: 'image/png', data: PIXEL };
  const provider = aiModel(
    modelOf('v3', [
      [...text('A dot.'), file, END],
      [file, END],
    ]),
  );
  const runtime = await open(':memory:', { provider, agents: [agent({ name: 'a', model: 'm-1' })], logger: false });
  try {
    const session = runtime.session('s');
    expect([await session.ask('Draw.'), await session.ask('Again.')]).toEqual(['A dot.', '']);
    const part = { type: 'provider_part', part: file, origin: { provider: 'vendor.responses', model: 'm-1' } };
    const [, first, , second] = await session.messages();
    expect(first?.blocks).toEqual([{ type: 'text', text: 'A dot.' }, part]);
    expect(second?.content).toEqual([part]);
  } finally {
    await runtime.close();
  }
});

it('B6: a warning that an option has no effect ends the call, except for the limit of the answer', async () => {
  const warned = (feature: string): Parts => [
    {
      type: 'stream-start',
      warnings: [
        { type: 'unsupported', feature },
        { type: 'other', message: 'x' },
      ],
    },
    ...text('ok'),
    END,
  ];
  const provider = aiModel(modelOf('v3', [warned('maxOutputTokens'), warned('reasoningEffort')]));
  expect(await provider.generate(request(), context())).toMatchObject({ stop_reason: 'end_turn' });
  const refused = { code: 'model_invalid_request', data: { feature: 'reasoningEffort' } };
  await expect(provider.generate(request(), context())).rejects.toMatchObject(refused);
});

it('a LanguageModelV3 of the package @ai-sdk/provider is accepted without a cast', () => {
  const take = (model: LanguageModelV3): string => aiModel(model).name;
  expect(take(modelOf('v3', []) as unknown as LanguageModelV3)).toBe('vendor.responses');
});

describe('M3, D1, D2: deadlines', () => {
  const never = (parts: Parts): LanguageModel => ({
    ...modelOf('v3', []),
    doStream: () => {
      const stream = new ReadableStream<unknown>({
        start(controller) {
          for (const part of parts) controller.enqueue(part);
        },
      });
      return Promise.resolve({ stream });
    },
  });
  const silent: LanguageModel = { ...modelOf('v3', []), doStream: () => new Promise(() => undefined) };
  const talking = never(text('begun').slice(0, 2));

  it.each([
    ['ttfb', silent, 120_000],
    ['idle', talking, 90_000],
  ])('%s', async (phase, model, waitMs) => {
    const clock = manualClock();
    let begin = (): void => undefined;
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    if (phase === 'ttfb') begin();
    const call = createAiModelProvider(model, {}, clock).generate(request(), context({ onDelta: () => begin() }));
    const failed = expect(call).rejects.toMatchObject({ code: 'model_timeout', retryable: true, data: { phase } });
    await begun;
    await new Promise((resolve) => setImmediate(resolve));
    await clock.advance(waitMs);
    await failed;
  });

  it('D3: an answer that is whole is returned, even if its stream stays open', async () => {
    const clock = manualClock();
    const call = createAiModelProvider(never([...text('whole'), END]), {}, clock).generate(request(), context());
    for (let turns = 0; turns < 5; turns += 1) await new Promise((resolve) => setImmediate(resolve));
    await clock.advance(1_000);
    expect((await call).content).toEqual([{ type: 'text', text: 'whole' }]);
  });

  it('D2: an abort ends the call and its stream', async () => {
    const ending = new AbortController();
    const call = aiModel(talking).generate(
      request(),
      context({ signal: ending.signal, onDelta: () => ending.abort() }),
    );
    await expect(call).rejects.toMatchObject({ code: 'cancelled' });
  });
});

describe('M2, B4: failures', () => {
  const fail = async (answer: Parts | Error): Promise<unknown> =>
    aiModel(modelOf('v3', [answer]))
      .generate(request(), context())
      .catch((error: unknown) => error);
  const named = (name: string): Error => Object.assign(new Error('why'), { name });

  it.each([
    ['a stream without an end', text('cut'), { code: 'model_protocol', retryable: true }],
    [
      'a failed answer',
      [...text('x'), { ...END, finishReason: { unified: 'error' } }],
      { code: 'model_protocol', data: { lostUsage: { output_tokens: 7 } } },
    ],
    ['no answer', [{ ...END, finishReason: { unified: 'other' } }], { code: 'model_protocol' }],
    [
      'an error part',
      [{ type: 'error', error: { type: 'server_error', message: 'broke' } }],
      { code: 'model_overloaded', message: 'broke' },
    ],
    [
      'a limit inside a stream',
      [{ type: 'error', error: { error: { code: 'rate_limit_exceeded', message: 'slow' } } }],
      { code: 'model_rate_limited' },
    ],
    [
      'a spent quota',
      Object.assign(new Error('pay'), { statusCode: 429, responseBody: '{"error":{"code":"insufficient_quota"}}' }),
      { code: 'model_authentication', retryable: false },
    ],
    [
      'a bad key of Gemini',
      Object.assign(new Error('key'), {
        statusCode: 400,
        responseBody: '{"error":{"details":[{"reason":"API_KEY_INVALID"}]}}',
      }),
      { code: 'model_authentication' },
    ],
    [
      'a wait of Gemini',
      Object.assign(new Error('slow'), {
        statusCode: 429,
        responseBody: '{"error":{"details":[{"retryDelay":"34s"}]}}',
      }),
      { code: 'model_rate_limited', retryAfterMs: 34_000 },
    ],
    [
      'a lost connection',
      Object.assign(new TypeError('fetch failed'), { cause: { code: 'ECONNREFUSED' } }),
      { code: 'model_connection', data: { network: 'ECONNREFUSED' } },
    ],
    ['no key', named('AI_LoadAPIKeyError'), { code: 'model_authentication' }],
    [
      'a feature that is missing',
      named('AI_UnsupportedFunctionalityError'),
      { code: 'model_invalid_request', retryable: false },
    ],
    [
      'a prompt that is too long for Gemini',
      Object.assign(new Error('The input token count (9) exceeds the maximum number of tokens allowed (8).'), {
        statusCode: 400,
      }),
      { data: { reason: 'context_overflow' } },
    ],
  ])('%s', async (_name, answer, expected) => {
    expect(await fail(answer)).toMatchObject(expected);
  });
});

describe('B5: an answer without end', () => {
  async function* endless(part: Readonly<Record<string, unknown>>): AsyncGenerator<unknown> {
    yield { type: 'text-start', id: '0' };
    for (;;) yield part;
  }
  const answering = (stream: () => AsyncIterable<unknown>): LanguageModel => ({
    ...modelOf('v3', []),
    doStream: () => Promise.resolve({ stream: ReadableStream.from(stream()) as ReadableStream<unknown> }),
  });

  it.each([
    ['bytes', { type: 'text-delta', id: '0', delta: 'x'.repeat(1024 * 1024) }, /more than 67108864 bytes/],
    ['blocks', { type: 'tool-call', toolCallId: 'c', toolName: 'add', input: '' }, /more than 10000 blocks/],
  ])('is bounded in %s', async (_name, part, message) => {
    const call = aiModel(answering(() => endless(part))).generate(request(), context());
    await expect(call).rejects.toMatchObject({ code: 'model_protocol', message });
  });

  it('is not read once the call was cancelled, even if the model ignores the signal', async () => {
    const ending = new AbortController();
    let read = 0;
    let answer = (): void => undefined;
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const ended = new Promise<void>((resolve) => {
      const stream = new ReadableStream<unknown>(
        {
          pull(controller) {
            read += 1;
            controller.enqueue(END);
          },
          cancel: () => resolve(),
        },
        { highWaterMark: 0 },
      );
      const deaf: LanguageModel = { ...modelOf('v3', []), doStream: () => answered.then(() => ({ stream })) };
      const call = aiModel(deaf).generate(request(), context({ signal: ending.signal }));
      call.catch(() => undefined);
      setImmediate(() => {
        ending.abort();
        answer();
      });
    });
    await ended;
    expect(read).toBe(0);
  });
});

it('M2, B2: parts of any form in any order give an answer that can be stored, or a typed error', async () => {
  const types = [
    ...['stream-start', 'text-start', 'text-delta', 'text-end', 'reasoning-start', 'reasoning-delta', 'reasoning-end'],
    ...[
      'tool-call',
      'tool-result',
      'file',
      'reasoning-file',
      'custom',
      'response-metadata',
      'finish',
      'error',
      'other',
    ],
  ];
  const any = fc.oneof(
    fc.jsonValue({ maxDepth: 2 }),
    fc.constantFrom('0', 'stop', '{}', undefined, new Uint8Array([1])),
  );
  const part = fc.record(
    {
      type: fc.constantFrom(...types),
      id: fc.constantFrom('0', '1', 2),
      delta: any,
      input: any,
      toolName: fc.constantFrom('add', '', 7),
      toolCallId: fc.constantFrom('call_1', 'a b', 3),
      data: any,
      result: any,
      error: any,
      warnings: any,
      usage: any,
      providerExecuted: fc.boolean(),
      providerMetadata: any,
      finishReason: fc.oneof(any, fc.record({ unified: fc.constantFrom('stop', 'length', 'error', 'other') })),
    },
    { requiredKeys: ['type'] },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(fc.oneof(part, any), { maxLength: 8 }), fc.boolean(), async (parts, isEnded) => {
      const model = modelOf('v4', [[...(parts as Parts), ...(isEnded ? [END] : [])]]);
      try {
        const answer = await aiModel(model).generate(request(), context());
        expect(checkResponse(answer).content).toEqual(answer.content);
      } catch (error) {
        expect(error).toBeInstanceOf(ModelError);
      }
    }),
    { numRuns: 500 },
  );
});

describe('bad options', () => {
  it.each([
    ['openai/gpt-5.5', {}, /expected a LanguageModelV3 or LanguageModelV4/],
    [{ specificationVersion: 'v2', provider: 'x', modelId: 'y' }, {}, /got a model of version v2/],
    [{ specificationVersion: 'v3' }, {}, /provider, modelId and doStream/],
    [modelOf('v3', []), { name: '' }, /aiModel.name/],
    [modelOf('v3', []), { retries: 2 }, /aiModel/],
    [modelOf('v3', []), { providerOptions: { openai: { f: () => 1 } } }, /aiModel.providerOptions.*plain JSON/],
    [modelOf('v3', []), { providerOptions: { openai: { f: 'x'.repeat(300_000) } } }, /at most 262144 characters/],
  ])('%#', (model, options, message) => {
    expect(() => aiModel(model as LanguageModel, options as object)).toThrow(message);
  });

  it.each([
    [
      agent({ name: 'a', model: 'm-1', effort: 'low' }),
      /"agent a.effort": the provider refuses "low"; .*providerOptions/,
    ],
    [agent({ name: 'a', model: 'm-1', cacheTtl: '1h' }), /"agent a.cacheTtl"/],
    [agent({ name: 'a', model: 'm-1', parallelToolCalls: false }), /"agent a.parallelToolCalls"/],
    [
      agent({ name: 'a', model: 'm-1', tools: [serverTool({ type: 'web_search_20250305' })] }),
      /"agent a.tools": .*only Anthropic runs it/,
    ],
    [agent({ name: 'a', model: 'm-2' }), /"agent a.model": .*has the model m-1 only/],
    [agent({ name: 'a' }), /"agent a.model"/],
  ])('open refuses %#', async (definition, message) => {
    const opening = open(':memory:', { provider: aiModel(modelOf('v3', [])), agents: [definition], logger: false });
    await expect(opening).rejects.toThrow(message);
  });
});

it('a module runs on a model thread', async () => {
  const helper = agent({ name: 'helper', model: 'gpt-5.5' });
  const provider = new URL('../modules/ai-model.ts', import.meta.url);
  const runtime = await open(':memory:', { provider, agents: [helper], logger: false });
  try {
    expect(await runtime.session('s').ask('Where?')).toBe('on a model thread');
  } finally {
    await runtime.close();
  }
});

it('M5: a log keeps metadata verbatim over a restart, and a switch of the provider leaves it out', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'troupe-'));
  const metadata = { vendor: { itemId: 'i_1', encrypted: 'x=' } };
  const first: Parts = [
    { type: 'reasoning-start', id: 'r', providerMetadata: metadata },
    { type: 'reasoning-delta', id: 'r', delta: 'Hm.' },
    { type: 'reasoning-end', id: 'r' },
    { type: 'text-start', id: '0' },
    { type: 'text-delta', id: '0', delta: 'One.' },
    { type: 'text-end', id: '0', providerMetadata: metadata },
    END,
  ];
  const ask = async (provider: ReturnType<typeof aiModel>, model: string): Promise<string> => {
    const runtime = await open(directory, { provider, agents: [agent({ name: 'a', model })], logger: false });
    try {
      return await runtime.session('s').ask('hi');
    } finally {
      await runtime.close();
    }
  };
  try {
    expect(await ask(aiModel(modelOf('v3', [first])), 'm-1')).toBe('One.');
    const again = modelOf('v3', [[...text('Two.'), END]]);
    await ask(aiModel(again), 'm-1');
    expect(again.calls[0]?.prompt[1]?.content).toEqual([
      { type: 'reasoning', text: 'Hm.', providerOptions: metadata },
      { type: 'text', text: 'One.', providerOptions: metadata },
    ]);
    const other = modelOf('v3', [[...text('Three.'), END]]);
    await ask(aiModel(other, { name: 'other' }), 'm-1');
    expect(other.calls[0]?.prompt[1]?.content).toEqual([{ type: 'text', text: 'One.' }]);
    const claude = await open(directory, {
      provider: scripted(['Four.']),
      agents: [agent({ name: 'a' })],
      logger: false,
    });
    try {
      expect(await claude.session('s').ask('hi')).toBe('Four.');
    } finally {
      await claude.close();
    }
  } finally {
    await rm(directory, { recursive: true });
  }
});

it('docs/models.md has the table of losses', async () => {
  const page = await readFile(new URL('../../../docs/models.md', import.meta.url), 'utf8');
  const [, table = ''] = page.split('| of a history | becomes |\n| --- | --- |\n');
  const rows = table.slice(0, table.indexOf('\n\n')).split('\n');
  expect(rows).toEqual(LOSSES.map(({ what, becomes }) => `| ${what} | ${becomes} |`));
});

it('no file of the package imports the AI SDK', async () => {
  const root = new URL('../../../', import.meta.url);
  const found: string[] = [];
  for (const folder of ['src/', 'actors/']) {
    for (const name of await readdir(new URL(folder, root), { recursive: true })) {
      if (!/\.tsx?$/.test(name)) continue;
      const source = await readFile(new URL(`${folder}${name}`, root), 'utf8');
      if (/^(?:import|export)[^;]*from '(?:@ai-sdk\/|ai')|import\('(?:@ai-sdk\/|ai')/mu.test(source)) found.push(name);
    }
  }
  expect(found).toEqual([]);
});
