/**
 * Goal: an agent has tools that the provider runs. They reach the request behind the session's own tools, their blocks
 * come back unchanged, and while one of their calls waits nothing rides beside the results (R52). Method: runtimes on
 * one thread with a model whose answers the test gives, which refuses what the Messages API refuses. Spans layers: the
 * public options, the catalog of agents, the claim of a half-step, the rendering, the request body.
 */
import type { ToolUnion } from '@anthropic-ai/sdk/resources/messages';
import { describe, expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import {
  agent,
  anthropic,
  ConfigError,
  type Logger,
  type ServerToolOptions,
  serverTool,
  tool,
} from '../../src/index.ts';
import type { Reply } from '../../src/models/script/script.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { strictFake } from '../../src/testing/strict-fake.ts';
import { eventually, failure, gatedModel, history, queue, runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();

const search = serverTool({ type: 'web_search_20250305', max_uses: 5 });
const USE = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'Ulm' } };
const FOUND = {
  type: 'web_search_tool_result',
  tool_use_id: 'srvtoolu_1',
  content: [{ type: 'web_search_result', url: 'https://a.example', title: 'Ulm', encrypted_content: 'x' }],
};
const CITED = {
  type: 'text',
  text: 'A town.',
  citations: [{ type: 'web_search_result_location', url: 'https://a.example', cited_text: 'Ulm' }],
};
const CALL = { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} };
const RESULT = { type: 'tool_result', tool_use_id: 'toolu_1', content: 'seen' };

function reply(content: readonly object[], stop?: string): Reply {
  return { content, ...(stop === undefined ? {} : { stop_reason: stop }) } as unknown as Reply;
}

/** A tool whose calls end when the test says so. */
function slowLook(): {
  readonly look: ReturnType<typeof tool>;
  readonly runs: { take(): Promise<(text: string) => void> };
} {
  const runs = queue<(text: string) => void>();
  const run = (): Promise<string> => new Promise((resolve) => runs.put(resolve));
  return { look: tool({ name: 'look', description: 'Looks.', input: { type: 'object' }, run }), runs };
}

describe('a grant', () => {
  test('reaches the request behind the own tools; the cache mark is on the last tool that is not loaded later', async () => {
    const fake = await strictFake({ script: ['Fine.'] });
    const look = tool({ name: 'look', description: 'Looks.', input: z.object({}), deferLoading: true, run: () => 'x' });
    const finder = serverTool({ type: 'tool_search_tool_bm25_20251119' });
    const tools = [search, look, finder, serverTool({ type: 'web_fetch_20250910', defer_loading: true })];
    const runtime = await kit.open({
      provider: anthropic({ apiKey: 'k', baseURL: fake.url, listModels: false }),
      agents: [agent({ name: 'a', model: 'claude-opus-4-6', tools, toolChoice: { tool: 'web_search' } })],
    });
    await runtime.session('s').ask('Hi');
    await fake.close();
    expect(fake.violations.filter(({ fatal }) => fatal)).toEqual([]);
    expect(fake.requests[0]).toMatchObject({
      tools: [
        { name: 'look', defer_loading: true },
        { type: 'web_search_20250305', name: 'web_search', max_uses: 5 },
        { name: 'tool_search_tool_bm25', cache_control: { type: 'ephemeral' } },
        { name: 'web_fetch', defer_loading: true },
      ],
      tool_choice: { type: 'tool', name: 'web_search' },
    });
    expect(fake.requests[0]?.tools?.map((each) => 'cache_control' in each)).toEqual([false, false, true, false]);
  });

  test('is narrowed by name for a sub-agent', async () => {
    const { provider, next } = gatedModel();
    const look = tool({ name: 'look', description: 'Looks.', input: z.object({}), run: () => 'x' });
    const runtime = await kit.open({ provider, agents: [agent({ name: 'a', tools: [look, search] })] });
    const namesOf = async (tools: readonly string[]): Promise<readonly string[]> => {
      await runtime.session('s').spawn({ task: 'Search.', tools });
      const call = await next();
      return (call.request.tools ?? []).map(({ name }) => name);
    };
    expect(await namesOf(['web_search'])).toEqual(['mark_goal_completed', 'web_search']);
    expect(await namesOf(['look'])).toEqual(['look', 'mark_goal_completed']);
  });

  test.each<[string, unknown, RegExp]>([
    ['an unknown type', { type: 'web_search_20990101' }, /"serverTool\.type" must be one of web_search_20250305, /],
    ['no object', 'web_search', /"serverTool\.type"/],
    [
      'an unknown setting',
      { type: 'code_execution_20250825', max_uses: 1 },
      /"serverTool code_execution_20250825\.max_uses"/,
    ],
    ['a bad value', { type: 'web_fetch_20250910', max_uses: 0 }, /"serverTool web_fetch_20250910\.max_uses"/],
    [
      'a domain with a scheme',
      { type: 'web_fetch_20250910', allowed_domains: ['https://a.example'] },
      /without "https:\/\/"/,
    ],
    [
      'two lists',
      { type: 'web_fetch_20250910', allowed_domains: ['a'], blocked_domains: ['b'] },
      /either allowed_domains or/,
    ],
    ['a name', { type: 'web_fetch_20250910', name: 'web_fetch' }, /\.name": leave it out/],
    ['a cache mark', { type: 'web_fetch_20250910', cache_control: { type: 'ephemeral' } }, /use the option "cacheTtl"/],
    ['too much', { type: 'web_fetch_20250910', allowed_domains: ['a'.repeat(70_000)] }, /at most 65536 characters/],
  ])('with %s is refused, and the error names it', (_what, options, message) => {
    expect(() => serverTool(options as ServerToolOptions)).toThrow(ConfigError);
    expect(() => serverTool(options as ServerToolOptions)).toThrow(message);
  });

  test('that conflicts with other options is refused at open', async () => {
    const look = tool({ name: 'look', description: 'Looks.', input: z.object({}), deferLoading: true, run: () => 'x' });
    const own = tool({ name: 'web_search', description: 'Mine.', input: z.object({}), run: () => 'x' });
    const opened = (...options: Parameters<typeof agent>): Promise<unknown> =>
      failure(kit.open({ provider: scripted(['x']), agents: [agent(...options)] }));
    expect(await opened({ name: 'a', tools: [own, search] })).toMatchObject({
      message: expect.stringMatching(/two tools named "web_search"/),
    });
    expect(await opened({ name: 'a', tools: [search, serverTool({ type: 'web_search_20260318' })] })).toMatchObject({
      message: expect.stringMatching(/two tools named "web_search"/),
    });
    expect(await opened({ name: 'a', tools: [search], approve: ['web_search'] })).toMatchObject({
      message: expect.stringMatching(/approve names "web_search", which the provider runs/),
    });
    expect(await opened({ name: 'a', tools: [look] })).toMatchObject({
      message: expect.stringMatching(/"look" has deferLoading, so/),
    });
    expect(await opened({ name: 'a', model: 'claude-opus-4-6', toolChoice: { tool: 'web_search' } })).toMatchObject({
      message: expect.stringMatching(/the agent has no tool "web_search"/),
    });
  });

  test('that the model lacks is refused at open, with the remedy (R60)', async () => {
    const open = (options: ServerToolOptions): Promise<unknown> =>
      kit.open({
        provider: scripted(['x']),
        agents: [agent({ name: 'a', model: 'claude-haiku-4-5', tools: [serverTool(options)] })],
      });
    expect(await failure(open({ type: 'web_search_20260318' }))).toMatchObject({
      message: expect.stringMatching(
        /claude-haiku-4-5 refuses "web_search_20260318"; give the tool allowed_callers: \['direct'\]/,
      ),
    });
    expect(await open({ type: 'web_search_20260318', allowed_callers: ['direct'] })).toBeDefined();
    expect(await open({ type: 'web_search_20250305' })).toBeDefined();
  });

  test('that only the list of models refuses is left out, with a warning', async () => {
    const lines: string[] = [];
    const log = (fields: unknown, line?: string): void => void lines.push(line ?? String(fields));
    const logger: Logger = { debug: log, info: log, warn: log, error: log };
    const row = { id: 'claude-opus-5-5', webSearch: false, lifecycle: 'active' as const };
    const fake = await strictFake({ script: () => 'Fine.', models: [row] });
    const runtime = await kit.open({
      provider: anthropic({ apiKey: 'k', baseURL: fake.url }),
      logger,
      agents: [agent({ name: 'a', model: 'claude-opus-5-5', tools: [search] })],
    });
    const warning = "agent a: claude-opus-5-5 has no web_search_20250305, as the vendor's list of models says";
    await eventually(() => lines.some((line) => line.startsWith(warning)));
    await runtime.session('s').ask('Hi');
    expect(fake.requests.at(-1)?.tools).toBeUndefined();
    await fake.close();
  });
});

describe('an answer with blocks of the provider', () => {
  test('R52: beside a call of the provider that waits, the next request holds results alone; messages ride later', async () => {
    const { provider, next } = gatedModel();
    const { look, runs } = slowLook();
    const runtime = await kit.open({ provider, agents: [agent({ name: 'a', tools: [look, search] })] });
    const session = runtime.session('s');
    const asked = await session.send('Go');
    (await next()).answer(reply([USE, CALL], 'tool_use'));
    const finish = await runs.take();
    const rider = await session.send('And now?');
    const steer = await session.send('Quick.', { deliver: 'steer' });
    finish('seen');
    const second = await next();
    expect(second.request.messages.slice(1)).toEqual([
      { role: 'assistant', content: [USE, CALL] },
      { role: 'user', content: [RESULT] },
    ]);
    second.answer(reply([FOUND, CITED]));
    const third = await next();
    expect(third.request.messages.slice(0, 3)).toEqual(second.request.messages);
    expect(third.request.messages.slice(3)).toEqual([
      { role: 'assistant', content: [FOUND, CITED] },
      { role: 'user', content: expect.anything() },
    ]);
    third.answer('Done.');
    expect(await asked.answer()).toBe('A town.');
    expect(await steer.answer()).toBe('Done.');
    expect(await rider.answer()).toBe('Done.');
  });

  test('R52, R21: a turn that ends leaves the call behind in a new epoch, with the thoughts before it', async () => {
    for (const model of ['claude-opus-5-5', 'claude-opus-4-6']) {
      const { provider, next } = gatedModel();
      const { look, runs } = slowLook();
      const runtime = await kit.open({ provider, agents: [agent({ name: 'a', model, tools: [look, search] })] });
      const session = runtime.session('s');
      await session.send('Go');
      const thought = { type: 'thinking', thinking: 'hm', signature: 'signed' };
      (await next()).answer(reply([{ type: 'text', text: 'Let me see.' }, USE, thought, CALL], 'tool_use'));
      await runs.take();
      await session.interrupt();
      await session.send('Something else');
      const blocks = (await next()).request.messages.flatMap(({ content }) =>
        typeof content === 'string' ? [] : content.map(({ type }) => type),
      );
      expect(blocks.filter((type) => type !== 'text')).toEqual(
        model === 'claude-opus-5-5' ? ['tool_use', 'tool_result'] : ['thinking', 'tool_use', 'tool_result'],
      );
    }
  });

  test('R38: a paused answer is sent back unchanged with its container, and its call is answered', async () => {
    const { provider, next } = gatedModel();
    const runtime = await kit.open({ provider, agents: [agent({ name: 'a', tools: [search] })] });
    const asked = await runtime.session('s').send('Go');
    const paused = [{ type: 'text', text: 'Looking. ' }, USE];
    (await next()).answer({ ...(reply(paused, 'pause_turn') as object), container: { id: 'container_1' } } as Reply);
    const second = await next();
    expect(second.request).toMatchObject({ container: 'container_1' });
    expect(second.request.messages.at(-1)).toEqual({ role: 'assistant', content: paused });
    second.answer(reply([FOUND, CITED]));
    expect(await asked.answer()).toBe('Looking. A town.');
  });

  test('R37: a result of no call and a call that the token limit cut are not stored', async () => {
    const { provider, next } = gatedModel();
    const runtime = await kit.open({ provider, agents: [agent({ name: 'a', tools: [search] })] });
    const session = runtime.session('s');
    const first = await session.send('Go');
    (await next()).answer(reply([FOUND, { type: 'text', text: 'Well.' }, USE], 'max_tokens'));
    await first.answer();
    await session.send('Again');
    expect((await next()).request.messages[1]).toEqual({
      role: 'assistant',
      content: [{ type: 'text', text: 'Well.' }],
    });
  });

  test('is shown in messages and events, and hidden in the modes that hide content', async () => {
    const content = [{ type: 'thinking', thinking: 'hm', signature: 'signed' }, USE, FOUND, CITED];
    const runtime = await kit.open({
      provider: scripted([reply(content, 'end_turn')]),
      agents: [agent({ name: 'a', tools: [search] })],
    });
    const session = runtime.session('s');
    expect(await session.ask('Go')).toBe('A town.');
    const answer = (await session.messages()).at(-1);
    expect(answer).toMatchObject({ content: 'A town.', blocks: [USE, FOUND, CITED] });
    const created = (await history(session)).filter(({ type }) => type === 'message.created').at(-1);
    expect(created).toMatchObject({ message: { blocks: content.slice(1) } });
    for await (const event of session.events({ after: 0, mode: 'basic' })) {
      if (event.type !== 'message.created') continue;
      expect('blocks' in event.message).toBe(false);
      if (event.message.type === 'agent_message') break;
    }
  });

  test('counts its uses in the usage of the session', async () => {
    const usage = { input_tokens: 1, output_tokens: 1, server_tool_use: { web_search_requests: 2 } };
    const runtime = await kit.open({
      provider: scripted([{ ...(reply([USE, FOUND, CITED]) as object), usage } as Reply]),
      agents: [agent({ name: 'a', tools: [search] })],
    });
    await runtime.session('s').ask('Go');
    expect((await runtime.session('s').state()).usage.server_tool_use).toEqual({ web_search_requests: 2 });
  });
});

describe('the types', () => {
  test('a wrong type and a setting of another type do not compile', () => {
    // @ts-expect-error: there is no such type.
    expect(() => serverTool({ type: 'web_search_20200101' })).toThrow(ConfigError);
    // @ts-expect-error: code is not run a number of times.
    expect(() => serverTool({ type: 'code_execution_20250825', max_uses: 1 })).toThrow(ConfigError);
    type SdkOf<Type, Each = ToolUnion> = Each extends { type?: infer Types }
      ? Type extends Types
        ? Each
        : never
      : never;
    expectTypeOf<ServerToolOptions['type']>().toExtend<NonNullable<ToolUnion['type']>>();
    // Each setting that the SDK has, and no other. The name and the cache mark are set by the runtime.
    type Missing<Type extends ServerToolOptions['type']> = Exclude<
      keyof SdkOf<Type>,
      keyof Extract<ServerToolOptions, { readonly type: Type }> | 'name' | 'cache_control'
    >;
    expectTypeOf<
      { [Type in ServerToolOptions['type']]: Missing<Type> }[ServerToolOptions['type']]
    >().toEqualTypeOf<never>();
  });
});
