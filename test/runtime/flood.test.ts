// Goal: a request beyond a bound is refused with the name of the bound, delays no other caller, and leaves nothing
// behind. Method: the public API; floods of messages, children and readers against small bounds; every single one is
// counted.
import { readdirSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { SUBSCRIBER_EVENTS_MAX } from '../../src/base/bounds.ts';
import { agent, MailboxFullError, open, type Receipt, type SessionEvent, tool } from '../../src/index.ts';
import { killSessionThread } from '../../src/runtime/handles/runtime.ts';
import { scripted } from '../../src/testing/scripted.ts';
import {
  collect,
  deferred,
  eventually,
  failure,
  gatedModel,
  history,
  MATRIX,
  runtimeKit,
} from '../support/runtime-kit.ts';

const kit = runtimeKit();
const echo = scripted({ rules: [], otherwise: 'to {{text}}' });

describe.each(MATRIX)('F63: a flood of messages, sessions: $sessions, models: $models', (threads) => {
  test('F63, A7: beyond the bound each send fails with `MailboxFullError`, an interrupt does not; each accepted message is somewhere, once', async () => {
    const model = gatedModel();
    const mailbox = 100;
    const sends = 400;
    const runtime = await kit.open({ threads, provider: model.provider, limits: { mailbox } });
    const session = runtime.session('s');
    const first = await session.send('first');
    const call = await model.next();
    const before = process.memoryUsage().rss;
    const outcomes = await Promise.allSettled(
      Array.from({ length: sends }, (_unused, n) => session.send(`m${n} ${'x'.repeat(1_000)}`)),
    );
    const accepted = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
    const refused = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as unknown] : []));
    expect(accepted).toHaveLength(mailbox);
    expect(refused).toHaveLength(sends - mailbox);
    for (const error of refused) expect(error).toBeInstanceOf(MailboxFullError);
    // The flood has 400 kB. The bound is far above normal variation, and far below one copy of the flood for each send.
    expect(process.memoryUsage().rss - before).toBeLessThan(100 * 1024 * 1024);
    // An interrupt does not wait in the queue.
    const gone = failure(first.answer());
    expect(await session.interrupt()).toBe(true);
    expect(await gone).toMatchObject({ code: 'cancelled' });
    call.answer('too late');
    const [recalled] = accepted.slice(-1) as [Receipt];
    const pending = await session.pending();
    const last = pending.find(({ content }) => String(content).startsWith(`m${mailbox - 1} `));
    expect(await session.recall(last?.id ?? 0)).toBe(true);
    expect(await recalled.status()).toMatchObject({ status: 'dropped' });
    // Every accepted message is in exactly one place: in the log, in the mailbox, or dropped with a reason.
    const inLog = (await session.messages()).filter(({ type }) => type === 'user_message').length;
    const inMailbox = (await session.pending()).length;
    expect(inLog + inMailbox + 1).toBe(accepted.length + 1);
    const statuses = await Promise.all(accepted.map((receipt) => receipt.status()));
    const count = (wanted: string): number => statuses.filter(({ status }) => status === wanted).length;
    expect([count('dropped'), count('accepted')]).toEqual([1, inMailbox]);
    expect(await failure(session.send('x'.repeat(5 * 1024 * 1024)))).toMatchObject({ code: 'limit' });
  });
});

describe('F60: children', () => {
  const boss = agent({ name: 'boss', subagents: { spawn: true, maxActive: 4 } });
  const spawns = (count: number) =>
    Array.from({ length: count }, (_unused, n) => ({ name: 'spawn_subagent', input: { task: `t${n}` }, id: `c${n}` }));

  test('F60: a model whose children spawn is limited by depth, active children and all children; each call is answered', async () => {
    const released = deferred();
    const runtime = await kit.open({
      agents: [boss],
      limits: { depth: 3, children: 6 },
      settings: { subagents: { maxActive: 4 } },
      // Every session that can spawn does so again, the root with as many children as an answer may request.
      provider: scripted(async (request, { session, call }) => {
        const canSpawn = request.tools?.some(({ name }) => name === 'spawn_subagent') === true;
        if (canSpawn && call < 2) return { toolUse: spawns(session === 'root' ? 128 : 8) };
        await released.promise;
        return 'done';
      }),
    });
    const root = runtime.session('root');
    const receipt = await root.send('Go');
    await eventually(async () => (await root.messages()).filter(({ type }) => type === 'tool_response').length >= 128);
    const responses = (await root.messages()).filter(
      ({ type, toolName }) => type === 'tool_response' && toolName === 'spawn_subagent',
    );
    const refused = responses.filter(({ success }) => success === false);
    expect(responses.length - refused.length).toBeLessThanOrEqual(6);
    for (const { content } of refused) expect(content).toMatch(/limit|active|Too many|at most/i);
    released.resolve();
    await receipt.answer();
    await runtime.drain();
    const all = await runtime.sessions.list({ limit: 10_000 });
    const depthOf = (id: string): number => id.split(':').length - 1;
    expect(Math.max(...all.map(({ id }) => depthOf(id)))).toBe(3);
    for (const { id } of all) {
      expect(all.filter(({ parent }) => parent === id).length).toBeLessThanOrEqual(6);
    }
    expect(all.length).toBeLessThanOrEqual(1 + 6 + 36 + 216);
    expect(runtime.metrics()).toMatchObject({ sessionsLive: 0, sessionsQueued: 0 });
  });

  test('F60: 10,000 children spawned by program with a limit of 50: all end, never more than 50 at once, the heap is free', async () => {
    let running = 0;
    let most = 0;
    const runtime = await kit.open({
      limits: { liveSessions: 50 },
      durability: 'os',
      provider: scripted(async (_request, { session }) => {
        if (session === 'p') return 'ok';
        running += 1;
        most = Math.max(most, running);
        await Promise.resolve();
        running -= 1;
        return 'done';
      }),
    });
    const tasks = Array.from({ length: 10_000 }, (_unused, n) => ({ task: `t${n}`, replies: 'handle' as const }));
    const family = await runtime.session('p').spawnAll(tasks);
    const results = await family.settled();
    expect(results.filter(({ reason, reply }) => reason === 'completed' && reply === 'done')).toHaveLength(10_000);
    expect(most).toBeLessThanOrEqual(50);
    expect(runtime.metrics()).toMatchObject({ sessionsLive: 0, sessionsQueued: 0 });
    expect(runtime.metrics().sessionsHot).toBeLessThan(1_000);
  });
});

describe('F61, F62: families that lose a member', () => {
  test('F62: a parent deleted with children at work leaves no orphan, now or after a restart', async () => {
    const directory = await kit.directory();
    const model = gatedModel();
    const runtime = await kit.open({ directory, provider: model.provider });
    const parent = runtime.session('p');
    const children = [await parent.spawn({ task: 'a' }), await parent.spawn({ task: 'b' })];
    const other = await runtime.session('q').send('stay');
    await model.next();
    await model.next();
    await model.next();
    const exits = children.map((child) => child.exit().catch((error: unknown) => error));
    expect(await parent.delete()).toBe(true);
    await Promise.all(exits);
    expect((await runtime.sessions.list()).map(({ id }) => id)).toEqual(['q']);
    await runtime.close({ deadlineMs: 0 });
    const again = await kit.open({ directory, provider: scripted(['Stayed.']) });
    await again.drain();
    expect((await again.sessions.list()).map(({ id }) => id)).toEqual(['q']);
    expect(await (await again.session('q').receipt(other.id)).answer()).toBe('Stayed.');
  });

  test('F61, F62: the thread of a family dies: parent and children continue together, each reply is published once', async () => {
    const threads = { sessions: 1, models: 1 };
    const runtime = await kit.open({ directory: await kit.directory(), threads, provider: echo });
    const parent = runtime.session('p');
    const family = await parent.spawnAll(Array.from({ length: 20 }, (_unused, n) => ({ task: `t${n}`, key: `k${n}` })));
    await killSessionThread(runtime, 0);
    const results = await family.settled();
    expect(results.map(({ reply }) => reply)).toEqual(Array.from({ length: 20 }, (_unused, n) => `to t${n}`));
    await runtime.drain();
    const told = (await parent.messages()).filter(
      ({ type, source }) => type === 'tool_call' && source?.type === 'subagent',
    );
    expect(new Set(told.map(({ toolName }) => toolName)).size).toBe(20);
    expect(told).toHaveLength(20);
    expect((await runtime.sessions.list()).filter(({ state }) => state !== 'idle')).toEqual([]);
  });
});

describe('F64: readers', () => {
  test('F64: a stuck reader and one that vanished delay nothing; the stuck one catches up from the log', async () => {
    const messages = SUBSCRIBER_EVENTS_MAX + 100;
    const runtime = await kit.open({
      threads: { sessions: 1, models: 0 },
      provider: echo,
      limits: { mailbox: messages },
      durability: 'os',
    });
    const session = runtime.session('s');
    await session.ask('first');
    const stuck = session.events({ deltas: false });
    expect((await stuck.next()).value).toMatchObject({ seq: 1 });
    const vanished = session.events()[Symbol.asyncIterator]();
    void vanished.next();
    // A paused session publishes an event for each message that it accepts, and needs no turn for it.
    await session.pause();
    await Promise.all(Array.from({ length: messages }, (_unused, n) => session.send(`m${n}`)));
    expect(await runtime.session('other').ask('Hi')).toBe('to Hi');
    await vanished.return?.();
    const { seq } = await session.state();
    const read: SessionEvent[] = [];
    for await (const event of stuck) {
      read.push(event);
      if (event.seq === seq) break;
    }
    const seqs = read.flatMap((event) => (event.seq === undefined ? [] : [event.seq]));
    expect(seqs).toEqual(Array.from({ length: seqs.length }, (_unused, at) => at + 2));
    expect(seqs.at(-1)).toBe(seq);
    expect(seqs.length).toBeGreaterThan(SUBSCRIBER_EVENTS_MAX);
  });
});

test('I8: after every kind of fault and a close, threads, files, timers and listeners are as before', async () => {
  const files = (): number => readdirSync('/proc/self/fd').length;
  const threads = (): number => readdirSync('/proc/self/task').length;
  const listeners = (): number =>
    process.eventNames().reduce((sum, name) => sum + process.listenerCount(name as string), 0);
  // Requests to read files or to close handles end by themselves. Which of them are waiting at one moment is chance.
  const resources = (): readonly string[] =>
    process
      .getActiveResourcesInfo()
      .filter((kind) => !['Immediate', 'TickObject'].includes(kind) && !kind.includes('Req'))
      .sort();
  const run = async (): Promise<void> => {
    const directory = await kit.directory();
    const slow = tool({
      name: 'slow',
      description: 'Hangs.',
      input: z.object({}),
      timeoutMs: 50,
      run: () => new Promise(() => undefined),
    });
    const faulty = new URL('fixtures/faulty-tools.ts', import.meta.url);
    const faults = ['exit', 'hang', 'strayThrow', 'cycle', 'good'];
    const runtime = await open(directory, {
      threads: { sessions: 1, models: 1, tools: 2 },
      agents: [agent({ name: 'a', tools: [faulty, slow] })],
      provider: scripted({
        rules: [
          {
            when: { text: 'break', result: false },
            reply: {
              toolUse: [...faults.map((fault) => ({ name: 'faulty', input: { fault } })), { name: 'slow', input: {} }],
            },
          },
          { when: { text: 'fail' }, reply: { error: { status: 400 } } },
        ],
        otherwise: 'ok',
      }),
    });
    const reading = collect(runtime.events());
    const abandoned = runtime.session('s0').events();
    void abandoned.next();
    const asked = Array.from({ length: 3 }, (_unused, n) =>
      runtime
        .session(`s${n}`)
        .ask(['break', 'work', 'fail'][n] ?? '', { key: `k${n}` })
        .catch((error: unknown) => error),
    );
    await Promise.all(asked);
    await killSessionThread(runtime, 0);
    const family = await runtime.session('s1').spawnAll([
      { task: 'a', key: 'a' },
      { task: 'b', key: 'b' },
    ]);
    await family.settled();
    expect((await history(runtime.session('s1'))).length).toBeGreaterThan(0);
    await runtime.close();
    await reading;
  };
  // After the first run everything that is loaded once and kept is in memory.
  await run();
  const base = { files: files(), threads: threads(), listeners: listeners(), resources: resources() };
  await run();
  // A thread that has ended is still listed until the system removes it.
  await expect.poll(threads).toBeLessThanOrEqual(base.threads);
  await expect.poll(files).toBeLessThanOrEqual(base.files);
  expect(listeners()).toBe(base.listeners);
  // The poll adds its own timer.
  await expect.poll(resources).toEqual([...base.resources, 'Timeout'].sort());
});
