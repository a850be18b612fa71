/** Goal: goals through the public API: published, kept over a restart, refused with a reason. */
import { describe, expect, test } from 'vitest';
import { scripted } from '../../../src/testing/index.ts';
import { failure, history, log, MATRIX, runtimeKit, THROUGH_MEMBER } from '../../support/runtime-kit.ts';

const kit = runtimeKit();

describe.each(MATRIX)('threads %o', (threads) => {
  test('F129, F130: goals are created, reworded, completed with their parts, and listed', async () => {
    const runtime = await kit.open({ threads, provider: scripted(['ok']) });
    const { goals } = runtime.session('s');
    expect(await goals.list()).toEqual([]);
    const root = await goals.create({ description: 'ship it' });
    const part = await goals.create({ description: 'test it', parentId: root.id });
    expect(part).toEqual({ id: 2, description: 'test it', status: 'active', parentId: 1, subGoals: [] });
    expect((await failure(goals.create({ description: 'deeper', parentId: part.id }))).message).toContain('two levels');
    expect((await goals.update(root.id, { description: 'ship it well' })).description).toBe('ship it well');
    expect((await goals.complete(root.id)).status).toBe('completed');
    expect(await goals.list()).toEqual([
      {
        id: 1,
        description: 'ship it well',
        status: 'completed',
        subGoals: [{ id: 2, description: 'test it', status: 'completed' }],
      },
    ]);
  });

  test('the model learns of a goal in its next half-step, readers at once', async () => {
    const runtime = await kit.open({ threads, provider: scripted(['ok']) });
    const session = runtime.session('s');
    await session.goals.create({ description: 'ship it' });
    expect((await session.pending()).map(({ type, kind }) => ({ type, kind }))).toEqual([
      { type: 'from_melete_goal', kind: 'background' },
    ]);
    expect(await session.explain()).toEqual({
      reason: 'nothing_waits',
      detail: '1 entry goes along with the next message',
    });
    await session.ask('go');
    expect((await session.explain()).detail).toBe('the mailbox is empty');
    expect(await log(session)).toEqual([
      'tool_call:[goal 1]',
      'tool_response:Goal created: ship it (id: 1)',
      'user_message:go',
      'agent_message:ok',
    ]);
    const told = (await history(session)).filter((event) => event.type === 'goals.updated');
    expect(told).toMatchObject([{ goals: [{ id: 1, description: 'ship it', status: 'active', subGoals: [] }] }]);
  });
});

test('an invalid goal is refused with its key', async () => {
  const runtime = await kit.open({ provider: scripted(['ok']) });
  const { goals } = runtime.session('s');
  expect((await failure(goals.create({ description: ' ' }))).code).toBe('content');
  expect((await failure(goals.create({ description: 7 } as never))).message).toContain('goals.create.description');
  expect((await failure(goals.create({ description: 'a', parent: 1 } as never))).message).toContain(
    'goals.create.parent',
  );
  expect((await failure(goals.complete(-1))).message).toContain('goals.complete.id');
  expect((await failure(goals.complete(3))).message).toBe('Goal not found: 3');
  expect(await goals.list()).toEqual([]);
});

test.skipIf(THROUGH_MEMBER)('A10: goals and pins survive a crash', async () => {
  const directory = await kit.directory();
  const first = await kit.open({ directory, provider: scripted(['ok']) });
  const session = first.session('s');
  await session.ask('remember the mat');
  const goal = await session.goals.create({ description: 'ship it' });
  expect(await session.goals.attach({ messages: [1], goals: [goal.id] })).toBe(1);
  const again = await kit.open({ directory: await kit.crashed(directory), provider: scripted(['ok']) });
  expect(await again.session('s').goals.list()).toEqual(await session.goals.list());
});

test('F089, F090: a long conversation keeps its goals and pins in the requests', async () => {
  const runtime = await kit.open({
    provider: scripted(() => 'ok'),
    settings: { llm: { tokenBudget: 1_000 } },
  });
  const session = runtime.session('s.1:x');
  await session.ask('the key is under the mat');
  const goal = await session.goals.create({ description: 'get in' });
  await session.goals.attach({ messages: [1], goals: [goal.id] });
  for (let count = 0; count < 12; count += 1) await session.ask(`still going ${'x'.repeat(400)}`);
  const text = JSON.stringify((await session.request()).messages.slice(0, 3));
  expect(text).toContain('message 1: the key is under the mat');
  expect(text).toContain('get in');
});

test('a task that the parent completes is removed from the prompt of the child', async () => {
  const runtime = await kit.open({ provider: scripted(() => 'ok') });
  const child = await runtime.session('p').spawn({ task: 'dig' });
  await child.reply();
  expect(await child.goals.list()).toEqual([{ id: 1, description: 'dig', status: 'active', subGoals: [] }]);
  expect((await child.request()).system).toContain('Your Task');
  await child.goals.complete(1);
  expect((await child.request()).system).not.toContain('Your Task');
});
