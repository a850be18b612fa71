/**
 * Goal: an agent's options for its requests reach the Messages API in the API's form, and `open` refuses an option that
 * the agent's model refuses. Method: a runtime on one thread with the SDK against the strict fake, which keeps each
 * request as it arrives. Spans layers: the public options, the catalog of agents, the request body, the provider.
 */
import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { type Agent, type AgentOptions, agent, anthropic, type OpenOptions, tool } from '../../src/index.ts';
import { manualClock } from '../../src/testing/manual-clock.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { type StrictFake, strictFake, type WireRequest } from '../../src/testing/strict-fake.ts';
import { failure, MATRIX, runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();
const fakes: StrictFake[] = [];
afterEach(async () => {
  for (const fake of fakes.splice(0)) await fake.close();
});

async function fakeModel(): Promise<StrictFake> {
  const fake = await strictFake({ script: () => 'Fine.' });
  fakes.push(fake);
  return fake;
}

const look = tool({ name: 'look', description: 'Looks.', input: z.object({}), run: () => 'seen' });

/** A call as the fake receives it: its text, its body and its betas. */
interface ArrivedCall {
  readonly text: string;
  readonly body: WireRequest;
  readonly betas: string | null;
}

/** Sends an agent one message; returns its calls, or those of the sub-agent that it spawns. */
async function callOf(
  options: Partial<AgentOptions>,
  more: OpenOptions & { readonly headers?: Record<string, string>; readonly spawns?: true } = {},
): Promise<ArrivedCall> {
  const { headers, spawns, ...open } = more;
  const fake = await fakeModel();
  const calls: ArrivedCall[] = [];
  const provider = anthropic({
    apiKey: 'test',
    baseURL: fake.url,
    ...(headers === undefined ? {} : { headers }),
    fetch: (url, init) => {
      const text = String(init?.body);
      const betas = new Headers(init?.headers as Record<string, string>).get('anthropic-beta');
      calls.push({ text, body: JSON.parse(text), betas });
      return fetch(url, init as RequestInit);
    },
  });
  const agents = [agent({ name: 'a', model: 'claude-opus-5-5', system: 'Be brief.', ...options })];
  const runtime = await kit.open({ provider, agents, ...open });
  const session = runtime.session('s');
  if (spawns === true) await (await session.spawn({ task: 'Look.' })).reply();
  else await session.ask('Hi');
  expect(fake.violations).toEqual([]);
  const [call] = calls;
  if (call === undefined) throw new Error('no call arrived');
  return call;
}

const markedText = (text: string, mark: object) => [{ type: 'text', text, cache_control: mark }];
const FORMAT = {
  type: 'json_schema',
  schema: {
    type: 'object',
    properties: { answer: { type: 'string' } },
    required: ['answer'],
    additionalProperties: false,
  },
};

describe('an option reaches the request', () => {
  test('without options the request has the same bytes as before there were any', async () => {
    const { text, betas } = await callOf({});
    expect(text).toBe(
      '{"model":"claude-opus-5-5","max_tokens":8192,' +
        '"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],' +
        '"messages":[{"role":"user","content":[{"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}}]}],' +
        '"stream":true}',
    );
    expect(betas).toBeNull();
  });

  const tools = [look];
  test.each<[string, Partial<AgentOptions>, object]>([
    ['effort', { effort: 'max' }, { output_config: { effort: 'max' } }],
    [
      'thinking adaptive',
      { thinking: { type: 'adaptive', display: 'summarized' } },
      { thinking: { type: 'adaptive', display: 'summarized' } },
    ],
    [
      'thinking between tools',
      { model: 'claude-sonnet-5-5', effort: 'low', thinking: { type: 'between_tools' } },
      { thinking: { type: 'between_tools' }, output_config: { effort: 'low' } },
    ],
    ['toolChoice auto', { tools, toolChoice: 'auto' }, { tool_choice: { type: 'auto' } }],
    ['toolChoice none', { tools, toolChoice: 'none' }, { tool_choice: { type: 'none' } }],
    ['toolChoice any', { model: 'claude-haiku-5-5', tools, toolChoice: 'any' }, { tool_choice: { type: 'any' } }],
    [
      'toolChoice a tool',
      { model: 'claude-haiku-5-5', tools, toolChoice: { tool: 'look' }, parallelToolCalls: false },
      { tool_choice: { type: 'tool', name: 'look', disable_parallel_tool_use: true } },
    ],
    [
      'parallelToolCalls false',
      { tools, parallelToolCalls: false },
      { tool_choice: { type: 'auto', disable_parallel_tool_use: true } },
    ],
    ['stopSequences', { stopSequences: ['END', '###'] }, { stop_sequences: ['END', '###'] }],
    ['serviceTier auto', { serviceTier: 'auto' }, { service_tier: 'auto' }],
    ['serviceTier standardOnly', { serviceTier: 'standardOnly' }, { service_tier: 'standard_only' }],
    ['speed', { speed: 'fast' }, { speed: 'fast' }],
    ['request', { request: { metadata: { user_id: 'u1' } } }, { metadata: { user_id: 'u1' } }],
    [
      'request beside effort',
      { effort: 'low', request: { output_config: { format: FORMAT } } },
      { output_config: { format: FORMAT, effort: 'low' } },
    ],
  ])('%s', async (_name, options, expected) => {
    const { body } = await callOf(options);
    expect(body).toMatchObject(expected);
    const plain = (await callOf({ ...(options.tools === undefined ? {} : { tools: options.tools }) })).body;
    expect(Object.keys(body).filter((key) => !(key in plain))).toEqual(Object.keys(expected));
  });

  test('defaults that are said add nothing, and tools are needed for a choice among them', async () => {
    const { text } = await callOf({});
    expect((await callOf({ speed: 'standard', cacheTtl: '5m', parallelToolCalls: true, betas: [] })).text).toBe(text);
    expect((await callOf({ parallelToolCalls: false })).text).toBe(text);
  });

  test('R16, R18: cacheTtl 1h makes every mark one of an hour, and leaves out a given mark of five minutes', async () => {
    const hour = { type: 'ephemeral', ttl: '1h' };
    const { body } = await callOf({ tools: [look], cacheTtl: '1h' });
    expect(body.system).toEqual(markedText('Be brief.', hour));
    expect(body.tools?.at(-1)).toMatchObject({ name: 'look', cache_control: hour });
    expect(body.messages).toEqual([{ role: 'user', content: markedText('Hi', hour) }]);

    const fake = await fakeModel();
    const runtime = await kit.open({
      provider: anthropic({ apiKey: 'test', baseURL: fake.url }),
      agents: [agent({ name: 'a', cacheTtl: '1h' })],
    });
    const session = runtime.session('s');
    const five = { type: 'ephemeral' } as const;
    await session.ask([{ type: 'text', text: 'one', cache_control: { type: 'ephemeral', ttl: '1h' } }]);
    await session.ask([{ type: 'text', text: 'two', cache_control: five }]);
    await session.ask('three');
    expect(fake.violations).toEqual([]);
    const marks = JSON.stringify(fake.requests.at(-1)).match(/"cache_control":\{[^}]*\}/gu);
    expect(marks).toEqual(Array.from({ length: 2 }, () => `"cache_control":${JSON.stringify(hour)}`));
  });

  test('betas are a header, beside those of the provider, and no field', async () => {
    const betas = ['context-management-2025-06-27', 'compact-2026-09-04'];
    const own = { 'Anthropic-Beta': 'files-api-2025-04-14, compact-2026-09-04' };
    const both = await callOf({ betas }, { headers: own });
    expect(both.betas).toBe('files-api-2025-04-14,compact-2026-09-04,context-management-2025-06-27');
    expect(Object.keys(both.body)).toEqual(Object.keys((await callOf({})).body));
    expect((await callOf({}, { headers: own })).betas).toBe(own['Anthropic-Beta']);
    expect((await callOf({ betas })).betas).toBe(betas.join(','));
  });

  test('R64: the beta of a fast mode is added where the model needs one', async () => {
    expect((await callOf({ speed: 'fast' })).betas).toBeNull();
    const older = await callOf({ model: 'claude-opus-5', speed: 'fast', betas: ['compact-2026-09-04'] });
    expect(older.body['speed']).toBe('fast');
    expect(older.betas).toBe('compact-2026-09-04,fast-mode-2026-02-01');
  });

  test('a sub-agent has the options too, with the model of the settings', async () => {
    const settings = { llm: { subagentModel: 'claude-opus-5' } };
    const { body, betas } = await callOf({ effort: 'low', speed: 'fast' }, { settings, spawns: true });
    expect(body).toMatchObject({ model: 'claude-opus-5', output_config: { effort: 'low' }, speed: 'fast' });
    expect(betas).toBe('fast-mode-2026-02-01');
  });

  test('a sub-agent that was not granted the forced tool has no forced tool', async () => {
    const fake = await fakeModel();
    const agents = [agent({ name: 'a', model: 'claude-haiku-5-5', tools: [look], toolChoice: { tool: 'look' } })];
    const runtime = await kit.open({ provider: anthropic({ apiKey: 'test', baseURL: fake.url }), agents });
    await (await runtime.session('s').spawn({ task: 'Look.', tools: [] })).reply();
    expect(fake.violations).toEqual([]);
    expect(fake.requests[0]).not.toHaveProperty('tool_choice');
    expect(fake.requests[0]?.tools?.map(({ name }) => name)).toEqual(['mark_goal_completed']);
  });
});

describe.each(MATRIX)('sessions: $sessions, models: $models', (threads) => {
  test('A8: the options cross to the threads, and every request of an epoch has the same bytes before its messages', async () => {
    const fake = await fakeModel();
    const options: Partial<AgentOptions> = {
      effort: 'low',
      thinking: { type: 'adaptive', display: 'omitted' },
      parallelToolCalls: false,
      stopSequences: ['END'],
      serviceTier: 'standardOnly',
      cacheTtl: '1h',
      betas: ['compact-2026-09-04'],
      request: { metadata: { user_id: 'u1' } },
    };
    const agents = [agent({ name: 'a', system: 'Be brief.', tools: [look], ...options })];
    const runtime = await kit.open({ provider: anthropic({ apiKey: 'test', baseURL: fake.url }), agents, threads });
    for (const text of ['one', 'two', 'three']) await runtime.session('s').ask(text);
    expect(fake.violations).toEqual([]);
    const heads = fake.requests.map(({ messages: _messages, ...head }) => JSON.stringify(head));
    expect(new Set(heads).size).toBe(1);
    expect(Object.keys(fake.requests[0] ?? {})).toEqual([
      ...['model', 'max_tokens', 'system', 'tools', 'thinking', 'tool_choice', 'output_config', 'stop_sequences'],
      ...['service_tier', 'metadata', 'messages', 'stream'],
    ]);
  });
});

test('a request for a summary has no forced tool, no stop sequence and no format; the next request has them again', async () => {
  const fake = await strictFake({
    script: ({ messages }) => (JSON.stringify(messages.at(-1)).includes('go 4') ? 'Last.' : 'A summary of it all.'),
  });
  fakes.push(fake);
  const options = { toolChoice: 'any', stopSequences: ['END'], effort: 'low' } as const;
  const compression = { messages: 100, keepRecent: 2, idleMinMessages: 2, idleMinTokens: 0 };
  const runtime = await kit.open({
    provider: anthropic({ apiKey: 'test', baseURL: fake.url }),
    agents: [
      agent({
        name: 'a',
        model: 'claude-opus-4-6',
        tools: [look],
        compression,
        request: { output_config: { format: FORMAT } },
        ...options,
      }),
    ],
  });
  const session = runtime.session('s');
  for (const text of ['go 1', 'go 2', 'go 3']) await session.ask(text);
  expect(await session.history.compress({ force: true })).toMatchObject({ compressed: true });
  const summary = fake.requests.at(-1);
  expect(summary).not.toHaveProperty('tool_choice');
  expect(summary).not.toHaveProperty('stop_sequences');
  expect(summary?.['output_config']).toEqual({ effort: 'low' });
  await session.ask('go 4');
  expect(fake.requests.at(-1)).toMatchObject({
    tool_choice: { type: 'any' },
    stop_sequences: ['END'],
    output_config: { effort: 'low', format: FORMAT },
  });
  expect(fake.violations).toEqual([]);
});

describe('an agent that changed between two opens', () => {
  /** The system prompts that are evaluated, and the request after a reopen with other options. */
  async function reopened(
    before: Partial<AgentOptions>,
    after: Partial<AgentOptions>,
  ): Promise<{ readonly isNewEpoch: boolean; readonly request: WireRequest | undefined }> {
    const directory = await kit.directory();
    const fake = await fakeModel();
    const provider = anthropic({ apiKey: 'test', baseURL: fake.url });
    let evaluated = 0;
    const system = (): string => {
      evaluated += 1;
      return `Version ${evaluated}.`;
    };
    for (const options of [before, after]) {
      const agents: Agent[] = [agent({ name: 'a', model: 'claude-opus-5-5', system, tools: [look], ...options })];
      const runtime = await kit.open({ directory, agents, provider });
      await runtime.session('s').ask('Hi');
      await runtime.close();
    }
    expect(fake.violations).toEqual([]);
    return { isNewEpoch: evaluated === 2, request: fake.requests.at(-1) };
  }

  test.each<[string, Partial<AgentOptions>, object]>([
    ['effort', { effort: 'low' }, { output_config: { effort: 'low' } }],
    ['thinking', { thinking: { type: 'adaptive' } }, { thinking: { type: 'adaptive' } }],
    ['toolChoice', { toolChoice: 'none' }, { tool_choice: { type: 'none' } }],
    ['speed', { speed: 'fast' }, { speed: 'fast' }],
    ['betas', { betas: ['compact-2026-09-04'] }, {}],
    ['the output format', { request: { output_config: { format: FORMAT } } }, { output_config: { format: FORMAT } }],
  ])('%s: the cache breaks, so the next half-step opens an epoch', async (_name, options, expected) => {
    const { isNewEpoch, request } = await reopened({}, options);
    expect(isNewEpoch).toBe(true);
    expect(request).toMatchObject(expected);
  });

  test.each<[string, Partial<AgentOptions>, object]>([
    ['maxTokens', { maxTokens: 99 }, { max_tokens: 99 }],
    ['stopSequences', { stopSequences: ['END'] }, { stop_sequences: ['END'] }],
    ['serviceTier', { serviceTier: 'standardOnly' }, { service_tier: 'standard_only' }],
    ['metadata', { request: { metadata: { user_id: 'u1' } } }, { metadata: { user_id: 'u1' } }],
    ['cacheTtl', { cacheTtl: '1h' }, { system: markedText('Version 1.', { type: 'ephemeral', ttl: '1h' }) }],
  ])('%s: the cache stays, and so does the epoch', async (_name, options, expected) => {
    const { isNewEpoch, request } = await reopened({}, options);
    expect(isNewEpoch).toBe(false);
    expect(request).toMatchObject(expected);
  });
});

describe('an option that the model refuses is refused at open', () => {
  const refusal = (options: Partial<AgentOptions>, open: OpenOptions = {}) =>
    failure(kit.open({ provider: scripted(['no']), agents: [agent({ name: 'a', ...options })], ...open }));

  test.each<[Partial<AgentOptions>, string, string, string]>([
    [{ model: 'claude-opus-4-6', effort: 'xhigh' }, 'effort', 'R59', 'accepted are low, medium, high, max'],
    [{ model: 'claude-haiku-4-5', effort: 'low' }, 'effort', 'R59', 'leave effort out'],
    [{ model: 'claude-opus-5-5', thinking: { type: 'disabled' } }, 'thinking.type', 'R45', "use effort 'low'"],
    [{ model: 'claude-sonnet-5-5', thinking: { type: 'disabled' } }, 'thinking.type', 'R45', "'between_tools'"],
    [
      { model: 'claude-opus-5', thinking: { type: 'enabled', budget_tokens: 2_048 } },
      ...(['thinking.type', 'R25', "use thinking { type: 'adaptive' }"] as const),
    ],
    [{ model: 'claude-haiku-4-5', thinking: { type: 'adaptive' } }, 'thinking.type', 'R46', "'enabled', 'disabled'"],
    [{ model: 'claude-opus-5-5', thinking: { type: 'between_tools' } }, 'thinking.type', 'R47', "are 'adaptive'"],
    [
      { model: 'claude-sonnet-5-5', thinking: { type: 'between_tools' }, effort: 'max' },
      ...(['effort', 'R47', 'accepted are low, medium, high'] as const),
    ],
    [
      { model: 'claude-haiku-5-5', thinking: { type: 'disabled' }, effort: 'max' },
      ...(['effort', 'R27', 'without thinking, accepted are low, medium, high'] as const),
    ],
    [{ model: 'claude-opus-5-5', toolChoice: 'any', tools: [look] }, 'toolChoice', 'R48', "use 'auto'"],
    [{ model: 'claude-opus-5-5', toolChoice: { tool: 'look' }, tools: [look] }, 'toolChoice', 'R48', "use 'auto'"],
    [
      { model: 'claude-opus-4-6', toolChoice: 'any', tools: [look], thinking: { type: 'adaptive' } },
      ...(['toolChoice', 'R28', 'leave thinking out'] as const),
    ],
    [
      {
        model: 'claude-mythos-preview',
        toolChoice: 'any',
        tools: [look],
        thinking: { type: 'enabled', budget_tokens: 1_024 },
      },
      ...(['toolChoice', 'R28', 'leave thinking out'] as const),
    ],
    [{ model: 'claude-sonnet-5', speed: 'fast' }, 'speed', 'R64', "use 'standard'"],
    [{ model: 'claude-haiku-4-5', maxTokens: 64_001 }, 'maxTokens', 'R39', 'at most 64000'],
    [
      { model: 'claude-haiku-4-5', thinking: { type: 'enabled', budget_tokens: 8_192 } },
      ...(['thinking.budget_tokens', 'R24', 'less than maxTokens, which is 8192'] as const),
    ],
    [{ model: 'claude-haiku-4-5', request: { inference_geo: 'us' } }, 'request.inference_geo', 'R63', 'leave it out'],
  ])('%j', async (options, member, rule, remedy) => {
    const error = await refusal(options);
    const key = `agent a.${member}`;
    expect(error).toMatchObject({ code: 'config', data: { key, agent: 'a', model: options.model, rule } });
    expect(error.message).toContain(JSON.stringify(key));
    expect(error.message).toContain(`${options.model} refuses`);
    expect(error.message).toContain(remedy);
  });

  test('the model of the settings counts, for sessions and for sub-agents', async () => {
    const llm = { model: 'claude-opus-4-6' };
    expect(await refusal({ effort: 'xhigh' }, { settings: { llm } })).toMatchObject({ data: { model: llm.model } });
    const child = await refusal({ effort: 'xhigh' }, { settings: { llm: { subagentModel: 'claude-opus-4-6' } } });
    expect(child.message).toContain('claude-opus-4-6 (settings.llm.subagentModel) refuses "xhigh"');
    const tokens = await refusal({ model: 'claude-haiku-4-5' }, { settings: { llm: { maxTokens: 100_000 } } });
    expect(tokens).toMatchObject({ data: { key: 'settings.llm.maxTokens', model: 'claude-haiku-4-5' } });
  });

  test('a model that the table does not know is not judged', async () => {
    const agents = [agent({ name: 'a', model: 'llama-9', effort: 'xhigh', thinking: { type: 'disabled' } })];
    const runtime = await kit.open({ provider: scripted(['Hello.']), agents });
    expect(await runtime.session('s').ask('Hi')).toBe('Hello.');
  });

  test('R41: a forced tool that the agent does not have', async () => {
    const error = await refusal({ model: 'claude-haiku-5-5', tools: [look], toolChoice: { tool: 'lok' } });
    expect(error).toMatchObject({ code: 'config', data: { key: 'agent a.toolChoice' } });
    expect(error.message).toContain('has no tool "lok"');
  });
});

describe('agent() refuses what no model accepts', () => {
  test.each<[Partial<AgentOptions>, string, string]>([
    [{ betas: ['pdfs-2024-09-25'] }, 'betas.0', 'generally available now: leave it out'],
    [{ betas: ['a,b'] }, 'betas.0', 'must be lower-case letters, digits and hyphens'],
    [{ stopSequences: [' '] }, 'stopSequences.0', 'must contain more than blanks'],
    [{ toolChoice: 'none', parallelToolCalls: false }, 'parallelToolCalls', "no meaning with toolChoice 'none'"],
    [{ request: { messages: [] } }, 'request.messages', 'the session writes the messages'],
    [{ request: { max_tokens: 1 } }, 'request.max_tokens', 'use option "maxTokens"'],
    [{ request: { temperature: 1 } }, 'request.temperature', 'the API refuses it for every model; use option "effort"'],
    [{ request: { cache_control: { type: 'ephemeral' } } }, 'request.cache_control', 'use option "cacheTtl"'],
    [{ request: { output_config: { effort: 'low' } } }, 'request.output_config.effort', 'use option "effort"'],
    [{ request: { output_config: 'low' } }, 'request.output_config', 'must be an object'],
    [{ request: { temprature: 1 } }, 'request.temprature', 'has no such field'],
    [{ request: { metadata: { user_id: 'u'.repeat(300_000) } } }, 'request', 'must have at most 262144 characters'],
    [{ request: { metadata: (() => 'u') as never } }, 'request', 'not serialisable at $.metadata'],
    [{ request: [] as never }, 'request', 'must be an object of fields'],
    [{ effort: 'extreme' as never }, 'effort', 'expected one of'],
  ])('%j', async (options, member, reason) => {
    const error = await failure(Promise.resolve().then(() => agent({ name: 'a', ...options })));
    expect(error).toMatchObject({ code: 'config', data: { key: `agent a.${member}` } });
    expect(error.message).toContain(`"agent a.${member}"`);
    expect(error.message).toContain(reason);
  });

  test('a later change of the given fields changes no request', () => {
    const request = { metadata: { user_id: 'u1' } };
    const made = agent({ name: 'a', request });
    request.metadata.user_id = 'u2';
    expect(made.request).toEqual({ metadata: { user_id: 'u1' } });
  });
});

describe('a model at its end is logged at open, once', () => {
  async function warnings(now: number, models: readonly string[], more: OpenOptions = {}): Promise<readonly string[]> {
    const lines: string[] = [];
    const none = (): void => {};
    const logger = { debug: none, info: none, error: none, warn: (_fields: object, line: string) => lines.push(line) };
    const agents = models.map((model, index) => agent({ name: `a${index}`, model }));
    await kit.open({ provider: scripted(['no']), agents, logger, clock: manualClock(now), ...more });
    return lines;
  }

  test('deprecated ones, those past their day, and no others', async () => {
    const models = ['claude-sonnet-4-5', 'claude-sonnet-4-5', 'claude-haiku-4-5', 'claude-opus-5-5', 'llama-9'];
    const before = await warnings(Date.UTC(2026, 9, 15, 23), models);
    expect(before).toEqual([expect.stringContaining('claude-sonnet-4-5 is deprecated, and may be retired from')]);
    const after = await warnings(Date.UTC(2026, 9, 16), models);
    expect(after).toEqual([...before, expect.stringContaining('claude-haiku-4-5 may be retired since 2026-10-15')]);
  });

  test('the models of sub-agents and enrichers count', async () => {
    const settings = { llm: { subagentModel: 'claude-sonnet-4-5' } };
    const enrichers = { melete: { model: 'claude-haiku-4-5' } };
    expect(await warnings(Date.UTC(2026, 10, 1), ['claude-opus-5-5'], { settings, enrichers })).toHaveLength(2);
  });
});
