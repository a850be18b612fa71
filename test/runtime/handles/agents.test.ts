import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { agent, tool } from '../../../src/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { eventually, failure, gatedModel, MATRIX, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();

describe.each(MATRIX)('a system function, sessions: $sessions, models: $models', (threads) => {
  test('is evaluated once per epoch, and after a restart only if its result was not stored', async () => {
    const directory = await kit.directory();
    const evaluated: string[] = [];
    const agents = [
      agent({
        name: 'a',
        system: ({ session }) => {
          evaluated.push(session);
          return `You serve ${session}, version ${evaluated.length}.`;
        },
      }),
    ];
    const model = gatedModel();
    const first = await kit.open({ threads, directory, agents, provider: model.provider });
    const session = first.session('s');
    const one = await session.send('a');
    const call = await model.next();
    expect(call.request.system).toBe('You serve s, version 1.');
    call.answer('1');
    await one.answer();
    await session.send('b');
    const second = await model.next();
    expect(second.request.system).toBe('You serve s, version 1.');
    await session.state();
    const copy = await kit.crashed(directory);

    const after = gatedModel();
    const again = await kit.open({ threads, directory: copy, agents, provider: after.provider });
    expect((await after.next()).request.system).toBe('You serve s, version 1.');
    expect(evaluated).toEqual(['s']);
    await again.session('t').send('Hi');
    expect((await after.next()).request.system).toBe('You serve t, version 2.');
  });

  test('an asynchronous function is awaited; after a crash before its answer it is evaluated again', async () => {
    const directory = await kit.directory();
    const lost: (() => void)[] = [];
    const hanging = agent({ name: 'a', system: () => new Promise<string>(() => lost.push(() => undefined)) });
    const first = await kit.open({ threads, directory, agents: [hanging], provider: scripted(['no']) });
    const receipt = await first.session('s').send('Hi');
    await eventually(() => lost.length === 1);
    await first.session('s').state();
    const copy = await kit.crashed(directory);
    const model = gatedModel();
    const quick = agent({ name: 'a', system: async () => 'Ready.' });
    const second = await kit.open({ threads, directory: copy, agents: [quick], provider: model.provider });
    const call = await model.next();
    expect(call.request.system).toBe('Ready.');
    call.answer('Yes.');
    expect(await (await second.session('s').receipt(receipt.id)).answer()).toBe('Yes.');
  });

  test.each([
    [
      'throws',
      () => {
        throw new Error('no prompt today');
      },
      'no prompt today',
    ],
    ['returns no string', () => 7 as unknown as string, 'number 7'],
  ])('one that %s fails the turn with ConfigError, and the session lives', async (_what, system, text) => {
    let isBroken = true;
    const agents = [agent({ name: 'a', system: () => (isBroken ? system() : 'Fine.') })];
    const runtime = await kit.open({ threads, agents, provider: scripted(['ok']) });
    const error = await failure(runtime.session('s').ask('Hi'));
    expect(error.cause).toMatchObject({ name: 'ConfigError', code: 'config', message: expect.stringContaining(text) });
    isBroken = false;
    expect(await runtime.session('s').ask('Hi')).toBe('ok');
  });
});

test('an agent that changed between two opens starts an epoch: the next half-step has the new header', async () => {
  const directory = await kit.directory();
  const first = await kit.open({
    directory,
    agents: [agent({ name: 'a', system: 'Old.' })],
    provider: scripted(['1']),
  });
  await first.session('s').ask('Hi');
  await first.close();
  const model = gatedModel();
  const second = await kit.open({
    directory,
    agents: [agent({ name: 'a', system: 'New.' })],
    provider: model.provider,
  });
  await second.session('s').send('Ho');
  const { request } = await model.next();
  expect(request.system).toBe('New.');
  expect(request.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user']);
});

test('the model options of an agent are in the request: model, maxTokens, thinking', async () => {
  const model = gatedModel();
  const thinking = { type: 'adaptive' } as const;
  const agents = [agent({ name: 'a', model: 'claude-haiku-5-5', maxTokens: 99, thinking })];
  const runtime = await kit.open({ agents, provider: model.provider });
  await runtime.session('s').send('Hi');
  expect((await model.next()).request).toMatchObject({ model: 'claude-haiku-5-5', max_tokens: 99, thinking });
});

test('F059, F061: a tool that returns { error } fails, and a tool that returns nothing gets a placeholder', async () => {
  const make = (name: string, run: () => unknown) => tool({ name, description: name, input: z.object({}), run });
  const tools = [
    make('failing', () => ({ error: 'not today' })),
    make('silent', () => ''),
    make('plain', () => ({ a: 1 })),
  ];
  const provider = scripted([{ toolUse: tools.map(({ name }) => ({ name })) }, 'Done.']);
  const runtime = await kit.open({ agents: [agent({ name: 'a', tools })], provider });
  await runtime.session('s').ask('Go');
  const responses = (await runtime.session('s').messages()).filter(({ type }) => type === 'tool_response');
  const byName = Object.fromEntries(responses.map(({ toolName, content, success }) => [toolName, [content, success]]));
  expect(byName).toEqual({
    failing: ['{"error":"not today"}', false],
    silent: ['(no output)', true],
    plain: ['{"a":1}', true],
  });
});

test('F27: input that breaks the schema is not run, and the result tells the model what is wrong', async () => {
  let runs = 0;
  const add = tool({
    name: 'add',
    description: 'Adds.',
    input: z.object({ a: z.number() }),
    run: () => {
      runs += 1;
      return 1;
    },
  });
  const provider = scripted([{ toolUse: { name: 'add', input: { a: 'one' } } }, 'Oh.']);
  const runtime = await kit.open({ agents: [agent({ name: 'a', tools: [add] })], provider });
  await runtime.session('s').ask('Go');
  const response = (await runtime.session('s').messages()).find(({ type }) => type === 'tool_response');
  expect(response).toMatchObject({ success: false, content: expect.stringContaining('a') });
  expect(runs).toBe(0);
});

test('F062: a host tool that hangs is answered at its deadline', async () => {
  const hang = tool({
    name: 'hang',
    description: 'Hangs.',
    input: z.object({}),
    timeoutMs: 50,
    run: () => new Promise(() => undefined),
  });
  const provider = scripted([{ toolUse: { name: 'hang' } }, 'Too slow.']);
  const runtime = await kit.open({ agents: [agent({ name: 'a', tools: [hang] })], provider });
  expect(await runtime.session('s').ask('Go')).toBe('Too slow.');
});

test('F145: the model can set the timeout only of a tool that allows it', async () => {
  const model = gatedModel();
  const make = (name: string, adjustableTimeout: boolean) =>
    tool({ name, description: name, input: z.object({}), adjustableTimeout, run: () => 'ok' });
  const agents = [agent({ name: 'a', tools: [make('fixed', false), make('free', true)] })];
  const runtime = await kit.open({ agents, provider: model.provider });
  await runtime.session('s').send('Hi');
  const [fixed, free] = (await model.next()).request.tools ?? [];
  expect(fixed?.input_schema).not.toHaveProperty('properties.timeout');
  expect(free?.input_schema).toHaveProperty('properties.timeout');
});
