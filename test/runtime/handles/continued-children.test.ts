/**
 * Goal: a fan-out that was stopped is continued by its keys. Children that were cancelled or failed continue once, in
 * the width of `maxActive` (G35), and later runs find their replies.
 */
import { describe, expect, test } from 'vitest';
import { agent, type Family, type Runtime, type SpawnOptions } from '../../../src/index.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { failure, type GatedModel, gatedModel, log, MATRIX, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const WIDTH = 3;
const CHILDREN = 12;
const DONE = 4;
const agents = [agent({ name: 'a', subagents: { maxActive: WIDTH } })];
const tasks = Array.from({ length: CHILDREN }, (_none, index) => taskOf(`t${index}`));

function taskOf(task: string): SpawnOptions {
  return { task, key: `k-${task}`, replies: 'handle' };
}

/** The model of a first run: children after the fourth never end by themselves. */
const slow = scripted((_request, { session }) => ({
  text: `did ${session}`,
  ...(Number(session.slice(2)) > DONE && { delayMs: 600_000 }),
}));

/** Answers this many calls one by one. Returns the most that were in flight at once. */
async function answerAll(model: GatedModel, count: number): Promise<number> {
  let most = 0;
  for (let answered = 0; answered < count; answered += 1) {
    const call = await model.next();
    most = Math.max(most, model.calls.length - answered);
    call.answer(`did ${call.session}`);
  }
  return most;
}

async function ends(family: Family): Promise<Readonly<Record<string, number>>> {
  const count = { completed: 0, failed: 0, cancelled: 0 };
  for await (const { reason } of family) count[reason] += 1;
  return count;
}

/** The first run: four children complete, then the parent is interrupted. */
async function stop(runtime: Runtime): Promise<Family> {
  const parent = runtime.session('p');
  const family = await parent.spawnAll(tasks);
  await family.first(DONE);
  await parent.interrupt('enough');
  expect(await ends(family)).toEqual({ completed: DONE, failed: 0, cancelled: CHILDREN - DONE });
  return family;
}

describe.each(MATRIX)('with threads %o', (threads) => {
  test('G35: a second run continues what was cancelled, at most maxActive at once; a third one calls nothing', async () => {
    const directory = await kit.directory();
    const first = await kit.open({ directory, threads, agents, provider: slow });
    await stop(first);
    await first.close();

    const model = gatedModel();
    const second = await kit.open({ directory, threads, agents, provider: model.provider });
    const family = await second.session('p').spawnAll(tasks, { continue: true });
    expect(await answerAll(model, CHILDREN - DONE)).toBe(WIDTH);
    expect(await ends(family)).toMatchObject({ completed: CHILDREN });
    await second.close();

    const idle = gatedModel();
    const third = await kit.open({ directory, threads, agents, provider: idle.provider });
    for (const options of [{}, { continue: true }]) {
      const results = await (await third.session('p').spawnAll(tasks, options)).all();
      expect(results.map(({ reply }) => reply)).toEqual(tasks.map((_task, index) => `did p:${index + 1}`));
    }
    await third.drain();
    expect(idle.calls).toEqual([]);
  });

  test('a run that ends while it continues them is repeated: each of them has the message once', async () => {
    const directory = await kit.directory();
    const first = await kit.open({ directory, threads, agents, provider: slow });
    await stop(first);
    await first.close();

    const stuck = gatedModel();
    const second = await kit.open({ directory, threads, agents, provider: stuck.provider });
    await second.session('p').spawnAll(tasks, { continue: true });
    await stuck.next();
    await second.close({ deadlineMs: 0 });

    const model = gatedModel();
    const third = await kit.open({ directory, threads, agents, provider: model.provider });
    const family = await third.session('p').spawnAll(tasks, { continue: true });
    expect(await answerAll(model, CHILDREN - DONE)).toBe(WIDTH);
    expect(await ends(family)).toMatchObject({ completed: CHILDREN });
    const logs = await Promise.all(family.children.map(log));
    const messages = logs.map((lines) => lines.filter((line) => line === 'user_message:Please continue.').length);
    expect(messages).toEqual(tasks.map((_task, index) => (index < DONE ? 0 : 1)));
  });

  test('a child that its program continued with a message has completed, for every later family', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ threads, agents, provider: model.provider });
    const parent = runtime.session('p');
    const child = await parent.spawn(taskOf('t'));
    await model.next();
    await parent.interrupt();
    expect((await child.exit()).reason).toBe('cancelled');
    const answer = child.ask('Please continue.');
    (await model.next()).answer('Done after all.');
    expect([await answer, await child.reply()]).toEqual(['Done after all.', 'Done after all.']);
    const [result] = await (await parent.spawnAll([taskOf('t')])).settled();
    expect(result).toMatchObject({ reason: 'completed', reply: 'Done after all.' });
  });
});

test('messages to children that have ended wait for a place too: never more than maxActive calls at once', async () => {
  const model = gatedModel();
  const runtime = await kit.open({ agents, provider: model.provider });
  const family = await runtime.session('p').spawnAll(tasks);
  expect(await answerAll(model, CHILDREN)).toBe(WIDTH);
  await family.all();
  const answers = family.children.map((child) => child.ask('And now?'));
  let most = 0;
  for (let answered = 0; answered < CHILDREN; answered += 1) {
    const call = await model.next();
    most = Math.max(most, model.calls.length - CHILDREN - answered);
    call.answer('Still done.');
  }
  expect([most, new Set(await Promise.all(answers))]).toEqual([WIDTH, new Set(['Still done.'])]);
  expect(new Set((await family.all()).map(({ reply }) => reply)).size).toBe(CHILDREN);
});

test('a budget that is used up fails the children that are new, and hides no reply of the others', async () => {
  const usage = { input_tokens: 60, output_tokens: 40 };
  const runtime = await kit.open({ agents, provider: scripted(() => ({ text: 'ok', usage })) });
  const parent = runtime.session('p');
  await parent.setBudget(200);
  const [first, second, third] = tasks;
  if (first === undefined || second === undefined || third === undefined) throw new Error('there are more tasks');
  await (await parent.spawnAll([first, second])).all();
  const results = await (await parent.spawnAll([first, second, third])).settled();
  expect(results.map(({ reason }) => reason)).toEqual(['completed', 'completed', 'failed']);
  expect(results[2]?.error?.cause).toMatchObject({ name: 'LimitError', data: { limit: 'budget', session: 'p' } });
  // A larger budget lets the same list complete.
  await parent.setBudget(1_000);
  expect(await ends(await parent.spawnAll([first, second, third], { continue: true }))).toMatchObject({ completed: 3 });
});

test('a used-up budget is one warning for each limit, however many children it fails', async () => {
  const warnings: string[] = [];
  const warn = (fields: object, text: string): void => {
    warnings.push(`${text} ${JSON.stringify(fields)}`);
  };
  const logger = { debug: warn, info: warn, warn, error: warn };
  const usage = { input_tokens: 60, output_tokens: 40 };
  const provider = scripted(() => ({ text: 'ok', usage }));
  const runtime = await kit.open({ agents, provider, logger, limits: { liveSessions: 1 } });
  const parent = runtime.session('p');
  for (const [limit, count] of [
    [100, 1],
    [200, 2],
  ] as const) {
    await parent.setBudget(limit);
    expect(await ends(await parent.spawnAll(tasks, { continue: true }))).toMatchObject({ completed: count });
    const lines = warnings.filter((line) => line.includes('tokens of the budget of p are used'));
    expect(lines, lines.join('\n')).toHaveLength(count);
  }
});

describe('spawnAll refuses a whole list for what it can know before', () => {
  test.each([
    ['a blank task', { task: ' ' }, 'Task cannot be blank (spawn.1.task)'],
    ['a bad name', { task: 'dig', name: 'No Good' }, '(spawn.1.name)'],
    ['a name that is taken in the list', { task: 'dig', name: 'digger' }, '(spawn.1.name)'],
    ['an unknown option', { task: 'dig', nick: 'x' }, 'spawn.1'],
  ])('%s', async (_what, wrong, message) => {
    const runtime = await kit.open({ agents, provider: scripted({ rules: [], otherwise: 'Done.' }) });
    const parent = runtime.session('p');
    expect((await failure(parent.spawnAll([{ task: 'dig', name: 'digger' }, wrong]))).message).toContain(message);
    expect(await runtime.sessions.list({ parent: 'p' })).toEqual([]);
  });

  test('an item that only its session refuses is named by its place', async () => {
    const runtime = await kit.open({ agents, provider: scripted({ rules: [], otherwise: 'Done.' }) });
    const list = [{ task: 'dig' }, { task: 'dig', tools: ['shovel'] }];
    expect(await failure(runtime.session('p').spawnAll(list))).toMatchObject({
      message: expect.stringContaining('spawn.1 was refused: Unknown tool: shovel'),
      data: { key: 'tools', index: 1 },
    });
  });

  test('continue needs keys, by which its children are found', async () => {
    const runtime = await kit.open({ agents, provider: scripted({ rules: [], otherwise: 'Done.' }) });
    const parent = runtime.session('p');
    for (const refused of [
      parent.spawnAll([taskOf('t'), { task: 'dig' }], { continue: true }),
      parent.spawn({ task: 'dig' }, { continue: true }),
    ]) {
      expect((await failure(refused)).message).toContain('"continue" needs a key');
    }
    expect(await runtime.sessions.list({ parent: 'p' })).toEqual([]);
  });
});
