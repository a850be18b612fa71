/**
 * Goal: the list says of each session how it stands and how its last turn ended, the last changed one first, and the same
 * after a restart. Method: the public API with a manual clock; sessions that run, wait, fail, are interrupted and paused.
 */
import { describe, expect, test } from 'vitest';
import { LAST_ERROR_CHARACTERS_MAX, LIST_FAMILIES_DEFAULT, LIST_FAMILIES_MAX } from '../../../src/base/bounds.ts';
import { agent, ConfigError, type ListOptions, type Runtime } from '../../../src/index.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { askHuman } from '../../../src/tools/built-in/index.ts';
import { deferred, gatedModel, MATRIX, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const LONG = 'x'.repeat(LAST_ERROR_CHARACTERS_MAX + 100);
const story = scripted((_request, { session }) => {
  if (session === 'failed') return { error: { status: 529, message: `overloaded ${LONG}` } };
  if (session === 'asks') return { toolUse: { name: 'ask_human', input: { question: 'May I?' } } };
  return 'Done.';
});
const agents = [agent({ name: 'one', model: 'm', tools: [askHuman()] }), agent({ name: 'two', model: 'm' })];

const idsOf = async (runtime: Runtime, options?: ListOptions): Promise<readonly string[]> =>
  (await runtime.sessions.list(options)).map(({ id }) => id);

/** Sessions of each status, one second apart, the first at the beginning of the clock. */
async function makeSessions(runtime: Runtime, clock: ReturnType<typeof manualClock>): Promise<void> {
  await runtime.session('answered', 'one').ask('Hi');
  await clock.advance(1_000);
  await runtime
    .session('failed', 'two')
    .ask('Hi')
    .catch(() => undefined);
  await clock.advance(1_000);
  await runtime.session('asks', 'one').send('Hi');
  await runtime.drain();
  await clock.advance(1_000);
  await runtime.session('paused', 'two').pause();
  await clock.advance(1_000);
}

describe.each([{ isAfterRestart: false }, { isAfterRestart: true }])('after a restart: $isAfterRestart', (when) => {
  async function opened(): Promise<{ readonly runtime: Runtime; readonly begun: number }> {
    const directory = await kit.directory();
    const clock = manualClock();
    const begun = clock.now();
    const options = { directory, provider: story, agents, clock, settings: { llm: { retry: { attempts: 1 } } } };
    const runtime = await kit.open(options);
    await makeSessions(runtime, clock);
    if (!when.isAfterRestart) return { runtime, begun };
    await runtime.close();
    return { runtime: await kit.open(options), begun };
  }

  test('F138: the last changed session is first, with its status, its last outcome and error, and counts', async () => {
    const { runtime, begun } = await opened();
    const list = await runtime.sessions.list();
    expect(list.map(({ id, status, lastOutcome }) => [id, status, lastOutcome])).toEqual([
      ['paused', 'paused', undefined],
      ['asks', 'waiting', undefined],
      ['failed', 'failed', 'failed'],
      ['answered', 'idle', 'answered'],
    ]);
    const failed = list.find(({ id }) => id === 'failed');
    expect(failed).toMatchObject({ messageCount: 1, createdAt: begun + 1_000, updatedAt: begun + 1_000 });
    expect(failed?.lastError).toEqual({
      name: 'ModelError',
      code: 'model_overloaded',
      message: expect.stringMatching(/overloaded x+…$/u),
      retryable: true,
    });
    expect(failed?.lastError?.message).toHaveLength(LAST_ERROR_CHARACTERS_MAX);
    // A call and its question are no messages of the user or the agent.
    expect(list.map(({ messageCount }) => messageCount)).toEqual([0, 1, 1, 2]);
    const { lastOutcome, lastError, status } = await runtime.session('failed').state();
    expect([status, lastOutcome, lastError]).toEqual(['failed', 'failed', failed?.lastError]);
    expect(await runtime.sessions.get('failed')).toEqual(failed);
  });

  test('filters by status, outcome, agent and time; pages follow the order', async () => {
    const { runtime, begun } = await opened();
    expect(await idsOf(runtime, { status: 'waiting' })).toEqual(['asks']);
    expect(await idsOf(runtime, { status: ['failed', 'paused'] })).toEqual(['paused', 'failed']);
    expect(await idsOf(runtime, { outcome: 'answered' })).toEqual(['answered']);
    expect(await idsOf(runtime, { agent: 'two' })).toEqual(['paused', 'failed']);
    expect(await idsOf(runtime, { state: 'executing' })).toEqual(['asks']);
    expect(await idsOf(runtime, { changedAfter: begun + 1_000 })).toEqual(['paused', 'asks']);
    expect(await idsOf(runtime, { changedBefore: new Date(begun + 1_000) })).toEqual(['answered']);
    expect(await idsOf(runtime, { order: 'id', agent: 'one' })).toEqual(['answered', 'asks']);
    const [first, second] = await runtime.sessions.list({ limit: 2 });
    expect([first?.id, second?.id]).toEqual(['paused', 'asks']);
    expect(await idsOf(runtime, { limit: 2, ...(second === undefined ? {} : { after: second }) })).toEqual([
      'failed',
      'answered',
    ]);
    expect(await idsOf(runtime, { order: 'id', after: 'answered', limit: 1 })).toEqual(['asks']);
  });

  test('a later turn replaces the outcome; a change moves the session to the front', async () => {
    const { runtime } = await opened();
    await runtime.sessions.list();
    expect(await runtime.session('answered').interrupt()).toBe(false);
    await runtime.session('answered').ask('Once more');
    expect((await runtime.sessions.list({ limit: 1 }))[0]).toMatchObject({ id: 'answered', messageCount: 4 });
    await runtime.sessions.delete('asks');
    expect(await idsOf(runtime)).toEqual(['answered', 'paused', 'failed']);
  });
});

test('a turn that was interrupted, then one that is answered', async () => {
  const model = gatedModel();
  const runtime = await kit.open({ provider: model.provider });
  const session = runtime.session('s');
  const first = await session.send('Hi');
  await model.next();
  expect(await runtime.sessions.list({ status: 'running' })).toMatchObject([{ id: 's', state: 'awaiting' }]);
  await session.interrupt();
  await expect(first.answer()).rejects.toMatchObject({ code: 'cancelled' });
  expect(await session.state()).toMatchObject({ status: 'idle', lastOutcome: 'interrupted' });
  const second = session.ask('Again');
  (await model.next()).answer('Yes.');
  await second;
  expect(await runtime.sessions.get('s')).toMatchObject({ lastOutcome: 'answered' });
});

test.each(MATRIX)(
  'F138: roots with their children in the order of creation; the limit is 1 to 50 (%o)',
  async (threads) => {
    const gate = deferred<void>();
    const runtime = await kit.open({ threads, provider: scripted(() => gate.promise.then(() => 'ok')) });
    const parent = runtime.session('r0');
    for (const name of ['zoe', 'adam']) await parent.spawn({ task: 'Help', name, replies: 'handle' });
    for (let n = 1; n <= LIST_FAMILIES_MAX; n += 1) await runtime.session(`r${n}`).pause();
    gate.resolve();
    await runtime.drain();
    const whole = await runtime.sessions.list({ children: true, limit: 1_000 });
    expect(whole).toHaveLength(LIST_FAMILIES_MAX);
    expect(await runtime.sessions.list({ children: true })).toHaveLength(LIST_FAMILIES_DEFAULT);
    const [family] = await runtime.sessions.list({ children: true, status: 'idle', limit: 1 });
    expect(family).toMatchObject({ id: 'r0', children: [{ name: 'zoe', lastOutcome: 'answered' }, { name: 'adam' }] });
    expect(whole.filter(({ children }) => children !== undefined).map(({ id }) => id)).not.toContain('r1');
  },
);

test.each<[string, ListOptions]>([
  ['list.after', { after: 's' }],
  ['list.after', { after: { id: 's' } }],
  ['list.changedAfter', { changedAfter: Number.NaN }],
  ['list.changedBefore', { changedBefore: new Date('never') }],
  ['list.children', { children: true, parent: 's' }],
  ['list.status', { status: [] }],
  ['list.order', { order: 'oldest' as 'id' }],
])('a bad option is refused, and named: %s', async (key, options) => {
  const runtime = await kit.open({ provider: scripted(['no']) });
  const refused = runtime.sessions.list(options);
  await expect(refused).rejects.toBeInstanceOf(ConfigError);
  await expect(refused).rejects.toMatchObject({ data: { key } });
});
