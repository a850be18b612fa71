import { expect, test } from 'vitest';
import { z } from 'zod';
import { ENDED_SESSIONS_MAX, SESSION_IDLE_MS, SNAPSHOT_TURNS } from '../../../src/base/bounds.ts';
import { agent, tool } from '../../../src/index.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { failure, history, log, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const echo = scripted({ rules: [], otherwise: 'to {{text}}' });
const many = Array.from({ length: 300 }, (_, n) => `s${n}`);
/** Longer than any session stays in memory after its last use. */
const LONG_MS = 2 * SESSION_IDLE_MS;

test('H4 of the shard, A11: used sessions leave memory soon, and leave no timers', async () => {
  const clock = manualClock();
  const runtime = await kit.open({ provider: echo, clock });
  await Promise.all(many.map((id) => runtime.session(id).send('Hi')));
  await runtime.drain();
  expect(runtime.metrics()).toMatchObject({ sessionsHot: many.length, sessionsLive: 0, sessionsQueued: 0 });
  await clock.advance(LONG_MS);
  expect(runtime.metrics().sessionsHot).toBe(0);
  // The checkpoint of the sessions that left.
  await clock.advance(LONG_MS);
  expect(clock.pending).toBe(0);
});

test('H4 of the shard, A11: sessions that were only read leave memory soon as well', async () => {
  const clock = manualClock();
  const runtime = await kit.open({ provider: echo, clock });
  await Promise.all(many.map((id) => runtime.session(id).send('Hi')));
  await runtime.drain();
  await clock.advance(LONG_MS);
  for (const id of many) expect((await runtime.session(id).state()).state).toBe('idle');
  await Promise.all(many.map((id) => runtime.session(id).messages()));
  expect(runtime.metrics().sessionsHot).toBe(many.length);
  await clock.advance(LONG_MS);
  expect(runtime.metrics().sessionsHot).toBe(0);
});

test('A11: only few ended children are in memory', async () => {
  const runtime = await kit.open({ provider: echo });
  const tasks = Array.from({ length: ENDED_SESSIONS_MAX * 2 }, (_, n) => ({
    task: `t${n}`,
    replies: 'handle' as const,
  }));
  await (await runtime.session('p').spawnAll(tasks)).all();
  await runtime.drain();
  expect(runtime.metrics().sessionsHot).toBeLessThanOrEqual(ENDED_SESSIONS_MAX + 1);
});

test('a passivated session continues from the log, with its messages, keys, receipts and events', async () => {
  const clock = manualClock();
  const runtime = await kit.open({ provider: echo, clock });
  const session = runtime.session('first');
  const receipt = await session.send('Hi', { key: 'k' });
  await receipt.answer();
  const before = await history(session);
  await Promise.all(many.map((id) => runtime.session(id).send('Hi')));
  await runtime.drain();
  await clock.advance(LONG_MS);
  expect(runtime.metrics().sessionsHot).toBe(0);
  expect(await history(session)).toEqual(before);
  const again = await session.send('Hi', { key: 'k' });
  expect(again).toMatchObject({ id: receipt.id, seq: receipt.seq, duplicate: true });
  expect(await session.ask('more')).toBe('to more');
  expect(await log(session)).toEqual([
    'user_message:Hi',
    'agent_message:to Hi',
    'user_message:more',
    'agent_message:to more',
  ]);
});

test('a passivated session with a long log continues from its snapshot', async () => {
  const tick = tool({ name: 'tick', description: 'Ticks.', input: z.object({}), run: () => 'tock' });
  const turns = Math.ceil(SNAPSHOT_TURNS / 3) + 10;
  const directory = await kit.directory();
  const agents = [agent({ name: 'a', tools: [tick] })];
  const clock = manualClock();
  const runtime = await kit.open({ directory, agents, provider: echo, clock });
  const session = runtime.session('long');
  for (let n = 0; n < turns; n += 1) await session.ask(`m${n}`);
  const state = await session.state();
  await Promise.all(many.map((id) => runtime.session(id).send('Hi')));
  await runtime.drain();
  await clock.advance(LONG_MS);
  expect(runtime.metrics().sessionsHot).toBe(0);
  expect(await session.state()).toEqual(state);
  await runtime.close();
  const again = await kit.open({ directory, agents, provider: echo });
  expect(await again.session('long').state()).toEqual(state);
  expect((await again.session('long').messages()).length).toBe(turns * 2);
  expect(await again.session('long').ask('last')).toBe('to last');
});

test('the list has the true states of passivated sessions', async () => {
  const clock = manualClock();
  const runtime = await kit.open({ provider: echo, clock });
  await Promise.all(many.map((id) => runtime.session(id).send('Hi')));
  await runtime.drain();
  await clock.advance(LONG_MS);
  const list = await runtime.sessions.list();
  expect(list.length).toBe(many.length);
  expect(list.every(({ state, mailbox }) => state === 'idle' && mailbox === 0)).toBe(true);
  expect(
    (await runtime.sessions.list({ order: 'id', state: 'idle', after: 's1', limit: 3 })).map(({ id }) => id),
  ).toEqual(['s10', 's100', 's101']);
});

test('runtime.resume() finds blocked sessions that have left memory, and leaves paused sessions paused', async () => {
  let isRefusing = true;
  const provider = scripted((_request, { session }) =>
    session.startsWith('b') && isRefusing ? { error: { status: 401, message: 'bad key' } } : 'fine',
  );
  const clock = manualClock();
  const runtime = await kit.open({ provider, clock });
  // Both calls are in flight when the first of them is refused, since later calls would wait.
  await Promise.all(['b1', 'b2'].map((id) => failure(runtime.session(id).ask('Hi'))));
  for (const id of ['b1', 'b2']) await runtime.session(id).send('waits');
  await runtime.session('b2').pause();
  await runtime.drain();
  await clock.advance(LONG_MS);
  expect(runtime.metrics().sessionsHot).toBe(0);
  isRefusing = false;
  await runtime.resume();
  await runtime.drain();
  expect(await runtime.session('b2').state()).toMatchObject({ state: 'idle', mailbox: 1 });
  await runtime.session('b2').resume();
  await runtime.drain();
  for (const id of ['b1', 'b2']) expect((await log(runtime.session(id))).at(-1)).toBe('agent_message:fine');
});

test('limits.waitingBytes: a mailbox counts while its session is in memory, and again after it is reloaded', async () => {
  const clock = manualClock();
  const runtime = await kit.open({ provider: echo, clock, limits: { waitingBytes: 3_000 } });
  const [a, b] = [runtime.session('a'), runtime.session('b')];
  for (const session of [a, b]) await session.pause();
  await a.send('x'.repeat(2_000));
  await clock.advance(LONG_MS);
  expect(runtime.metrics().sessionsHot).toBe(0);
  await b.send('x'.repeat(900));
  await b.send('x'.repeat(600));
  expect((await a.pending()).map(({ content }) => content)).toEqual(['x'.repeat(2_000)]);
  expect(await failure(b.send('x'))).toMatchObject({ code: 'mailbox_full', data: { limit: 'waitingBytes' } });
});
