/** Tasks through the public API: an undone task reaches no model, survives a restart, and is published. */
import { expect, test } from 'vitest';
import { agent, open } from '../../../src/index.ts';
import type { ModelRequest } from '../../../src/models/provider.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { collect, failure, gatedModel, history, log, MATRIX, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const echo = scripted({ rules: [], otherwise: 'to {{text}}' });

test.each(MATRIX)('H49: a request holds the active branch alone; sessions: $sessions', async (threads) => {
  const runtime = await kit.open({ threads, provider: echo });
  const session = runtime.session('s');
  await session.ask('one');
  await session.ask('two');
  expect(await session.history.undo()).toEqual({ success: true, taskId: 1 });
  await session.ask('three');
  const request: ModelRequest = await session.request();
  expect(JSON.stringify(request.messages)).toContain('to three');
  expect(JSON.stringify(request.messages)).not.toContain('two');
  expect(await session.history.activeMessages()).toEqual(request.messages);
  expect(await session.history.children(1)).toEqual([2, 3]);
  expect(await session.history.currentTaskId()).toBe(3);
  expect(await log(session)).toContain('user_message:two');
  expect((await session.viewport()).map(({ content }) => content)).toEqual(['one', 'to one', 'three', 'to three']);
});

test('H50, H51: bounds and statuses are as specified, also for a session that was never created', async () => {
  const runtime = await kit.open({ provider: echo });
  const { history: fresh } = runtime.session('s');
  expect(await fresh.undo()).toEqual({ success: false, message: 'Already at root task' });
  expect(await fresh.switchTo(1)).toEqual({ success: false, message: 'Invalid task ID: 1' });
  expect(await fresh.taskHistory()).toEqual([]);
  expect(await fresh.activeMessages()).toEqual([]);
  expect(await runtime.sessions.list()).toEqual([]);
  expect(await fresh.startTask('  Find   it ')).toBe(1);
  expect(await fresh.undo()).toEqual({ success: true, taskId: 0 });
  expect(await fresh.switchTo(0)).toEqual({ success: false, message: 'Invalid task ID: 0' });
  expect(await fresh.switchTo(1)).toEqual({ success: true, taskId: 1 });
  expect(await fresh.taskHistory()).toMatchObject([{ taskId: 1, status: 'current', summary: 'Find it' }]);
  expect(await failure(fresh.taskHistory(0))).toMatchObject({ name: 'InvalidArgumentError', code: 'invalid_argument' });
  expect(await failure(fresh.startTask(3 as unknown as string))).toMatchObject({ code: 'invalid_argument' });
});

test('tasks and the active branch survive a restart, on disk', async () => {
  const directory = await kit.directory();
  const agents = [agent({ name: 'a' })];
  const before = await open(directory, { provider: echo, agents });
  await before.session('s').ask('one');
  await before.session('s').ask('two');
  await before.session('s').history.undo();
  const told = await before.session('s').history.taskHistory();
  await before.close();
  const after = await kit.open({ directory, provider: echo, agents });
  const session = after.session('s');
  expect(await session.history.taskHistory()).toEqual(told);
  expect(await session.history.activeTaskId()).toBe(1);
  await session.ask('three');
  expect(JSON.stringify(await session.request())).not.toContain('two');
  expect(await session.history.switchTo(2)).toEqual({ success: true, taskId: 2 });
  expect((await session.viewport()).map(({ content }) => content)).toEqual(['one', 'to one', 'two', 'to two']);
});

test('an undo during a turn waits for the end of the turn, and is published once, as one event', async () => {
  const model = gatedModel();
  const runtime = await kit.open({ provider: model.provider });
  const session = runtime.session('s');
  const receipt = await session.send('one');
  const call = await model.next();
  expect(await session.history.undo()).toEqual({ success: true, taskId: 0 });
  expect(await session.history.activeTaskId()).toBe(1);
  call.answer('to one');
  expect(await receipt.answer()).toBe('to one');
  expect(await session.history.activeTaskId()).toBe(0);
  expect(await session.history.activeMessages()).toEqual([]);
  const events = await history(session);
  expect(events.filter(({ type }) => type === 'history.changed')).toMatchObject([
    { operation: 'undo', removed: [1, 2], created: [] },
  ]);
  const { seq } = await session.state();
  expect((await collect(session.events({ until: seq }))).map((event) => event.seq)).toEqual(
    Array.from({ length: seq }, (_, index) => index + 1),
  );
});
