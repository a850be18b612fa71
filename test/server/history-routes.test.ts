/** Goal: history, goals, skills, forks and the search do over HTTP what they do in process, and answer as documented. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { z } from 'zod';
import * as answers from '../../src/server/answers.ts';
import { serverKit } from './support.ts';

const kit = serverKit();

function as<T = Record<string, unknown>>(schema: z.ZodType, body: unknown): T {
  return schema.parse(body) as T;
}

const user = (content: string): object => ({ role: 'user', content });

test('the history has pages, and each operation is the one of the history', async () => {
  const { post, get, runtime } = await kit.serve();
  await post('/sessions', { id: 's' });
  const edit = async (body: object): Promise<unknown> => {
    const answer = await post('/sessions/s/history', body);
    expect(answer.status).toBe(200);
    return as<{ outcome: unknown }>(answers.historyOutcome, answer.body).outcome;
  };
  const texts = async (): Promise<unknown> =>
    (await runtime.session('s').history.toArray()).map(({ role, content }) => `${role}: ${String(content)}`);
  expect(await edit({ operation: 'set', messages: [user('one'), { role: 'assistant', content: 'two' }] })).toBeNull();
  const added = await edit({ operation: 'add', message: user('three'), key: 'k' });
  expect(await edit({ operation: 'add', message: user('three'), key: 'k' })).toEqual(added);
  const handle = await edit({ operation: 'append', message: user('four') });
  expect(handle).toMatchObject({ session: 's', incarnation: expect.any(Number) });
  const first = as<{ messages: object[]; next: number }>(
    answers.historyList,
    (await get('/sessions/s/history?limit=3')).body,
  );
  expect(first).toMatchObject({ messages: [user('one'), { content: 'two' }, user('three')], next: 3 });
  const last = as(answers.historyList, (await get(`/sessions/s/history?after=${first.next}`)).body);
  expect(last).toEqual({ messages: [expect.objectContaining(user('four'))] });
  expect(await edit({ operation: 'rollbackBefore', handle })).toBeNull();
  expect(await edit({ operation: 'update', id: 'm2', attributes: { content: 'TWO' } })).toMatchObject({
    content: 'TWO',
  });
  expect(await edit({ operation: 'popLast' })).toMatchObject(user('three'));
  expect(await edit({ operation: 'remove', id: 'm1' })).toMatchObject(user('one'));
  expect(await edit({ operation: 'remove', id: 'm1' })).toBeNull();
  expect(await edit({ operation: 'replaceSystemPrompt', text: 'Be brief.' })).toBeNull();
  expect(await texts()).toEqual(['system: Be brief.', 'assistant: TWO']);
  expect(await edit({ operation: 'truncateFrom', index: 1 })).toBeNull();
  expect(await edit({ operation: 'compress', force: true })).toMatchObject({ compressed: false });
  expect(await edit({ operation: 'startTask', title: 'Another' })).toBe(1);
  expect(await edit({ operation: 'undo' })).toMatchObject({ success: true });
  expect(await edit({ operation: 'switchTo', task: 1 })).toMatchObject({ success: true });
  expect(await edit({ operation: 'discardPendingToolCalls' })).toEqual([]);
  expect(await edit({ operation: 'settleInterrupted' })).toBeNull();
  const call = { callId: 'c', name: 'look', arguments: '{}' };
  const seeded = [
    user('a'),
    { role: 'assistant', content: '', toolCalls: [call] },
    { role: 'tool', toolCallId: 'c', name: 'look', content: 'x' },
  ];
  expect(await edit({ operation: 'seed', messages: seeded })).toBeNull();
  expect(await edit({ operation: 'attachToToolResult', callId: 'c', name: 'note', value: { n: 1 } })).toBeNull();
  expect((await runtime.session('s').history.toArray()).at(-1)).toMatchObject({ note: { n: 1 } });
  expect(await edit({ operation: 'unset' })).toBeNull();
  expect(await runtime.session('s').history.isEmpty()).toBe(true);
});

test('an operation that the history refuses has its code and its status', async () => {
  const { post } = await kit.serve();
  await post('/sessions', { id: 's' });
  const refused = async (path: string, body: object): Promise<unknown> => {
    const answer = await post(path, body);
    return [answer.status, as(answers.problem, answer.body)['code']];
  };
  expect(await refused('/sessions/none/history', { operation: 'unset' })).toEqual([404, 'unknown_session']);
  expect(await refused('/sessions/s/history', { operation: 'deleteWhere' })).toEqual([400, 'bad_request']);
  expect(await refused('/sessions/s/history', { operation: 'update', id: 'm9', attributes: {} })).toEqual([
    404,
    'message_not_found',
  ]);
  expect(await refused('/sessions/s/history', { operation: 'truncateFrom', index: -1 })).toEqual([400, 'bad_request']);
});

test('goals are created, changed, pinned and completed', async () => {
  const { post, get } = await kit.serve();
  await post('/sessions', { id: 's' });
  const made = await post('/sessions/s/goals', { description: 'Find it' });
  expect([made.status, as(answers.goal, made.body)['id']]).toEqual([201, 1]);
  await post('/sessions/s/goals', { description: 'First part', parentId: 1 });
  await post('/sessions/s/history', { operation: 'add', message: user('one') });
  expect(as(answers.links, (await post('/sessions/s/goals/attach', { messages: [1], goals: [1] })).body)).toEqual({
    links: 1,
  });
  expect(as(answers.goal, (await post('/sessions/s/goals/1', { description: 'Find both' })).body)).toMatchObject({
    id: 1,
  });
  expect(as(answers.goal, (await post('/sessions/s/goals/1/complete')).body)).toMatchObject({ status: 'completed' });
  expect(as(answers.goalList, (await get('/sessions/s/goals')).body)).toMatchObject({
    goals: [{ description: 'Find both', status: 'completed', subGoals: [{ description: 'First part' }] }],
  });
  expect((await post('/sessions/s/goals/x', { description: 'no' })).status).toBe(400);
  expect((await post('/sessions/s/goals/9/complete')).status).toBe(400);
});

test('a skill and a workflow are activated; an unknown one is refused', async () => {
  const directory = await kit.directory();
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, 'lists.md'), '---\nname: lists\ndescription: Lists.\n---\nUse lists.\n');
  const { post, get } = await kit.serve({ skills: [directory], workflows: [directory] });
  await post('/sessions', { id: 's' });
  const active = await post('/sessions/s/skills', { skill: 'lists' });
  expect(as(answers.definition, active.body)).toEqual({ name: 'lists', description: 'Lists.' });
  expect((await post('/sessions/s/skills', { workflow: 'lists' })).status).toBe(200);
  expect((await get('/sessions/s')).status).toBe(200);
  expect((await post('/sessions/s/skills', { skill: 'none' })).body).toMatchObject({ code: 'config' });
});

test('a fork continues from a message, and the search finds messages of all sessions or of one tree', async () => {
  const { post, get, runtime } = await kit.serve();
  await runtime.session('s').ask('walnut bread');
  await runtime.session('s').ask('rye bread');
  await runtime.session('other').ask('walnut cake');
  const made = await post('/sessions/s/fork', { at: 2, id: 'f' });
  expect([made.status, as(answers.session, made.body)['id']]).toEqual([201, 'f']);
  expect((await runtime.session('f').messages()).map(({ content }) => content)).toEqual([
    'walnut bread',
    'to walnut bread',
  ]);
  expect((await post('/sessions/s/fork', { id: 'f' })).body).toMatchObject({ code: 'invalid_name' });
  const found = async (path: string): Promise<readonly string[]> =>
    as<{ found: { session: string; seq: number }[] }>(answers.searchResult, (await get(path)).body).found.map(
      ({ session, seq }) => `${session} ${seq}`,
    );
  expect(await found('/search?query=cake')).toEqual(['other 1', 'other 2']);
  expect(await found('/search?query=walnut&session=other&limit=1')).toEqual(['other 1']);
  expect((await get('/search?query=cake&limit=1000')).body).toMatchObject({ code: 'config' });
});
