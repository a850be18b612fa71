import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { agent, anthropic, open, type Runtime, type Session, tool } from '../../src/index.ts';
import type { ModelRequest } from '../../src/models/provider.ts';
import type { Script } from '../../src/models/script/script.ts';
import { type ManualClock, manualClock } from '../../src/testing/manual-clock.ts';
import { type StrictFake, strictFake } from '../../src/testing/strict-fake.ts';
import { deferred, eventually, failure, history, log, MATRIX, runtimeKit, types } from '../support/runtime-kit.ts';

const kit = runtimeKit();
const fakes: StrictFake[] = [];
afterEach(async () => {
  for (const fake of fakes.splice(0)) await fake.close();
});

async function fakeModel(script: Script): Promise<StrictFake> {
  const fake = await strictFake({ script });
  fakes.push(fake);
  return fake;
}

const providerOf = (fake: StrictFake) => anthropic({ apiKey: 'test', baseURL: fake.url });

/** Moves time until `isMet`; transfers over the wire take real time in between. */
async function advanceUntil(clock: ManualClock, isMet: () => boolean | Promise<boolean>): Promise<void> {
  await eventually(async () => {
    if (await isMet()) return true;
    await clock.advance(100);
    return false;
  });
}

test('the hello of the readme runs', async () => {
  const topics = ['locks', 'pages'];
  // The model takes long enough that the program reaches its loop first.
  const isRead = deferred();
  const fake = await fakeModel(async (request: ModelRequest) => {
    if (request.system?.includes('sub-agent') === true) return 'Looked into it.';
    await isRead.promise;
    return 'It depends.';
  });
  let streamed = '';
  const runtime = await open(await kit.directory(), {
    provider: providerOf(fake),
    agents: [
      agent({
        name: 'writer',
        model: 'claude-opus-4-6',
        system: 'Answer with sources.',
        tools: [new URL('./fixtures/tools.ts', import.meta.url)],
      }),
    ],
  });
  const session = runtime.session('user-42', 'writer');
  const receipt = await session.send('Compare LMDB and SQLite for logs', { key: 'req-1' });
  await session.send('Only consider Node');
  const children = await session.spawnAll(topics.map((task) => ({ agent: 'writer', task })));
  for await (const event of session.events({ until: receipt })) {
    if (event.type === 'text.delta') streamed += event.text;
    if (event.type === 'session.state' && event.state === 'awaiting') isRead.resolve();
  }
  expect(await receipt.answer()).toBe('It depends.');
  expect((await children.all()).map(({ reply }) => reply)).toEqual(['Looked into it.', 'Looked into it.']);
  expect(streamed).toContain('It depends.');
  await runtime.drain();
  expect(fake.violations).toEqual([]);
  await runtime.close();
});

describe.each(MATRIX)('over the wire, sessions: $sessions, models: $models', (threads) => {
  test('A8: requests are legal and byte-stable over tools, riders, pairs and failures', async () => {
    const fake = await fakeModel((request: ModelRequest) => {
      const last = JSON.stringify(request.messages.at(-1));
      if (last.includes('use it')) return { text: 'I look.', toolUse: [{ name: 'look' }, { name: 'broken' }] };
      if (last.includes('think')) return { thinking: 'Hm.', text: 'I thought.' };
      return 'Fine.';
    });
    const look = tool({ name: 'look', description: 'Looks.', input: z.object({}), run: () => 'seen' });
    const broken = tool({
      name: 'broken',
      description: 'Breaks.',
      input: z.object({}),
      run: () => {
        throw new Error('broken');
      },
    });
    const agents = [agent({ name: 'a', system: 'Be brief.', tools: [look, broken], thinking: { type: 'adaptive' } })];
    const runtime = await kit.open({ threads, agents, provider: providerOf(fake) });
    const session = runtime.session('s');
    await session.ask('use it');
    await session.ask([{ type: 'text', text: 'think' }]);
    const child = await session.spawn({ task: 'Help', name: 'helper' });
    await child.reply();
    await runtime.drain();
    await session.ask('and now?');
    expect(fake.violations).toEqual([]);
    const own = fake.requests.filter(({ messages }) => JSON.stringify(messages[0]).includes('use it'));
    expect(own.length).toBe(5);
    own.forEach((request, index) => {
      const before = own[index - 1];
      if (before === undefined) return;
      expect(JSON.stringify(withoutMarks(request.messages.slice(0, before.messages.length)))).toBe(
        JSON.stringify(withoutMarks(before.messages)),
      );
      expect(withoutMarks([request.system, request.tools])).toEqual(withoutMarks([before.system, before.tools]));
    });
  });

  test('F043, F044: refused credentials block the queue until resume, and are published', async () => {
    let isRefusing = true;
    const fake = await fakeModel(() =>
      isRefusing ? { error: { status: 401, message: 'invalid x-api-key' } } : 'Welcome.',
    );
    const runtime = await kit.open({ threads, provider: providerOf(fake) });
    const session = runtime.session('s');
    const first = await session.send('Hi', { bounceBack: true });
    const error = await failure(first.answer());
    expect(error.cause).toMatchObject({ name: 'ModelAuthenticationError', code: 'model_authentication', status: 401 });
    const second = await session.send('Again');
    await runtime.drain();
    expect(fake.requests.length).toBe(1);
    expect(await session.state()).toMatchObject({
      state: 'idle',
      mailbox: 1,
      blocked: { code: 'model_authentication' },
    });
    const events = types(await history(session));
    expect(events).toContain('bounce_back');
    expect(events).toContain('authentication_required');
    expect((await log(session))[0]).toMatch(/^system_message:Authentication failed/u);
    isRefusing = false;
    await session.resume();
    expect(await second.answer()).toBe('Welcome.');
    expect((await session.state()).blocked).toBeUndefined();
  });
});

describe('retries, on a manual clock', () => {
  async function session(script: Script): Promise<{
    readonly fake: StrictFake;
    readonly clock: ManualClock;
    readonly runtime: Runtime;
    readonly session: Session;
  }> {
    const fake = await fakeModel(script);
    const clock = manualClock();
    const runtime = await kit.open({ provider: providerOf(fake), clock, random: () => 0 });
    return { fake, clock, runtime, session: runtime.session('s') };
  }
  const overloaded = { error: { status: 529, message: 'Overloaded' } };
  const retries = async (of: Session) =>
    (await history(of)).flatMap((event) =>
      event.type === 'llm.retry' ? [[event.attempt, event.waitMs, event.status]] : [],
    );

  test('F036: two transient failures, then the answer: three requests with the same bytes', async () => {
    const { fake, clock, session: s } = await session([overloaded, { error: { status: 500 } }, 'At last.']);
    const receipt = await s.send('Hi');
    await advanceUntil(clock, () => fake.requests.length === 3);
    expect(await receipt.answer()).toBe('At last.');
    expect(new Set(fake.requests.map((request) => JSON.stringify(request))).size).toBe(1);
    expect(await retries(s)).toEqual([
      [1, 1_000, 529],
      [2, 16_000, 500],
    ]);
  });

  test('F037, F038: five attempts, after waits of 1, 16, 81 and 256 seconds, then failed, noted in the log, idle', async () => {
    const { fake, clock, session: s } = await session(Array(6).fill(overloaded));
    const receipt = await s.send('Hi');
    const failed = failure(receipt.answer());
    await advanceUntil(clock, async () => (await s.state()).state === 'idle');
    expect(await failed).toMatchObject({ code: 'turn_failed', cause: { code: 'model_overloaded', status: 529 } });
    expect(fake.requests.length).toBe(5);
    expect((await retries(s)).map(([, waitMs]) => waitMs)).toEqual([1_000, 16_000, 81_000, 256_000]);
    expect((await log(s)).at(-1)).toMatch(/^system_message:.*after multiple retries.*Overloaded/u);
  });

  test('F20, Δ9: a retry waits as long as the server asks', async () => {
    const limited = { error: { status: 429, retryAfterMs: 30_000 } };
    const { fake, clock, session: s } = await session([limited, 'Now.']);
    const receipt = await s.send('Hi');
    await eventually(async () => (await s.state()).phase === 'retrying');
    await clock.advance(29_999);
    expect(fake.requests.length).toBe(1);
    await clock.advance(1);
    expect(await receipt.answer()).toBe('Now.');
    expect(await retries(s)).toEqual([[1, 30_000, 429]]);
  });

  test('F39, Δ9: the wait can be interrupted, and nothing is sent afterwards', async () => {
    const { fake, clock, runtime, session: s } = await session([overloaded, 'no']);
    await s.send('Hi');
    await eventually(async () => (await s.state()).phase === 'retrying');
    expect(await s.interrupt()).toBe(true);
    await clock.advance(60_000);
    await runtime.drain();
    expect(fake.requests.length).toBe(1);
    expect((await s.state()).state).toBe('idle');
  });

  test('F35: a request the API refuses is not sent again', async () => {
    const { fake, session: s } = await session([{ error: { status: 400, message: 'no' } }]);
    await failure(s.ask('Hi'));
    expect(fake.requests.length).toBe(1);
  });
});

/** Removes cache marks and their only side effect: a text with a mark is a block. */
function withoutMarks(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value), (key, item: unknown) => {
    if (key === 'cache_control') return undefined;
    return key === 'content' && typeof item === 'string' ? [{ type: 'text', text: item }] : item;
  });
}
