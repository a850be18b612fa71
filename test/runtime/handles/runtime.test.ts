import { readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { agent, CancelledError, ConfigError, InvalidNameError, open, tool } from '../../../src/index.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { deferred, failure, gatedModel, MATRIX, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();

test.each(['', '.hidden', '../up', 'a b', 'a/b', 'é', 'x'.repeat(129)])(
  'session(%j) throws InvalidNameError',
  async (id) => {
    const runtime = await kit.open({ provider: scripted(['no']) });
    expect(() => runtime.session(id)).toThrow(InvalidNameError);
  },
);

test('session() of an unknown agent throws ConfigError (unknown_agent) at once', async () => {
  const runtime = await kit.open({ provider: scripted(['no']) });
  expect(() => runtime.session('s', 'nope')).toThrow(ConfigError);
  expect(() => runtime.session('s', 'nope')).toThrow(expect.objectContaining({ code: 'unknown_agent' }));
});

test('metrics and info answer at once', async () => {
  const runtime = await kit.open({ provider: scripted(['ok']), durability: 'os' });
  await runtime.session('s').ask('Hi');
  expect(runtime.metrics()).toMatchObject({
    accepted: 1,
    halfSteps: 1,
    modelCalls: 1,
    toolCalls: 0,
    sessionsHot: 1,
    sessionsLive: 0,
    modelCallsRunning: 0,
    restarts: 0,
  });
  expect(runtime.metrics().flushes).toBeGreaterThan(0);
  expect(runtime.info()).toMatchObject({
    node: process.version,
    directory: ':memory:',
    durability: 'os',
    threads: { sessions: 0, models: 0, tools: 1 },
  });
});

describe.each(MATRIX)('the sessions of a runtime, sessions: $sessions, models: $models', (threads) => {
  test('list returns sessions by id, by parent, by state and page by page; get returns one', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ threads, provider: model.provider });
    for (const id of ['b', 'a', 'c']) {
      await runtime.session(id).send('Hi');
      if (id !== 'c') (await model.next()).answer('ok');
    }
    const running = await model.next();
    await runtime.session('a').spawn({ task: 'Help', name: 'helper' });
    (await model.next()).answer('done');
    await runtime.session('a:1').state();
    const ids = async (options?: Parameters<typeof runtime.sessions.list>[0]): Promise<readonly string[]> =>
      (await runtime.sessions.list({ order: 'id', ...options })).map(({ id }) => id);
    expect(await ids()).toEqual(['a', 'a:1', 'b', 'c']);
    expect(await ids({ parent: null })).toEqual(['a', 'b', 'c']);
    expect(await ids({ parent: 'a' })).toEqual(['a:1']);
    expect(await ids({ state: 'awaiting', parent: null })).toContain('c');
    expect(await ids({ after: 'a:1', limit: 1 })).toEqual(['b']);
    expect(await runtime.sessions.get('a:1')).toMatchObject({
      id: 'a:1',
      parent: 'a',
      name: 'helper',
      agent: 'default',
    });
    expect(await runtime.sessions.get('nobody')).toBeUndefined();
    await expect(runtime.sessions.get('no body')).rejects.toBeInstanceOf(InvalidNameError);
    await expect(runtime.sessions.list({ limit: 0 })).rejects.toBeInstanceOf(ConfigError);
    running.answer('late');
  });

  test('drain waits for running work and for queued work', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ threads, provider: model.provider, limits: { liveSessions: 1 } });
    await runtime.session('one').send('Hi');
    await runtime.session('two').send('Hi');
    const order: string[] = [];
    const drained = runtime.drain().then(() => order.push('drained'));
    for (const answer of ['1', '2']) {
      const call = await model.next();
      order.push(answer);
      call.answer(answer);
    }
    await drained;
    expect(order).toEqual(['1', '2', 'drained']);
    await runtime.drain();
  });

  test('drain can be aborted', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ threads, provider: model.provider });
    await runtime.session('s').send('Hi');
    await model.next();
    const controller = new AbortController();
    const drained = runtime.drain({ signal: controller.signal });
    controller.abort();
    await expect(drained).rejects.toBeInstanceOf(CancelledError);
  });

  test('drain does not wait for a deleted session', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ threads, provider: model.provider });
    const session = runtime.session('s');
    const receipt = await session.send('Hi');
    await model.next();
    const answer = failure(receipt.answer());
    const drained = runtime.drain();
    await session.delete();
    await drained;
    expect(await answer).toBeInstanceOf(CancelledError);
  });

  test('H6 of the shard: close waits for a running tool, and its result is in the log', async () => {
    const directory = await kit.directory();
    const running = deferred();
    const finish = deferred<string>();
    const slow = tool({
      name: 'slow',
      description: 'Slow.',
      input: z.object({}),
      run: () => {
        running.resolve();
        return finish.promise;
      },
    });
    const agents = [agent({ name: 'a', tools: [slow] })];
    const provider = scripted([{ toolUse: { name: 'slow' } }]);
    const runtime = await kit.open({ threads, directory, agents, provider });
    await runtime.session('s').send('Hi');
    await running.promise;
    const closed = runtime.close();
    expect(await failure(runtime.session('s').send('too late'))).toBeInstanceOf(CancelledError);
    finish.resolve('made it');
    await closed;
    const again = await kit.open({ threads, directory, agents, provider: scripted(['Fine.']) });
    await again.drain();
    const contents = (await again.session('s').messages()).map(({ content }) => content);
    expect(contents).toEqual(['Hi', 'Calling slow', 'made it', 'Fine.']);
  });

  test('close leaves work open that does not end in time; the next open resumes it', async () => {
    const directory = await kit.directory();
    const model = gatedModel();
    const runtime = await kit.open({ threads, directory, provider: model.provider });
    const receipt = await runtime.session('s').send('Hi');
    await model.next();
    const waiting = failure(receipt.answer());
    await runtime.close({ deadlineMs: 0 });
    expect(await waiting).toBeInstanceOf(CancelledError);
    const again = await kit.open({ threads, directory, provider: scripted(['Late.']) });
    expect(await (await again.session('s').receipt(receipt.id)).answer()).toBe('Late.');
  });

  test('H6 of the shard: a closed runtime rejects with CancelledError, and closing again does nothing', async () => {
    const runtime = await kit.open({ threads, provider: scripted(['ok']) });
    await runtime.session('s').ask('Hi');
    await Promise.all([runtime.close(), runtime.close()]);
    await runtime.close();
    await expect(runtime.session('s').send('Hi')).rejects.toBeInstanceOf(CancelledError);
    await expect(runtime.sessions.list()).rejects.toBeInstanceOf(CancelledError);
    await expect(runtime.drain()).rejects.toBeInstanceOf(CancelledError);
  });
});

test('await using closes the runtime', async () => {
  const directory = await kit.directory();
  const runtime = await open(directory, { provider: scripted(['ok']), threads: { sessions: 0, models: 0 } });
  await runtime.session('s').ask('Hi');
  // The test makes the call that the end of the block would make, because Node cannot load a `using` declaration when
  // it runs these files itself.
  await runtime[Symbol.asyncDispose]();
  await expect(kit.open({ directory, provider: scripted(['ok']) })).resolves.toBeDefined();
});

test('close does not wait for a retry that is due later', async () => {
  const clock = manualClock();
  const provider = scripted([{ error: { status: 529 } }]);
  const runtime = await kit.open({ provider, clock });
  const session = runtime.session('s');
  await session.send('Hi');
  for await (const event of session.events()) if (event.type === 'llm.retry') break;
  await runtime.close();
  expect(clock.pending).toBe(0);
});

test('a store in memory leaves nothing in the temporary directory', async () => {
  const mine = async (): Promise<readonly string[]> =>
    (await readdir(tmpdir())).filter((name) => name.startsWith('troupe-') && !name.startsWith('troupe-test-'));
  const before = new Set(await mine());
  const runtime = await kit.open({ provider: scripted(['ok']) });
  const during = (await mine()).filter((name) => !before.has(name));
  await runtime.close();
  const after = new Set(await mine());
  expect(during.some((name) => !after.has(name))).toBe(true);
});
