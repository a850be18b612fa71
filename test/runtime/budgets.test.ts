/** Goal: `spawn({ budget })` binds a child and all its descendants, is reported as a limit, and survives a restart. */
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { BUDGET_TOKENS_MAX } from '../../src/base/bounds.ts';
import { agent, type Runtime, tool } from '../../src/index.ts';
import type { Reply } from '../../src/models/script/script.ts';
import { scripted } from '../../src/testing/scripted.ts';
import { failure, gatedModel, log, MATRIX, runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();
const usage = { input_tokens: 60, output_tokens: 40 };
const look = tool({ name: 'look', description: 'Looks.', input: z.object({}), effect: 'pure', run: () => 'seen' });
const looking: Reply = { toolUse: { name: 'look' }, usage };
const agents = [agent({ name: 'a', tools: [look] })];

function used(runtime: Runtime, id: string): Promise<unknown> {
  return runtime
    .session(id)
    .state()
    .then(({ budget }) => budget);
}

describe.each(MATRIX)('budgets, sessions: $sessions, models: $models', (threads) => {
  test('a child ends with a limit before a call that exceeds its budget, and its parent is notified', async () => {
    const provider = scripted((_request, { session }) => (session === 'p' ? 'I see.' : looking));
    const runtime = await kit.open({ threads, agents, provider });
    const parent = runtime.session('p');
    const child = await parent.spawn({ task: 'look around', name: 'scout', budget: 250 });
    const error = await failure(child.reply());
    expect(error.cause).toMatchObject({ name: 'LimitError', code: 'limit', data: { limit: 'budget', budget: 250 } });
    await runtime.drain();
    expect(await used(runtime, 'p:1')).toEqual({ tokens: 250, used: 300 });
    expect((await log(child)).filter((line) => line.startsWith('tool_response')).length).toBe(3);
    expect((await log(parent)).join()).toContain('300 of the 250 tokens of its budget are used');
    // No further call begins, neither for the child's user nor for the child's own children.
    expect((await failure(child.ask('go on'))).cause).toMatchObject({ data: { limit: 'budget' } });
    // A sibling and the parent have no budget.
    expect(await used(runtime, 'p')).toBeUndefined();
  });

  test('a child that stays within its budget is not affected', async () => {
    const provider = scripted((_request, { session, call }) =>
      session === 'p:1' && call === 0 ? looking : { text: 'ok', usage },
    );
    const runtime = await kit.open({ threads, agents, provider });
    const child = await runtime.session('p').spawn({ task: 'look', replies: 'handle', budget: 201 });
    expect(await child.reply()).toBe('ok');
    expect(await used(runtime, 'p:1')).toEqual({ tokens: 201, used: 200 });
    expect(await used(runtime, 'p')).toBeUndefined();
  });

  test('descendants draw on the same budget; a part of it may be set aside for one of them', async () => {
    const provider = scripted((_request, { session, call }) => {
      if (session === 'p:1') return { text: 'waiting', usage };
      return session === 'p:1:1' || call > 0 ? looking : { text: 'ok', usage };
    });
    const runtime = await kit.open({ threads, agents, provider, limits: { depth: 3 } });
    const child = await runtime.session('p').spawn({ task: 'lead', replies: 'handle', budget: 450 });
    await child.reply();
    const below = await child.spawn({ task: 'look', replies: 'handle' });
    const error = await failure(below.reply());
    expect(error.cause).toMatchObject({ data: { limit: 'budget', session: 'p:1', value: 500, budget: 450 } });
    expect(await used(runtime, 'p:1')).toEqual({ tokens: 450, used: 500 });
    expect(await used(runtime, 'p:1:1')).toBeUndefined();
    const late = await child.spawn({ task: 'one more', replies: 'handle' });
    expect((await failure(late.reply())).cause).toMatchObject({ code: 'limit', data: { limit: 'budget' } });
    const other = await runtime.session('p').spawn({ task: 'lead', replies: 'handle', budget: 1_000 });
    await other.reply();
    const narrow = await other.spawn({ task: 'look', replies: 'handle', budget: 100 });
    expect(await narrow.reply()).toBe('ok');
    expect((await failure(narrow.ask('more'))).cause).toMatchObject({ data: { session: narrow.id, budget: 100 } });
    expect(await used(runtime, other.id)).toEqual({ tokens: 1_000, used: 200 });
  });
});

describe.each(MATRIX)('a budget of a whole tree, sessions: $sessions, models: $models', (threads) => {
  test('bounds a fan-out and its parent, and a larger one lets them continue', async () => {
    const provider = scripted(() => ({ text: 'ok', usage }));
    const limits = { liveSessions: 1 };
    const runtime = await kit.open({ threads, agents, provider, limits });
    const parent = runtime.session('p');
    await parent.setBudget(500);
    const tasks = Array.from({ length: 20 }, (_, n) => ({
      task: `look ${n}`,
      key: `${n}`,
      replies: 'handle' as const,
    }));
    const ends = await (await parent.spawnAll(tasks)).settled();
    // One call is in flight at a time, so the total is exact.
    expect(ends.filter(({ reason }) => reason === 'completed').length).toBe(5);
    expect(ends.filter(({ reason }) => reason === 'failed').length).toBe(15);
    expect(await used(runtime, 'p')).toEqual({ tokens: 500, used: 500 });
    const error = await failure(parent.ask('and you?'));
    expect(error.cause).toMatchObject({ name: 'LimitError', data: { limit: 'budget', session: 'p', budget: 500 } });
    expect(error.message).toContain('runtime.session("p").setBudget(tokens)');
    await parent.setBudget(601);
    expect(await parent.ask('and now?')).toBe('ok');
    expect(await parent.ask('and now?')).toBe('ok');
    expect((await failure(parent.ask('and now?'))).cause).toMatchObject({ data: { value: 700, budget: 601 } });
    await parent.setBudget(null);
    expect(await used(runtime, 'p')).toBeUndefined();
    expect(await parent.ask('and now?')).toBe('ok');
  });

  test('set when descendants have used tokens already, counts each of them once', async () => {
    const directory = await kit.directory();
    const provider = scripted(() => ({ text: 'ok', usage }));
    const runtime = await kit.open({ directory, threads, agents, provider, limits: { depth: 3 } });
    const parent = runtime.session('p');
    const free = await parent.spawn({ task: 'look', replies: 'handle' });
    const bound = await parent.spawn({ task: 'look', replies: 'handle', budget: 900 });
    const deep = await bound.spawn({ task: 'look', replies: 'handle' });
    for (const child of [free, bound, deep]) await child.reply();
    await parent.setBudget(350);
    expect(await used(runtime, 'p')).toEqual({ tokens: 350, used: 300 });
    expect(await used(runtime, bound.id)).toEqual({ tokens: 900, used: 200 });
    expect(await deep.ask('more')).toBe('ok');
    expect(await used(runtime, 'p')).toEqual({ tokens: 350, used: 400 });
    expect((await failure(free.ask('more'))).cause).toMatchObject({ data: { session: 'p', value: 400, budget: 350 } });
    expect(await parent.usage()).toEqual({ input_tokens: 0, output_tokens: 0 });
    expect(await parent.usage({ tree: true })).toEqual({ input_tokens: 240, output_tokens: 160 });
    expect(await bound.usage({ tree: true })).toEqual({ input_tokens: 180, output_tokens: 120 });
    await runtime.close();
    const again = await kit.open({ directory, threads, agents, provider, limits: { depth: 3 } });
    expect(await used(again, 'p')).toEqual({ tokens: 350, used: 400 });
    expect((await failure(again.session('p').ask('more'))).cause).toMatchObject({ data: { limit: 'budget' } });
    expect(await again.session('p').usage({ tree: true })).toEqual({ input_tokens: 240, output_tokens: 160 });
  });
});

test('a restart in the middle keeps the used tokens and does not count them twice', async () => {
  const directory = await kit.directory();
  const model = gatedModel();
  const limits = { depth: 3 };
  const first = await kit.open({ directory, agents, limits, provider: model.provider });
  const child = await first.session('p').spawn({ task: 'lead', replies: 'handle', budget: 350 });
  (await model.next()).answer({ text: 'waiting', usage });
  await child.reply();
  await child.spawn({ task: 'look', replies: 'handle' });
  (await model.next()).answer(looking);
  // The second call of the grandchild is in flight when the process ends.
  await model.next();
  expect(await used(first, 'p:1')).toEqual({ tokens: 350, used: 200 });
  const crashed = await kit.crashed(directory);
  await first.close({ deadlineMs: 0 });
  for (const found of [crashed, directory]) {
    const again = await kit.open({ directory: found, agents, limits, provider: scripted(() => looking) });
    await again.drain();
    expect(await used(again, 'p:1')).toEqual({ tokens: 350, used: 400 });
    expect((await log(again.session('p:1:1'))).join()).toContain('400 of the 350 tokens of the budget of p:1 are used');
    await again.close();
    const third = await kit.open({ directory: found, agents, limits, provider: scripted(['never said']) });
    expect((await failure(third.session('p:1:1').ask('on'))).cause).toMatchObject({ data: { limit: 'budget' } });
    expect(await used(third, 'p:1')).toEqual({ tokens: 350, used: 400 });
    await third.close();
  }
});

test('a spawn key with another budget is refused', async () => {
  const runtime = await kit.open({ agents, provider: scripted(() => 'ok') });
  const parent = runtime.session('p');
  const child = await parent.spawn({ task: 'look', budget: 500 }, { key: 'k' });
  expect((await parent.spawn({ task: 'look', budget: 500 }, { key: 'k' })).id).toBe(child.id);
  expect(await failure(parent.spawn({ task: 'look', budget: 600 }, { key: 'k' }))).toMatchObject({
    code: 'key_reused',
  });
});

test('an invalid budget is refused with an error that names it, and no child is spawned', async () => {
  const runtime = await kit.open({ agents, provider: scripted([]) });
  const parent = runtime.session('p');
  for (const budget of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, BUDGET_TOKENS_MAX + 1, '5', null]) {
    const error = await failure(parent.spawn({ task: 'look', budget: budget as number }));
    expect(error, String(budget)).toMatchObject({ name: 'ConfigError', code: 'config' });
    expect(error.message).toContain('budget');
    if (budget !== null) expect(await failure(parent.setBudget(budget as number))).toMatchObject({ code: 'config' });
  }
  expect((await parent.state()).children).toEqual([]);
});
