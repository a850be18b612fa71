/**
 * Goal: the queue of calls that wait for a person (`runtime.waiting`): over all sessions and shards, oldest first, in
 * pages, also for sessions that a restart brought back. Only sessions that wait are read for it.
 */
import { expect, test } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { agent, type QueuedCall, type Runtime, tool } from '../../../src/index.ts';
import type { Reply } from '../../../src/models/script/script.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import {
  eventually,
  failure,
  MATRIX,
  runtimeKit,
  type TestOptions,
  THROUGH_MEMBER,
} from '../../support/runtime-kit.ts';

const kit = runtimeKit();

const pay = tool({ name: 'pay', description: 'Pays.', effect: 'keyed', input: { type: 'object' }, run: () => 'paid' });
const cashier = agent({ name: 'cashier', tools: [pay], approve: ['pay'], subagents: { spawn: true } });
const asks = (euros: number): Reply => ({ toolUse: { name: 'pay', input: { euros } } });

/** A model that answers a greeting with text, `pay N` with a call, and `pay N M` with two calls. */
const payer = (): ReturnType<typeof scripted> =>
  scripted((request, { call }) => {
    const last = request.messages.findLast(({ role }) => role === 'user')?.content;
    const text = typeof last === 'string' ? last : JSON.stringify(last);
    const amounts = /pay ([\d ]+)/.exec(text)?.[1]?.trim().split(' ').map(Number) ?? [];
    if (call > 0 || amounts.length === 0) return 'done';
    return amounts.length === 1
      ? asks(amounts[0] ?? 0)
      : { toolUse: amounts.map((euros) => ({ name: 'pay', input: { euros } })) };
  });

const open = (options: TestOptions = {}): Promise<Runtime> =>
  kit.open({ provider: payer(), agents: [cashier], ...options });

async function waits(runtime: Runtime, id: string, text: string, count = 1): Promise<void> {
  await runtime.session(id).send(text);
  await eventually(async () => (await runtime.waiting({ session: id })).items.length === count);
}

const shown = ({ session, input }: QueuedCall): string => `${session} ${JSON.stringify(input)}`;

test.skipIf(THROUGH_MEMBER).each(MATRIX)('lists waiting calls over all sessions, oldest first: %o', async (threads) => {
  const runtime = await open({ threads: { ...threads, tools: 1 }, settings: { approvals: { expiresMs: 3_600_000 } } });
  await runtime.session('idle').ask('hello');
  await waits(runtime, 'b', 'pay 5');
  const before = (await runtime.waiting()).items[0]?.at ?? 0;
  // Calls of the same millisecond are in the order of their sessions' ids.
  await eventually(() => Date.now() > before);
  await waits(runtime, 'a', 'pay 7 8', 2);
  const { items, next } = await runtime.waiting();
  expect(next).toBeUndefined();
  expect(items.map(shown)).toEqual(['b {"euros":5}', 'a {"euros":7}', 'a {"euros":8}']);
  const [first] = items;
  expect(first).toEqual({
    session: 'b',
    agent: 'cashier',
    callId: expect.any(String),
    toolName: 'pay',
    kind: 'approval',
    input: { euros: 5 },
    at: expect.any(Number),
    expiresAt: (first?.at ?? 0) + 3_600_000,
  });
  expect(runtime.metrics().callsWaitingForPerson).toBe(3);
  expect(await runtime.session('b').approve(first?.callId ?? '', { allow: true })).toBe(true);
  expect((await runtime.waiting()).items.map(shown)).toEqual(['a {"euros":7}', 'a {"euros":8}']);
  await runtime.sessions.delete('a');
  expect(await runtime.waiting()).toEqual({ items: [] });
  await eventually(() => runtime.metrics().callsWaitingForPerson === 0);
});

test('pages continue behind the last call, whatever was decided in between', async () => {
  // One time for all calls: the order is that of the sessions and of the calls in them.
  const runtime = await open({ clock: { ...systemClock, now: () => 1_000 } });
  for (const id of ['c', 'a', 'b']) await waits(runtime, id, 'pay 1 2 3', 3);
  const seen: string[] = [];
  let decided = 0;
  for (let after: string | undefined, isFirst = true; isFirst || after !== undefined; isFirst = false) {
    const page = await runtime.waiting({ limit: 2, ...(after === undefined ? {} : { after }) });
    for (const call of page.items) seen.push(shown(call));
    const last = page.items.at(-1);
    // The call at which the next page continues leaves the queue, and so do the calls that its denial skips.
    if (last?.session === 'a' && decided === 0) {
      expect(await runtime.session('a').approve(last.callId, { allow: true })).toBe(true);
      decided += 1;
    }
    after = page.next;
  }
  const calls = ['a', 'b', 'c'].flatMap((id) => [1, 2, 3].map((euros) => `${id} {"euros":${euros}}`));
  expect(seen).toEqual(calls);
  expect(decided).toBe(1);
});

test('a page is bounded in bytes, and the next page has the rest', async () => {
  const text = 'x'.repeat(700_000);
  const large = scripted(() => ({ toolUse: { name: 'pay', input: { text } } }));
  const runtime = await open({ provider: large });
  for (const id of ['a', 'b', 'c']) await waits(runtime, id, 'pay');
  const first = await runtime.waiting();
  expect(first.items.map(({ session }) => session)).toEqual(['a', 'b']);
  const rest = await runtime.waiting({ after: first.next ?? '' });
  expect([rest.items.map(({ session }) => session), rest.next]).toEqual([['c'], undefined]);
});

test('a call of a sub-agent names the session at the top of its tree', async () => {
  const runtime = await open();
  const parent = runtime.session('top');
  await parent.send('hello');
  const child = await parent.spawn({ task: 'pay 9', name: 'payer' });
  await eventually(async () => (await runtime.waiting()).items.length === 1);
  const { items } = await runtime.waiting({ session: 'top' });
  expect(items).toMatchObject([{ session: child.id, root: 'top', agent: 'cashier', input: { euros: 9 } }]);
  expect(await runtime.waiting({ session: 'to' })).toEqual({ items: [] });
});

test.skipIf(THROUGH_MEMBER).each(['close', 'crash'] as const)(
  'after a %s the queue is the same, and only sessions that wait are read',
  async (end) => {
    const directory = await kit.directory();
    const runtime = await open({ directory, threads: { sessions: 2, models: 1, tools: 1 } });
    for (let index = 0; index < 60; index += 1) await runtime.session(`idle-${index}`).ask('hello');
    for (const id of ['x', 'y', 'z']) await waits(runtime, id, 'pay 4');
    const before = await runtime.waiting();
    // The heads are written, so that the tail of the log has no idle session either.
    if (end === 'close') await runtime.close();
    const again = await open({ directory: end === 'close' ? directory : await kit.crashed(directory) });
    expect(await again.waiting()).toEqual(before);
    expect(before.items.map(({ session }) => session)).toEqual(['x', 'y', 'z']);
    if (end === 'close') expect(again.metrics().sessionsHot).toBe(3);
    const [call] = before.items;
    expect(await again.session('x').approve(call?.callId ?? '', { allow: false })).toBe(true);
    expect((await again.waiting()).items.map(({ session }) => session)).toEqual(['y', 'z']);
  },
);

test.skipIf(THROUGH_MEMBER)(
  'sessions that admission set aside after a crash are listed, and leave memory again',
  async () => {
    const directory = await kit.directory();
    const slow = (): ReturnType<typeof scripted> =>
      scripted((_request, { session }) => (session === 'busy' ? { text: 'late', delayMs: 600_000 } : asks(4)));
    const runtime = await open({ directory, provider: slow() });
    await runtime.session('busy').send('hello');
    for (const id of ['a', 'b', 'c']) await waits(runtime, id, 'pay 4');
    await eventually(() => runtime.metrics().modelCallsRunning === 1);
    const again = await open({
      directory: await kit.crashed(directory),
      provider: slow(),
      limits: { liveSessions: 1 },
    });
    for (let time = 0; time < 2; time += 1) {
      expect((await again.waiting()).items.map(({ session }) => session)).toEqual(['a', 'b', 'c']);
      expect(again.metrics().sessionsHot).toBe(1);
    }
  },
);

test('bad options are refused by name', async () => {
  const runtime = await open();
  expect(await failure(runtime.waiting({ after: 'soon' }))).toMatchObject({
    name: 'ConfigError',
    message: expect.stringContaining('option "waiting.after" must be the next of a page of waiting calls'),
  });
  expect(await failure(runtime.waiting({ limit: 0 }))).toMatchObject({ name: 'ConfigError' });
  expect(await failure(runtime.waiting({ session: 'not an id' }))).toMatchObject({ name: 'InvalidNameError' });
  expect(await failure(runtime.waiting({ state: 'idle' } as never))).toMatchObject({ name: 'ConfigError' });
});
