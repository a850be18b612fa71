import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { CancelledError, ConfigError, errorShape, type ModelError } from '../../../src/base/errors.ts';
import { anthropic, createAnthropicProvider } from '../../../src/models/anthropic/anthropic.ts';
import { readRateLimits } from '../../../src/models/anthropic/rate-headers.ts';
import type { ModelProvider, ModelRequest } from '../../../src/models/provider.ts';
import type { Script } from '../../../src/models/script/script.ts';
import type { FaultKind } from '../../../src/testing/fake-faults.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { ask, context, failure, textOf, withFake } from '../calls.ts';

const SECRET = 'sk-canary-0123456789';
const TOOL = { name: 'add', description: 'Adds.', input_schema: { type: 'object' } };

function provider(url: string, more: Record<string, unknown> = {}): ModelProvider {
  return createAnthropicProvider({ apiKey: SECRET, baseURL: url, ...more });
}

afterEach(() => {
  vi.unstubAllEnvs();
});

describe('anthropic over the SDK', () => {
  it('streams text: deltas in order, usage from both events, id and model', async () => {
    const text = 'One two three, and a longer tail so that there are several deltas. 🎭';
    await withFake(
      { script: [{ text, usage: { input_tokens: 11, output_tokens: 7, cache_read_input_tokens: 5 } }] },
      async (fake) => {
        const call = context();
        const response = await provider(fake.url).generate(ask(), call);
        expect(response).toMatchObject({
          content: [{ type: 'text', text }],
          stop_reason: 'end_turn',
          usage: { input_tokens: 11, output_tokens: 7, cache_read_input_tokens: 5 },
          model: 'claude-opus-4-6',
        });
        expect(call.deltas.length).toBeGreaterThan(1);
        expect(call.deltas.map((delta) => delta.text).join('')).toBe(text);
      },
    );
  });

  it('R20, R21: thinking, text and parallel calls are returned whole and accepted in the next request', async () => {
    const script: Script = [
      {
        thinking: 'I should add twice.',
        text: 'Adding.',
        toolUse: [{ name: 'add', input: { a: 1, b: ['ü', null] } }, { name: 'add' }],
      },
      'Done.',
    ];
    await withFake({ script }, async (fake) => {
      const model = provider(fake.url);
      const first = ask('Add', { model: 'claude-opus-5-5', tools: [TOOL], thinking: { type: 'adaptive' } });
      const call = context();
      const answer = await model.generate(first, call);
      expect(answer.content.map((block) => block.type)).toEqual(['thinking', 'text', 'tool_use', 'tool_use']);
      expect(answer.content[2]).toMatchObject({ name: 'add', input: { a: 1, b: ['ü', null] } });
      expect(answer.content[3]).toMatchObject({ name: 'add', input: {} });
      expect(answer.stop_reason).toBe('tool_use');
      expect(call.deltas[0]).toEqual({ type: 'thinking', text: 'I should add twice.' });
      const results = answer.content.flatMap((block) =>
        block.type === 'tool_use' ? [{ type: 'tool_result' as const, tool_use_id: block.id, content: '3' }] : [],
      );
      const second: ModelRequest = {
        ...first,
        messages: [
          ...first.messages,
          { role: 'assistant', content: answer.content },
          { role: 'user', content: results },
        ],
      };
      expect(textOf(await model.generate(second, context()))).toBe('Done.');
      expect(fake.violations).toEqual([]);
    });
  });

  it('R20, R37: redacted thinking and server tool blocks are passed through unchanged', async () => {
    const content = [
      { type: 'redacted_thinking', data: 'b3BhcXVl' },
      { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'x' } },
      {
        type: 'web_search_tool_result',
        tool_use_id: 'srvtoolu_1',
        content: [{ type: 'web_search_result', url: 'https://a.example' }],
      },
      { type: 'from_the_future', value: { deep: [1] } },
      { type: 'text', text: 'Found.' },
    ];
    await withFake({ script: [{ content, stop_reason: 'pause_turn' }] }, async (fake) => {
      const answer = await provider(fake.url).generate(ask(), context());
      expect(answer.content).toEqual(content);
      expect(answer.stop_reason).toBe('pause_turn');
    });
  });

  it('R16, A8: cache marks in the request: last tool, system, the newest given mark, the last block that can carry one', async () => {
    await withFake({ script: ['a', 'b'] }, async (fake) => {
      const model = provider(fake.url);
      const marked = { type: 'text', text: 'old', cache_control: { type: 'ephemeral' } } as const;
      const request = ask('x', {
        system: 'Be brief.',
        tools: [TOOL, { ...TOOL, name: 'sub' }],
        messages: [
          { role: 'user', content: [marked, marked, marked] },
          { role: 'assistant', content: 'ok' },
          { role: 'user', content: 'new' },
        ],
      });
      const before = JSON.stringify(request);
      await model.generate(request, context());
      expect(JSON.stringify(request)).toBe(before);
      const [sent] = fake.requests;
      const mark = { type: 'ephemeral' };
      expect(sent).toMatchObject({
        stream: true,
        system: [{ type: 'text', text: 'Be brief.', cache_control: mark }],
        messages: [
          { role: 'user', content: [{ type: 'text', text: 'old' }, {}, marked] },
          { role: 'assistant', content: 'ok' },
          { role: 'user', content: [{ type: 'text', text: 'new', cache_control: mark }] },
        ],
      });
      expect(JSON.stringify(sent).split('cache_control')).toHaveLength(5);
      expect(sent?.tools?.[1]).toHaveProperty('cache_control', mark);
    });
  });

  it('R09, R43: a last message that cannot carry a cache mark has none', async () => {
    await withFake({ script: ['a'] }, async (fake) => {
      const request = ask('x', { system: ' ', tools: [] });
      await provider(fake.url).generate(request, context());
      expect(fake.requests[0]).not.toHaveProperty('system');
      expect(fake.requests[0]).not.toHaveProperty('tools');
    });
  });

  const STATUSES: readonly (readonly [number, string, boolean])[] = [
    [400, 'model_invalid_request', false],
    [401, 'model_authentication', false],
    [402, 'model_authentication', false],
    [403, 'model_authentication', false],
    [404, 'model_invalid_request', false],
    [409, 'model_overloaded', true],
    [413, 'model_invalid_request', false],
    [422, 'model_invalid_request', false],
    [429, 'model_rate_limited', true],
    [500, 'model_overloaded', true],
    [502, 'model_overloaded', true],
    [503, 'model_overloaded', true],
    [504, 'model_overloaded', true],
    [529, 'model_overloaded', true],
  ];
  it.each(STATUSES)('F20, F21, F35, F36: status %i is %s', async (status, code, retryable) => {
    await withFake({ script: [{ error: { status, message: 'no luck' } }, 'again'] }, async (fake) => {
      const error = await failure(provider(fake.url));
      expect(error).toMatchObject({ code, status, retryable, message: 'no luck' });
      expect(fake.requests, 'N1: not retried by itself').toHaveLength(1);
    });
  });

  it('F20: retry-after is read in milliseconds, in seconds, and as a date', async () => {
    await withFake({ script: [{ error: { status: 429, retryAfterMs: 1_500 } }] }, async (fake) => {
      expect(await failure(provider(fake.url))).toMatchObject({ retryAfterMs: 1_500 });
    });
    const clock = manualClock(Date.parse('2026-01-01T00:00:00Z'));
    const answer =
      (header: string): typeof globalThis.fetch =>
      () =>
        Promise.resolve(new Response('busy', { status: 429, headers: { 'retry-after': header } }));
    for (const [header, retryAfterMs] of [
      ['3', 3_000],
      ['Thu, 01 Jan 2026 00:00:07 GMT', 7_000],
      ['nonsense', undefined],
    ] as const) {
      const model = createAnthropicProvider({ apiKey: SECRET }, answer(header), clock);
      expect(((await failure(model)) as ModelError).retryAfterMs).toBe(retryAfterMs);
    }
  });

  const BROKEN: readonly (readonly [FaultKind, string])[] = [
    ['rate_limited', 'model_rate_limited'],
    ['overloaded', 'model_overloaded'],
    ['server_error', 'model_overloaded'],
    ['reset', 'model_connection'],
    ['error_event', 'model_overloaded'],
    ['disconnect', 'model_connection'],
    ['missing_stop', 'model_protocol'],
    ['bad_json', 'model_protocol'],
    ['wrong_index', 'model_protocol'],
    ['out_of_order', 'model_protocol'],
  ];
  it.each(BROKEN)('F22, F24, F25, F26: %s is %s, retryable, and the next call succeeds', async (kind, code) => {
    await withFake({ script: ['whole'], faults: { at: { 0: kind } } }, async (fake) => {
      const model = provider(fake.url);
      expect(await failure(model)).toMatchObject({ code, retryable: true });
      expect(textOf(await model.generate(ask(), context()))).toBe('whole');
    });
  });

  it('F27: a call whose input breaks off is returned with the text the model wrote, and the session refuses it', async () => {
    await withFake({ script: [], faults: { at: { 0: 'truncated_input' } } }, async (fake) => {
      const { content, stop_reason } = await provider(fake.url).generate(ask(), context());
      expect(stop_reason).toBe('tool_use');
      expect(content.at(-1)).toMatchObject({
        type: 'tool_use',
        name: 'never',
        input: expect.stringMatching(/^\{"run"/),
      });
    });
  });

  it.each(['slow_bytes', 'unknown_event'] as const)('F26: %s changes nothing', async (kind) => {
    const reply = { thinking: 'ä🎭', text: 'Grüße 🎭 '.repeat(20), toolUse: { name: 'add', input: { a: '🎭' } } };
    await withFake({ script: [reply, reply], faults: { at: { 1: kind } } }, async (fake) => {
      const model = provider(fake.url);
      const plain = await model.generate(ask('x', { tools: [TOOL] }), context());
      const odd = await model.generate(ask('x', { tools: [TOOL] }), context());
      const withoutIds = (value: unknown): unknown =>
        JSON.parse(JSON.stringify(value).replaceAll(/"(toolu|msg)_[^"]*"/g, '""'));
      expect(withoutIds(odd)).toEqual(withoutIds(plain));
    });
  });

  it('F22: a refused connection keeps its cause', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    const error = await failure(provider(`http://127.0.0.1:${port}`));
    expect(error).toMatchObject({ code: 'model_connection', retryable: true });
    expect((error as Error).message).toContain('ECONNREFUSED');
    expect((error as Error).cause).toBeInstanceOf(Error);
  });

  it('F23: the total timeout follows the clock, even when fetch ignores the signal', async () => {
    const clock = manualClock();
    const model = createAnthropicProvider({ apiKey: SECRET, timeoutMs: 5_000 }, () => new Promise(() => {}), clock);
    const error = failure(model);
    await clock.advance(5_000);
    expect(await error).toMatchObject({ code: 'model_timeout', retryable: true });
    expect(clock.pending).toBe(0);
  });

  it('F39: an abort rejects as cancelled: before the request, at the headers, and in the middle of the stream', async () => {
    const aborted = AbortSignal.abort();
    await expect(provider('http://127.0.0.1:9').generate(ask(), context('s', aborted))).rejects.toBeInstanceOf(
      CancelledError,
    );
    const hanging = createAnthropicProvider({ apiKey: SECRET }, () => new Promise(() => {}));
    const early = new AbortController();
    const waiting = hanging.generate(ask(), context('s', early.signal));
    early.abort();
    await expect(waiting).rejects.toBeInstanceOf(CancelledError);
    const late = new AbortController();
    let sent: AbortSignal | null | undefined;
    const begun = new ReadableStream<Uint8Array>({
      start: (controller) =>
        controller.enqueue(Buffer.from('event: message_start\ndata: {"type":"message_start","message":{}}\n\n')),
    });
    const streaming = createAnthropicProvider({ apiKey: SECRET }, (_url, init) => {
      sent = init?.signal;
      setImmediate(() => late.abort());
      return Promise.resolve(new Response(begun));
    });
    const call = streaming.generate(ask(), context('s', late.signal));
    await expect(call).rejects.toBeInstanceOf(CancelledError);
    expect(sent?.aborted).toBe(true);
  });

  it('R35: a body beyond 32 MB is not sent', async () => {
    const calls = vi.fn();
    const model = createAnthropicProvider({ apiKey: SECRET }, calls);
    const error = await failure(model, ask('x'.repeat(32 * 1024 * 1024)));
    expect(error).toMatchObject({ code: 'model_invalid_request', status: 413 });
    expect(calls).not.toHaveBeenCalled();
  });
});

describe('credentials', () => {
  it('F70, N3: a key that a server echoes is removed from the message, and the cause is left out', async () => {
    const echo = (body: string): ModelProvider =>
      createAnthropicProvider({ apiKey: SECRET }, () => Promise.resolve(new Response(body, { status: 400 })));
    for (const body of [
      `bad key ${SECRET}`,
      JSON.stringify({ type: 'error', error: { type: 'x', message: `bad ${SECRET}` } }),
    ]) {
      const error = (await failure(echo(body))) as Error;
      expect(JSON.stringify(errorShape(error))).not.toContain(SECRET);
      expect(error.cause).toBeUndefined();
      expect(error.message).toContain('[redacted]');
    }
    const broken = createAnthropicProvider({ apiKey: SECRET }, () =>
      Promise.reject(new TypeError(`fetch failed with ${SECRET}`)),
    );
    const error = (await failure(broken)) as Error;
    expect(error).toMatchObject({ code: 'model_connection' });
    expect(error.message + String(error.stack) + JSON.stringify(error.cause ?? null)).not.toContain(SECRET);
  });

  it('F36, N3: a key that no header can carry is an authentication error that does not show it', async () => {
    const error = await failure(createAnthropicProvider({ apiKey: `${SECRET}\nx` }));
    expect(error).toMatchObject({ code: 'model_authentication' });
    expect((error as Error).message).not.toContain(SECRET);
  });

  it('F36: a missing key is an authentication error, and a key that is set later is used', async () => {
    vi.stubEnv('ANTHROPIC_API_KEY', '');
    vi.stubEnv('ANTHROPIC_AUTH_TOKEN', '');
    await withFake({ script: ['ok'] }, async (fake) => {
      vi.stubEnv('ANTHROPIC_BASE_URL', fake.url);
      const model = createAnthropicProvider({});
      expect(await failure(model)).toMatchObject({ code: 'model_authentication', retryable: false });
      expect(fake.requests).toEqual([]);
      vi.stubEnv('ANTHROPIC_API_KEY', 'k');
      expect(textOf(await model.generate(ask(), context()))).toBe('ok');
    });
  });

  it('F36: key, token and headers reach the server unchanged', async () => {
    const seen: Headers[] = [];
    const spy: typeof globalThis.fetch = (_url, init) => {
      seen.push(new Headers(init?.headers));
      return Promise.resolve(new Response('{}', { status: 500 }));
    };
    vi.stubEnv('ANTHROPIC_API_KEY', 'from-environment');
    for (const options of [
      { apiKey: 'a' },
      { authToken: 'b' },
      { headers: { 'x-api-key': 'c' } },
      { headers: { Authorization: 'Bearer d' } },
      {},
    ]) {
      await failure(createAnthropicProvider(options, spy));
    }
    expect(seen.map((headers) => headers.get('authorization') ?? headers.get('x-api-key'))).toEqual([
      'Bearer a',
      'Bearer b',
      'c',
      'Bearer d',
      'Bearer from-environment',
    ]);
    expect(seen[0]?.get('anthropic-version')).toMatch(/^\d{4}-\d\d-\d\d$/);
  });

  it('F37, F70: nothing is printed, not even for deprecated models', async () => {
    const prints = [vi.spyOn(console, 'warn'), vi.spyOn(console, 'error')];
    await withFake({ script: ['ok'], faults: { at: { 1: 'bad_json' } } }, async (fake) => {
      const model = provider(fake.url);
      await model.generate(ask('x', { model: 'claude-sonnet-4-5' }), context());
      await failure(model);
    });
    for (const print of prints) {
      expect(print).not.toHaveBeenCalled();
      print.mockRestore();
    }
  });
});

describe('anthropic()', () => {
  it('is plain data without access to the environment, or a provider if it has fetch', () => {
    vi.stubEnv('ANTHROPIC_API_KEY', SECRET);
    expect(anthropic()).toEqual({ kind: 'anthropic', options: {} });
    const data = anthropic({ baseURL: 'https://gateway.example', timeoutMs: 5 });
    expect(structuredClone(data)).toEqual({
      kind: 'anthropic',
      options: { baseURL: 'https://gateway.example', timeoutMs: 5 },
    });
    expect(anthropic({ fetch: globalThis.fetch })).toMatchObject({ name: 'anthropic' });
  });

  it('F70: bad and unknown options are refused; the error names the option and does not show the key', () => {
    const build = (options: object) => (): unknown => anthropic(options);
    expect(build({ model: 'x' })).toThrow(/anthropic\.model/);
    expect(build({ baseURL: 'ftp://x' })).toThrow(/anthropic\.baseURL/);
    expect(build({ timeoutMs: -1 })).toThrow(ConfigError);
    expect(build({ fetch: 'no' })).toThrow(/anthropic\.fetch/);
    expect(build({ apiKey: SECRET, headers: 3 })).toThrow(/anthropic\.headers/);
    expect(build({ apiKey: SECRET, headers: 3 })).not.toThrow(SECRET);
  });
});

describe('an answer over the wire', () => {
  const caller = { type: 'code_execution_20260120', tool_id: 'srvtoolu_1' };
  const ANSWER = {
    content: [
      {
        type: 'server_tool_use',
        id: 'srvtoolu_1',
        name: 'code_execution',
        input: { code: 'add()' },
        caller: { type: 'direct' },
      },
      { type: 'tool_use', id: 't1', name: 'add', input: { a: 1 }, caller, toolset_name: 'sums' },
    ],
    stop_sequence: 'END',
    stop_details: { type: 'refusal', category: 'cyber' },
    container: { id: 'container_1', expires_at: '2026-11-23T07:00:00Z' },
    context_management: { applied_edits: [] },
    input_transformations: [{ type: 'thinking_dropped', path: 'messages.1.content.0' }],
    usage: {
      input_tokens: 10,
      output_tokens: 20,
      cache_creation_input_tokens: 3,
      cache_creation: { ephemeral_5m_input_tokens: 1, ephemeral_1h_input_tokens: 2 },
      output_tokens_details: { thinking_tokens: 5 },
      server_tool_use: { web_search_requests: 1, web_fetch_requests: 0 },
      service_tier: 'priority',
      speed: 'fast',
      inference_geo: 'eu',
      iterations: [{ type: 'message', model: 'x', input_tokens: 10, output_tokens: 20 }],
    },
  };

  it('R20: every block, every member of the message and of its usage arrives as it was sent', async () => {
    await withFake({ script: [ANSWER] }, async (fake) => {
      expect(await provider(fake.url).generate(ask(), context())).toMatchObject(ANSWER);
    });
  });
});

describe('rate-limit headers', () => {
  it('F20: limit, remaining and reset arrive with an answer, and with a refusal', async () => {
    const clock = manualClock();
    const rates = { requestsPerMinute: 2, inputTokensPerMinute: 60_000 };
    await withFake({ script: ['one', 'two', 'three'], rates, clock }, async (fake) => {
      const model = createAnthropicProvider({ apiKey: SECRET, baseURL: fake.url }, undefined, clock);
      const first = await model.generate(ask(), context());
      expect(first.rateLimits).toEqual({
        requests: { limit: 2, remaining: 1, resetMs: 30_000 },
        inputTokens: { limit: 60_000, remaining: expect.any(Number), resetMs: expect.any(Number) },
      });
      await model.generate(ask(), context());
      expect(await failure(model)).toMatchObject({
        code: 'model_rate_limited',
        retryAfterMs: 30_000,
        data: { rateLimits: { requests: { limit: 2, remaining: 0, resetMs: 60_000 } } },
      });
      await clock.advance(30_000);
      expect((await model.generate(ask(), context())).rateLimits?.requests?.remaining).toBe(0);
    });
  });

  it('F20: a header that is no count or no time is left out', async () => {
    const limited = (headers: Record<string, string>): unknown => readRateLimits(new Headers(headers), 1_000);
    const name = 'anthropic-ratelimit-output-tokens';
    expect(limited({})).toBeUndefined();
    expect(limited({ [`${name}-limit`]: '7' })).toBeUndefined();
    expect(limited({ [`${name}-limit`]: 'x', [`${name}-remaining`]: '3' })).toBeUndefined();
    expect(limited({ [`${name}-limit`]: '7', [`${name}-remaining`]: '3', [`${name}-reset`]: 'soon' })).toEqual({
      outputTokens: { limit: 7, remaining: 3 },
    });
    const past = { [`${name}-limit`]: '7', [`${name}-remaining`]: '3', [`${name}-reset`]: '1970-01-01T00:00:00Z' };
    expect(limited(past)).toEqual({ outputTokens: { limit: 7, remaining: 3, resetMs: 0 } });
  });
});

describe('message threads', () => {
  const threaded = (messages: ModelRequest['messages']): ModelRequest => {
    const system = 'Be brief.';
    return ask('', { model: 'claude-opus-5-5', system, tools: [TOOL], messages, transport: { threads: true } });
  };
  const hello = { role: 'user', content: 'Hello' } as const;

  it('R62: the marks of a request with a thread: its own, and none that came with the content', async () => {
    await withFake(
      { script: ['a', { content: [{ type: 'text', text: 'b' }], stop_reason: 'pause_turn' }, 'c'] },
      async (fake) => {
        const model = provider(fake.url, { headers: { 'anthropic-beta': 'mine-2026-01-01' } });
        const given = { type: 'text', text: 'Hi', cache_control: { type: 'ephemeral', ttl: '1h' } } as const;
        const messages: ModelRequest['messages'][number][] = [{ role: 'user', content: [given, given] }];
        for (const text of ['more', undefined]) {
          const { content, sent } = await model.generate(threaded(messages), context());
          expect(sent?.bytes).toBe(JSON.stringify(fake.requests.at(-1)).length);
          messages.push({ role: 'assistant', content });
          if (text !== undefined) messages.push({ role: 'user', content: text });
        }
        await model.generate(threaded(messages), context());
        const mark = { cache_control: { type: 'ephemeral' } };
        expect(fake.requests).toMatchObject([
          { system: [mark], tools: [mark], messages: [{ content: [{ type: 'text', text: 'Hi' }, mark] }] },
          { messages: [{ role: 'user', content: [{ type: 'text', text: 'more', ...mark }] }] },
          { messages: [], ...mark },
        ]);
        expect(JSON.stringify(fake.requests)).not.toContain('1h');
        expect(fake.violations).toEqual([]);
      },
    );
  });

  it('R62, N6: a refused request that was sent in part is judged as a whole', async () => {
    const script: Script = [{ toolUse: { id: 'toolu_1', name: 'add' } }, 'Done.'];
    await withFake({ script }, async (fake) => {
      const model = provider(fake.url);
      const { content } = await model.generate(threaded([hello]), context());
      const wrong = [{ type: 'tool_result', tool_use_id: 'toolu_2', content: '3' }] as const;
      const messages = [hello, { role: 'assistant', content }, { role: 'user', content: wrong }] as const;
      const error = await failure(model, threaded(messages)).catch(() => undefined);
      expect(fake.requests[1]?.messages).toHaveLength(1);
      expect((error as ModelError).data['rule']).toBe('R01');
    });
  });

  it('R62: requests without threads are as before, and name no beta', async () => {
    await withFake({ script: ['a'] }, async (fake) => {
      await provider(fake.url).generate(ask('x', { model: 'claude-opus-5-5' }), context());
      expect(fake.requests[0]).not.toHaveProperty('thread');
    });
  });
});
