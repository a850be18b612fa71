import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import {
  agent,
  CancelledError,
  type Child,
  ConfigError,
  LimitError,
  TurnFailedError,
  tool,
} from '../../../src/index.ts';
import type { ModelRequest } from '../../../src/models/provider.ts';
import type { Reply } from '../../../src/models/script/script.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import {
  deferred,
  eventually,
  failure,
  type GatedCall,
  gatedModel,
  log,
  MATRIX,
  runtimeKit,
  THROUGH_MEMBER,
} from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const spawner = agent({ name: 'boss', subagents: { spawn: true } });

const named = (name: string) =>
  tool({ name, description: `The tool ${name}.`, input: z.object({}), effect: 'pure', run: () => `${name} ran` });
const spawnCall = (input: object, id = 'c1'): Reply => ({
  toolUse: { name: 'spawn_subagent', input: input as Record<string, unknown>, id },
});
/** The result of the only tool call so far. */
const resultOf = (request: ModelRequest): string => JSON.stringify(request.messages.at(-1)?.content);

/** A model that answers by session, with a list of replies for each; a session without a list says `done`. */
function byList(replies: Readonly<Record<string, readonly Reply[]>>) {
  return scripted((_request, { session, call }) => replies[session]?.[call] ?? 'done');
}

describe.each(MATRIX)('children by program, sessions: $sessions, models: $models', (threads) => {
  test('F105, F112, F113: a child receives its task once, pinned as its goal, and starts by itself', async () => {
    const model = gatedModel();
    const runtime = await kit.open({
      threads,
      agents: [agent({ name: 'a', system: 'Be kind.' })],
      provider: model.provider,
    });
    const parent = runtime.session('p');
    const child = await parent.spawn({ task: 'Count the stars', name: 'scout' });
    expect(child).toMatchObject({ id: 'p:1', name: 'scout', parent: { id: 'p' } });
    const call = await model.next();
    expect(call.session).toBe('p:1');
    expect(call.request.messages).toEqual([{ role: 'user', content: 'Count the stars' }]);
    expect(call.request.system).toContain('Be kind.');
    expect(call.request.system).toContain('You are scout');
    expect(call.request.system).toContain('Count the stars');
    expect(call.request.tools?.map(({ name }) => name)).toEqual(['mark_goal_completed']);
    expect((await child.messages()).map(({ content }) => content)).toEqual(['Count the stars']);
    expect((await parent.state()).children).toEqual([{ id: 'p:1', name: 'scout' }]);
    call.answer('Many.');
    expect(await child.reply()).toBe('Many.');
    expect(await child.exit()).toEqual({ reason: 'completed' });
  });

  test('F114: the text of a child reaches an idle parent as a pair, and starts a turn of the parent', async () => {
    const runtime = await kit.open({ threads, provider: byList({ 'p:1': ['Seen.'], p: ['Thank you.'] }) });
    const parent = runtime.session('p');
    await parent.spawn({ task: 'Look', name: 'scout' });
    await runtime.drain();
    const [call, response, answer] = await parent.messages();
    expect(call).toMatchObject({
      type: 'tool_call',
      toolName: 'from_scout',
      input: { from: 'scout' },
      content: '[sub-agent scout]: Seen.',
      tokens: 50,
      source: { type: 'subagent', name: 'scout' },
    });
    expect(response).toMatchObject({
      type: 'tool_response',
      content: 'Seen.',
      toolUseId: call?.toolUseId,
      success: true,
    });
    expect(answer?.content).toBe('Thank you.');
  });

  test("replies: 'handle' notifies only the handle", async () => {
    const runtime = await kit.open({ threads, provider: byList({}) });
    const parent = runtime.session('p');
    const child = await parent.spawn({ task: 'Look', replies: 'handle' });
    expect(await child.reply()).toBe('done');
    await runtime.drain();
    expect(await parent.messages()).toEqual([]);
    expect((await parent.state()).children).toMatchObject([{ exited: 'completed' }]);
  });

  test('a spawn with a known key re-attaches, after a restart too; with another task it is refused', async () => {
    const directory = await kit.directory();
    const provider = byList({});
    const first = await kit.open({ threads, directory, provider });
    const child = await first.session('p').spawn({ task: 'Look' }, { key: 'k' });
    await child.reply();
    await first.close();
    const second = await kit.open({ threads, directory, provider });
    const again = await second.session('p').spawn({ task: 'Look' }, { key: 'k' });
    expect(again.id).toBe(child.id);
    expect(again.name).toBe(child.name);
    expect(await again.reply()).toBe('done');
    const error = await failure(second.session('p').spawn({ task: 'Other' }, { key: 'k' }));
    expect(error.code).toBe('key_reused');
    expect((await second.sessions.list({ parent: 'p' })).length).toBe(1);
  });

  test('a family resolves all in spawn order, settled, first, any, and iterates in order of completion', async () => {
    const calls = new Map<string, GatedCall>();
    const model = gatedModel();
    const runtime = await kit.open({ threads, provider: model.provider });
    const tasks = ['a', 'b', 'c'].map((task) => ({ task, replies: 'handle' as const }));
    const family = await runtime.session('p').spawnAll(tasks);
    expect(family.length).toBe(3);
    for (const _ of tasks) {
      const call = await model.next();
      calls.set(call.session, call);
    }
    const order: string[] = [];
    const iterated = (async () => {
      for await (const { reply } of family) order.push(reply);
    })();
    const any = family.any();
    const two = family.first(2);
    for (const id of ['p:3', 'p:1', 'p:2']) {
      calls.get(id)?.answer(`from ${id}`);
      await family.children.find((child) => child.id === id)?.exit();
    }
    await iterated;
    expect(order).toEqual(['from p:3', 'from p:1', 'from p:2']);
    expect((await any).reply).toBe('from p:3');
    expect((await two).map(({ reply }) => reply)).toEqual(['from p:3', 'from p:1']);
    expect((await family.all()).map(({ reply }) => reply)).toEqual(['from p:1', 'from p:2', 'from p:3']);
    expect(await family.settled()).toMatchObject([{ reason: 'completed', name: 'agent-1' }, {}, {}]);
    await expect(family.first(4)).rejects.toBeInstanceOf(ConfigError);
  });

  test('a family whose children have ended keeps their order, at once and after a restart', async () => {
    const directory = await kit.directory();
    const calls = new Map<string, GatedCall>();
    const model = gatedModel();
    const first = await kit.open({ threads, directory, provider: model.provider });
    const tasks = ['a', 'b', 'c'].map((task) => ({ task, key: task, replies: 'handle' as const }));
    const family = await first.session('p').spawnAll(tasks);
    for (const _ of tasks) {
      const call = await model.next();
      calls.set(call.session, call);
    }
    const ended = ['p:3', 'p:1', 'p:2'];
    for (const id of ended) {
      calls.get(id)?.answer(`from ${id}`);
      await family.children.find((child) => child.id === id)?.exit();
    }
    const look = async (of: typeof family): Promise<void> => {
      const order: string[] = [];
      for await (const { child } of of) order.push(child.id);
      expect(order).toEqual(ended);
      expect((await of.any()).child.id).toBe('p:3');
      expect((await of.first(2)).map(({ child }) => child.id)).toEqual(['p:3', 'p:1']);
      expect((await of.all()).map(({ child }) => child.id)).toEqual(['p:1', 'p:2', 'p:3']);
    };
    await look(family);
    await look(await first.session('p').spawnAll(tasks));
    await first.close();
    const second = await kit.open({ threads, directory, provider: model.provider });
    await look(await second.session('p').spawnAll(tasks));
  });

  test('in a family with a failure all rejects, settled reports it, and any takes another child', async () => {
    const broken: Reply = { error: { status: 400, message: 'no such luck' } };
    const runtime = await kit.open({ threads, provider: byList({ 'p:1': [broken] }) });
    const items = [{ task: 'bad' }, { task: 'good' }].map((item) => ({ ...item, replies: 'handle' as const }));
    const family = await runtime.session('p').spawnAll(items);
    const error = await failure(family.all());
    expect(error).toBeInstanceOf(TurnFailedError);
    expect(error.cause).toMatchObject({ code: 'model_invalid_request' });
    const [bad, good] = await family.settled();
    expect(bad).toMatchObject({ reason: 'failed', reply: '', error: expect.any(TurnFailedError) });
    expect(good).toMatchObject({ reason: 'completed', reply: 'done' });
    expect((await family.any()).reply).toBe('done');
    await expect(family.first(2)).rejects.toBeInstanceOf(AggregateError);
  });

  test('F120: a failed child is reported to its parent, as an entry and as an exit', async () => {
    const broken: Reply = { error: { status: 400, message: 'no such luck' } };
    const runtime = await kit.open({ threads, provider: byList({ 'p:1': [broken], p: ['I see.'] }) });
    const child = await runtime.session('p').spawn({ task: 'bad', name: 'scout' });
    await expect(child.reply()).rejects.toBeInstanceOf(TurnFailedError);
    await runtime.drain();
    const lines = await log(runtime.session('p'));
    expect(lines[1]).toMatch(/^tool_response:.*no such luck/u);
    expect(lines[2]).toBe('agent_message:I see.');
  });

  test('F070: interrupt cancels only working children, nested ones too; an idle child keeps no flag', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ threads, provider: model.provider, limits: { depth: 2 } });
    const parent = runtime.session('p');
    const idle = await parent.spawn({ task: 'quick', replies: 'handle' });
    (await model.next()).answer('done');
    await idle.exit();
    const working = await parent.spawn({ task: 'slow', replies: 'handle' });
    const deep = await working.spawn({ task: 'slower', replies: 'handle' });
    await model.next();
    await model.next();
    // The parent is idle, and its children work.
    expect(await parent.interrupt()).toBe(true);
    await expect(working.reply()).rejects.toBeInstanceOf(CancelledError);
    expect(await deep.exit()).toEqual({ reason: 'cancelled' });
    expect((await parent.state()).children).toMatchObject([{ exited: 'completed' }, { exited: 'cancelled' }]);
    await runtime.drain();
    const again = await idle.send('again');
    (await model.next()).answer('still works');
    expect(await again.answer()).toBe('still works');
  });

  test('delete of a parent cancels its subtree; waiting callers are notified', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ threads, provider: model.provider });
    const child = await runtime.session('p').spawn({ task: 'slow' });
    await model.next();
    const reply = failure(child.reply());
    expect(await runtime.session('p').delete()).toBe(true);
    expect(await reply).toBeInstanceOf(CancelledError);
    expect(await runtime.sessions.list()).toEqual([]);
    await runtime.drain();
  });

  test('H7 of the shard: delete of a child notifies its parent that it was cancelled', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ threads, provider: model.provider });
    const child = await runtime.session('p').spawn({ task: 'slow', name: 'scout' });
    await model.next();
    await child.delete();
    expect((await runtime.session('p').state()).children).toMatchObject([{ name: 'scout', exited: 'cancelled' }]);
  });

  test('a child can be attached again by its id', async () => {
    const runtime = await kit.open({ threads, provider: byList({}) });
    await runtime.session('p').spawn({ task: 'Look', name: 'scout' });
    const child: Child = await runtime.session('p').child('p:1');
    expect(child.name).toBe('scout');
    expect(await child.reply()).toBe('done');
    await expect(runtime.session('q').child('p:1')).rejects.toMatchObject({ code: 'unknown_session' });
  });
});

test.skipIf(THROUGH_MEMBER)(
  '200 children with a limit of 20: all run, never more than 20 at once, each reply once',
  async () => {
    let running = 0;
    let most = 0;
    const provider = scripted(async (_request, { session }) => {
      running += 1;
      most = Math.max(most, running);
      await new Promise<void>((resolve) => {
        setImmediate(resolve);
      });
      running -= 1;
      return `reply of ${session}`;
    });
    const runtime = await kit.open({ provider, limits: { liveSessions: 20 } });
    const items = Array.from({ length: 200 }, (_, n) => ({ task: `task ${n}`, replies: 'handle' as const }));
    const family = await runtime.session('p').spawnAll(items);
    const results = await family.all();
    expect(results.map(({ reply }) => reply)).toEqual(items.map((_, n) => `reply of p:${n + 1}`));
    expect(most).toBeLessThanOrEqual(20);
    expect(runtime.metrics().modelCalls).toBe(200);
    await runtime.drain();
  },
);

test('100 children that reply to the mailbox add each reply to the log once', async () => {
  const provider = scripted((_request, { session }) => (session === 'p' ? 'noted' : `reply of ${session}`));
  const runtime = await kit.open({ provider, limits: { liveSessions: 20 } });
  const parent = runtime.session('p');
  await parent.spawnAll(Array.from({ length: 100 }, (_, n) => ({ task: `task ${n}` })));
  await runtime.drain();
  const replies = (await parent.messages())
    .filter(({ type }) => type === 'tool_response')
    .map(({ content }) => content);
  expect(replies.length).toBe(100);
  expect(new Set(replies).size).toBe(100);
  // Δ33: replies that wait together share one half-step.
  expect(runtime.metrics().modelCalls).toBeLessThan(200);
});

describe('spawn refuses', () => {
  test.each([
    ['a blank task', { task: ' ' }, ConfigError, 'Task cannot be blank'],
    ['an unknown tool', { task: 'x', tools: ['nope'] }, ConfigError, 'Unknown tool: nope'],
    ['an unknown agent', { task: 'x', agent: 'nobody' }, ConfigError, 'nobody'],
    ['an unknown option', { task: 'x', tasks: 'y' }, ConfigError, 'tasks'],
  ])('F106: %s, and creates no child', async (_what, options, type, text) => {
    const runtime = await kit.open({ provider: byList({}) });
    const error = await failure(runtime.session('p').spawn(options));
    expect(error).toBeInstanceOf(type);
    expect(error.message).toContain(text);
    expect(await runtime.sessions.list({ parent: 'p' })).toEqual([]);
  });

  test.each(['two words', '-lead', 'x'.repeat(31), 'mneme', 'melete-spy', 'Ünïcode'])(
    'F110: the nickname %j',
    async (name) => {
      const runtime = await kit.open({ provider: byList({}) });
      expect((await failure(runtime.session('p').spawn({ task: 'x', name }))).code).toBe('invalid_name');
    },
  );

  test('F110, F111: a sibling cannot have the same nickname, a child of another parent can; without a name it is agent-N', async () => {
    const runtime = await kit.open({ provider: byList({}) });
    expect((await runtime.session('p').spawn({ task: 'x', name: ' Scout ' })).name).toBe('scout');
    expect((await failure(runtime.session('p').spawn({ task: 'x', name: 'scout' }))).code).toBe('invalid_name');
    expect((await runtime.session('q').spawn({ task: 'x', name: 'scout' })).name).toBe('scout');
    expect((await runtime.session('p').spawn({ task: 'x' })).name).toBe('agent-2');
  });

  test('depth: children do not spawn unless limits.depth says so', async () => {
    const runtime = await kit.open({ provider: byList({}) });
    const child = await runtime.session('p').spawn({ task: 'x' });
    const error = await failure(child.spawn({ task: 'y' }));
    expect(error).toBeInstanceOf(LimitError);
    expect(error.message).toContain('limits.depth');
    const deeper = await kit.open({ provider: byList({}), limits: { depth: 2 } });
    const first = await deeper.session('p').spawn({ task: 'x', replies: 'handle' });
    expect(await (await first.spawn({ task: 'y', replies: 'handle' })).reply()).toBe('done');
  });

  test('limits.children', async () => {
    const runtime = await kit.open({ provider: byList({}), limits: { children: 1 } });
    await runtime.session('p').spawn({ task: 'x' });
    expect(await failure(runtime.session('p').spawn({ task: 'y' }))).toBeInstanceOf(LimitError);
  });
});

test('F77, F107, F144: grants narrow and never widen, whatever their case', async () => {
  const model = gatedModel();
  const tools = [named('read'), named('write'), named('think')];
  const runtime = await kit.open({
    agents: [agent({ name: 'a', tools })],
    provider: model.provider,
    limits: { depth: 2 },
  });
  const child = await runtime.session('p').spawn({ task: 'x', tools: ['Read', 'read'] });
  const names = (call: GatedCall): readonly (string | undefined)[] =>
    (call.request.tools ?? []).map(({ name }) => name);
  expect(names(await model.next())).toEqual(['think', 'read', 'mark_goal_completed']);
  await child.spawn({ task: 'y', tools: ['read', 'write'] });
  expect(names(await model.next())).toEqual(['think', 'read', 'mark_goal_completed']);
});

describe('children spawned by a model', () => {
  test('F108, F114: the call is answered at once, without an @name that would be routed', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ agents: [spawner], provider: model.provider });
    const receipt = await runtime.session('p').send('Go');
    const first = await model.next();
    expect(first.request.tools?.map(({ name }) => name)).toEqual(['spawn_subagent']);
    first.answer(spawnCall({ task: 'Look', name: 'scout' }));
    const calls = [await model.next(), await model.next()];
    const parent = calls.find(({ session }) => session === 'p');
    const child = calls.find(({ session }) => session === 'p:1');
    expect(resultOf(parent?.request as ModelRequest)).toMatch(/Sub-agent scout spawned \(session p:1\)/u);
    expect(resultOf(parent?.request as ModelRequest)).not.toContain('@scout');
    parent?.answer('Waiting.');
    expect(await receipt.answer()).toBe('Waiting.');
    child?.answer('Seen.');
    const reply = await model.next();
    expect(JSON.stringify(reply.request.messages)).toContain('Seen.');
    reply.answer('Good.');
    await runtime.drain();
  });

  test.each([
    ['a blank task', { task: '  ' }, 'Task cannot be blank'],
    ['no task', {}, 'Task cannot be blank'],
    ['an unknown tool', { task: 'x', tools: ['nope'] }, 'Unknown tool: nope'],
    ['tools that are no array', { task: 'x', tools: 'all' }, 'tools must be an array'],
    ['a bad nickname', { task: 'x', name: 'no way' }, 'Invalid format'],
  ])('F106: %s is an error result and creates no child', async (_what, input, text) => {
    const model = gatedModel();
    const runtime = await kit.open({ agents: [spawner], provider: model.provider });
    await runtime.session('p').send('Go');
    (await model.next()).answer(spawnCall(input));
    const next = await model.next();
    expect(resultOf(next.request)).toContain(text);
    expect(resultOf(next.request)).toContain('"is_error":true');
    next.answer('Oh.');
    await runtime.drain();
    expect((await runtime.session('p').state()).children).toEqual([]);
  });

  test('F109: spawn_specialist offers the other agents by name; an unknown one is an error result', async () => {
    const model = gatedModel();
    const expert = agent({
      name: 'expert',
      description: 'Knows stars.',
      system: 'Stars only.',
      tools: [named('look')],
    });
    const runtime = await kit.open({ agents: [spawner, expert], provider: model.provider });
    await runtime.session('p', 'boss').send('Go');
    const first = await model.next();
    const schema = first.request.tools?.find(({ name }) => name === 'spawn_specialist');
    expect(schema?.description).toContain('expert: Knows stars.');
    expect(schema?.input_schema).toMatchObject({ properties: { name: { enum: ['expert'] } } });
    first.answer({ toolUse: { name: 'spawn_specialist', input: { name: 'nobody', task: 'x' } } });
    const second = await model.next();
    expect(resultOf(second.request)).toContain('Unknown agent: nobody');
    second.answer({ toolUse: { name: 'spawn_specialist', input: { name: 'expert', task: 'x' } } });
    const calls = [await model.next(), await model.next()];
    const child = calls.find(({ session }) => session === 'p:1')?.request;
    expect(child?.system).toContain('Stars only.');
    expect(child?.tools?.map(({ name }) => name)).toEqual(['look', 'mark_goal_completed']);
    expect((await runtime.sessions.get('p:1'))?.agent).toBe('expert');
    for (const call of calls) call.answer('ok');
  });

  test('F115, Δ31: @name reaches each named child and no other; names in code or addresses reach none', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ agents: [spawner], provider: model.provider });
    const parent = runtime.session('p');
    for (const name of ['one', 'two', 'three']) {
      const child = await parent.spawn({ task: `be ${name}`, name, replies: 'handle' });
      (await model.next()).answer('ready');
      await child.exit();
    }
    const receipt = await parent.send('Tell them');
    const text = '@one and @two: go. Mail a@three.org, `@three`, @nobody.';
    (await model.next()).answer(text);
    await receipt.answer();
    const calls = [await model.next(), await model.next()];
    expect(calls.map(({ session }) => session).sort()).toEqual(['p:1', 'p:2']);
    for (const { request } of calls) expect(request.messages.at(-1)?.content).toBe(`[from parent]: ${text}`);
    for (const call of calls) call.answer('going');
    await runtime.drain();
    expect(model.calls.filter(({ session }) => session === 'p:3').length).toBe(1);
  });

  test('F116: a reply to a busy parent is promoted when the round closes, not between call and result', async () => {
    const model = gatedModel();
    const finish = deferred<string>();
    const slow = tool({ name: 'slow', description: 'Slow.', input: z.object({}), run: () => finish.promise });
    const agents = [agent({ name: 'boss', tools: [slow], subagents: { spawn: true } })];
    const runtime = await kit.open({ agents, provider: model.provider });
    const parent = runtime.session('p');
    const receipt = await parent.send('Go');
    (await model.next()).answer({ toolUse: { name: 'slow', id: 'c1' } });
    const child = await parent.spawn({ task: 'Look', name: 'scout' });
    (await model.next()).answer('Seen.');
    await child.exit();
    await eventually(async () => (await parent.pending()).some(({ type }) => type === 'subagent'));
    expect(model.calls.length).toBe(2);
    finish.resolve('slow result');
    (await model.next()).answer('Both.');
    expect(await receipt.answer()).toBe('Both.');
    expect(await log(parent)).toEqual([
      'user_message:Go',
      'tool_call:Calling slow',
      'tool_response:slow result',
      'tool_call:[sub-agent scout]: Seen.',
      'tool_response:Seen.',
      'agent_message:Both.',
    ]);
  });

  test('F117, F118: mark_goal_completed delivers the result and ends the turn without another model call', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ agents: [spawner], provider: model.provider });
    const child = await runtime.session('p').spawn({ task: 'Look', name: 'scout' });
    const call = await model.next();
    call.answer({ toolUse: { name: 'mark_goal_completed', input: { result: 'All seen.' } } });
    expect(await child.reply()).toBe('All seen.');
    const parent = await model.next();
    expect(parent.session).toBe('p');
    expect(JSON.stringify(parent.request.messages)).toContain('All seen.');
    parent.answer('Good.');
    await runtime.drain();
    expect(model.calls.filter(({ session }) => session === 'p:1').length).toBe(1);
    const again = await child.send('And now?');
    const next = await model.next();
    expect(next.request.system ?? '').not.toContain('Your Task');
    next.answer({ toolUse: { name: 'mark_goal_completed', input: { result: 'twice' } } });
    const after = await model.next();
    expect(resultOf(after.request)).toContain('No active goal found');
    after.answer('Nothing more.');
    expect(await again.answer()).toBe('Nothing more.');
  });

  test('F048: a child uses the model for sub-agents', async () => {
    const model = gatedModel();
    const settings = { llm: { model: 'claude-opus-4-6', subagentModel: 'claude-haiku-4-5' } };
    const runtime = await kit.open({ provider: model.provider, settings });
    await runtime.session('p').spawn({ task: 'x' });
    expect((await model.next()).request.model).toBe('claude-haiku-4-5');
    await runtime.session('q').send('Hi');
    expect((await model.next()).request.model).toBe('claude-opus-4-6');
  });

  test('F060: a call of a tool that was not granted is answered with an error, and not run', async () => {
    const model = gatedModel();
    const runtime = await kit.open({
      agents: [agent({ name: 'a', tools: [named('read')] })],
      provider: model.provider,
    });
    await runtime.session('p').spawn({ task: 'x', tools: [] });
    (await model.next()).answer({ toolUse: { name: 'read' } });
    const next = await model.next();
    expect(resultOf(next.request)).toContain('Unknown tool: read');
    expect(runtime.metrics().toolCalls).toBe(0);
  });
});
