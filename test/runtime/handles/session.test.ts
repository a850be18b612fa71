import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { agent, CancelledError, ConfigError, INTERRUPT_NOTICE, tool } from '../../../src/index.ts';
import { outcomeUnknown } from '../../../src/session/rules/tool-texts.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import {
  collect,
  deferred,
  eventually,
  failure,
  gatedModel,
  history,
  log,
  MATRIX,
  queue,
  runtimeKit,
  THROUGH_MEMBER,
  types,
} from '../../support/runtime-kit.ts';

const kit = runtimeKit();

/** A tool that waits for the test and reports when it runs and when it is aborted. */
function waiting(name = 'wait') {
  const started = queue<{ readonly signal: AbortSignal; finish(result: string): void }>();
  const value = tool({
    name,
    description: 'Waits for the test.',
    input: z.object({}),
    run: (_input, { signal }) => {
      const end = deferred<string>();
      started.put({ signal, finish: (result) => end.resolve(result) });
      return end.promise;
    },
  });
  return { value, started };
}

describe.each(MATRIX)('a session, sessions: $sessions, models: $models', (threads) => {
  test('F001: a session without messages is idle and empty, and is not in the list', async () => {
    const runtime = await kit.open({ threads, provider: scripted(['no']) });
    const session = runtime.session('s');
    expect(await session.state()).toEqual({
      state: 'idle',
      status: 'idle',
      mailbox: 0,
      seq: 0,
      children: [],
      usage: { input_tokens: 0, output_tokens: 0 },
    });
    expect(await session.messages()).toEqual([]);
    expect(await session.pending()).toEqual([]);
    expect(await session.viewport()).toEqual([]);
    expect(await session.explain()).toMatchObject({ reason: 'nothing_waits' });
    expect(await session.interrupt()).toBe(false);
    expect(await session.recall(1)).toBe(false);
    expect(await session.delete()).toBe(false);
    expect(await runtime.sessions.list()).toEqual([]);
  });

  test('two handles of one id are the same session; one that names another agent is refused', async () => {
    const agents = [agent({ name: 'one' }), agent({ name: 'other' })];
    const runtime = await kit.open({ threads, agents, provider: scripted(['a', 'b']) });
    await runtime.session('s', 'other').ask('Hi');
    expect(await runtime.session('s').ask('Ho')).toBe('b');
    const refused = runtime.session('s', 'one').ask('Ho');
    await expect(refused).rejects.toBeInstanceOf(ConfigError);
    await expect(refused).rejects.toMatchObject({
      code: 'agent_mismatch',
      message: expect.stringMatching(/"s".*"other".*"one"/u),
      data: { session: 's', agent: 'other', named: 'one' },
    });
    await expect(runtime.session('s', 'one').history.toArray()).rejects.toMatchObject({ code: 'agent_mismatch' });
    expect(await runtime.session('s').messages()).toHaveLength(4);
  });

  test('without an agent a new session needs that exactly one is defined; an existing one is opened', async () => {
    const agents = [agent({ name: 'one' }), agent({ name: 'other' })];
    const runtime = await kit.open({ threads, agents, provider: scripted(['a', 'b']) });
    const refused = runtime.session('s').ask('Hi');
    await expect(refused).rejects.toBeInstanceOf(ConfigError);
    await expect(refused).rejects.toMatchObject({ message: expect.stringContaining('name one of "one", "other"') });
    expect(await runtime.session('s').state()).toMatchObject({ seq: 0 });
    expect(await runtime.sessions.list()).toEqual([]);
    expect(await runtime.session('s', 'other').ask('Hi')).toBe('a');
    expect(await runtime.session('s').ask('Hi')).toBe('b');
  });

  test('state is awaiting, then executing, then idle, with usage', async () => {
    const model = gatedModel();
    const { value, started } = waiting();
    const agents = [agent({ name: 'a', tools: [value] })];
    const session = (await kit.open({ threads, agents, provider: model.provider })).session('s');
    const receipt = await session.send('Hi');
    const call = await model.next();
    expect(await session.state()).toMatchObject({ state: 'awaiting', mailbox: 0 });
    expect(await session.explain()).toMatchObject({ reason: 'waiting_for_model' });
    call.answer({ toolUse: { name: 'wait' }, usage: { input_tokens: 3, output_tokens: 4 } });
    const run = await started.take();
    expect((await session.state()).state).toBe('executing');
    expect(await session.explain()).toMatchObject({
      reason: 'waiting_for_tools',
      detail: expect.stringContaining('wait'),
    });
    run.finish('ok');
    (await model.next()).answer({ text: 'done', usage: { input_tokens: 5, output_tokens: 6 } });
    await receipt.answer();
    expect(await session.state()).toMatchObject({ state: 'idle', usage: { input_tokens: 8, output_tokens: 10 } });
  });

  test('F050, F058: a call and its result are in the log; a tool that throws is answered with class and message', async () => {
    class BrokenPipe extends Error {}
    const broken = tool({
      name: 'broken',
      description: 'Breaks.',
      input: z.object({}),
      run: () => {
        throw new BrokenPipe('no reader');
      },
    });
    const script = [{ toolUse: { name: 'broken', id: 'call_1' } }, 'I see.'];
    const agents = [agent({ name: 'a', tools: [broken] })];
    const session = (await kit.open({ threads, agents, provider: scripted(script) })).session('s');
    expect(await session.ask('Try')).toBe('I see.');
    const [, call, response] = await session.messages();
    expect(call).toMatchObject({ type: 'tool_call', toolUseId: 'call_1', toolName: 'broken', input: {} });
    expect(response).toMatchObject({
      type: 'tool_response',
      toolUseId: 'call_1',
      success: false,
      content: '{"error":"BrokenPipe: no reader"}',
    });
  });

  test('F069, Δ22: interrupt aborts the running tools and answers them with the notice; the session is idle', async () => {
    const model = gatedModel();
    const { value, started } = waiting();
    const agents = [agent({ name: 'a', tools: [value] })];
    const session = (await kit.open({ threads, agents, provider: model.provider })).session('s');
    const receipt = await session.send('Hi');
    (await model.next()).answer({ toolUse: [{ name: 'wait' }, { name: 'wait' }] });
    const runs = [await started.take(), await started.take()];
    expect(await session.interrupt('enough')).toBe(true);
    await expect(receipt.answer()).rejects.toBeInstanceOf(CancelledError);
    await eventually(() => runs.every(({ signal }) => signal.aborted));
    const responses = (await session.messages()).filter(({ type }) => type === 'tool_response');
    expect(responses.map(({ content, success }) => [content, success])).toEqual([
      // Both had started, and may have taken effect.
      [outcomeUnknown(INTERRUPT_NOTICE), false],
      [outcomeUnknown(INTERRUPT_NOTICE), false],
    ]);
    expect(types(await history(session))).toContain('interrupt.acknowledged');
    expect((await session.state()).state).toBe('idle');
    expect(model.calls.length).toBe(1);
  });

  test('F068: interrupt of an idle session does nothing and publishes nothing', async () => {
    const session = (await kit.open({ threads, provider: scripted(['Hello.', 'Still here.']) })).session('s');
    await session.ask('Hi');
    const { seq } = await session.state();
    expect(await session.interrupt()).toBe(false);
    expect((await session.state()).seq).toBe(seq);
    expect(await session.ask('There?')).toBe('Still here.');
  });

  test('pause holds back the next half-step, resume continues; both are idempotent', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ threads, provider: model.provider });
    const session = runtime.session('s');
    await session.pause();
    await session.pause();
    const receipt = await session.send('Hi');
    expect(await session.state()).toMatchObject({ state: 'idle', phase: 'paused', mailbox: 1 });
    expect(await session.explain()).toMatchObject({ reason: 'paused' });
    await runtime.drain();
    expect(model.calls).toEqual([]);
    await session.resume();
    await session.resume();
    (await model.next()).answer('Now.');
    expect(await receipt.answer()).toBe('Now.');
  });

  test('delete removes the session and its descendants; a new one of the same id starts empty', async () => {
    const runtime = await kit.open({ threads, provider: scripted(['Hello.', 'Again.']) });
    const session = runtime.session('s');
    await session.ask('Hi');
    const child = await session.spawn({ task: 'Help' });
    await child.exit();
    const receipt = await session.send('Hi', { deliver: 'turn' });
    expect(await session.delete()).toBe(true);
    expect(await runtime.sessions.list()).toEqual([]);
    expect(await session.messages()).toEqual([]);
    expect(await failure(receipt.status())).toMatchObject({ code: 'unknown_session' });
    await session.send('New');
    expect((await session.messages())[0]).toMatchObject({ seq: 1, content: 'New' });
  });

  test('request returns the body for the current log, equal to the request that the model receives', async () => {
    const model = gatedModel();
    const agents = [agent({ name: 'a', system: 'Be brief.', maxTokens: 77, model: 'claude-haiku-4-5' })];
    const session = (await kit.open({ threads, agents, provider: model.provider })).session('s');
    await session.send('Hi');
    const call = await model.next();
    const body = await session.request();
    expect(JSON.stringify(body)).toBe(JSON.stringify(call.request));
    expect(body).toEqual({
      model: 'claude-haiku-4-5',
      max_tokens: 77,
      system: 'Be brief.',
      messages: [{ role: 'user', content: 'Hi' }],
    });
    call.answer('Yes.');
  });
});

test.each(MATRIX)('what a read returns is a copy: sessions: $sessions, models: $models', async (threads) => {
  const runtime = await kit.open({ threads, provider: scripted(['done']) });
  const session = runtime.session('s');
  await session.ask([{ type: 'text', text: 'one' }]);
  await session.pause();
  await session.send([{ type: 'text', text: 'two' }]);
  const reads: Record<string, () => Promise<unknown>> = {
    messages: () => session.messages(),
    viewport: () => session.viewport(),
    request: () => session.request(),
    pending: () => session.pending(),
    state: () => session.state(),
    history: () => session.history.messages(),
    activeMessages: () => session.history.activeMessages(),
    toApi: () => session.history.toApi(),
    page: () => session.page('viewport'),
  };
  for (const [name, read] of Object.entries(reads)) {
    const found = await read();
    const before = JSON.stringify(found);
    overwriteTexts(found);
    expect(JSON.stringify(await read()), name).toBe(before);
    expect(JSON.stringify(found), name).not.toBe(before);
  }
});

/** Changes every text in a value that was read. */
function overwriteTexts(value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  for (const [key, member] of Object.entries(value)) {
    if (typeof member === 'string') Object.assign(value, { [key]: 'changed' });
    else overwriteTexts(member);
  }
}

test('messages takes after and limit', async () => {
  const session = (await kit.open({ provider: scripted(['1', '2']) })).session('s');
  await session.ask('a');
  await session.ask('b');
  const contents = async (options: object): Promise<readonly unknown[]> =>
    (await session.messages(options)).map(({ content }) => content);
  expect(await contents({})).toEqual(['a', '1', 'b', '2']);
  expect(await contents({ after: 2 })).toEqual(['b', '2']);
  expect(await contents({ after: 1, limit: 2 })).toEqual(['1', 'b']);
  expect(await contents({ after: 9 })).toEqual([]);
});

test('messages includes those evicted from the window, viewport does not', async () => {
  const runtime = await kit.open({
    provider: scripted({ rules: [], otherwise: 'x'.repeat(400) }),
    settings: { llm: { tokenBudget: 500 } },
  });
  const session = runtime.session('s');
  for (let n = 0; n < 10; n += 1) await session.ask(`question ${n}`);
  const all = await session.messages();
  expect(all.map(({ seq }) => seq)).toEqual(Array.from({ length: 20 }, (_, index) => index + 1));
  const shown = await session.viewport();
  expect(shown.length).toBeLessThan(12);
  expect(shown.at(-1)?.seq).toBe(20);
  expect(types(await history(session))).toContain('eviction');
});

test('pending lists entries in drain order: steers before riders', async () => {
  const model = gatedModel();
  const session = (await kit.open({ provider: model.provider })).session('s');
  await session.send('runs');
  await model.next();
  await session.send('later');
  await session.send('sooner', { deliver: 'steer' });
  expect((await session.pending()).map(({ content }) => content)).toEqual(['sooner', 'later']);
});

describe('explain gives exactly one reason', () => {
  test.skipIf(THROUGH_MEMBER)('queued: the limit of working sessions is reached', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ provider: model.provider, limits: { liveSessions: 1 } });
    await runtime.session('one').send('Hi');
    const call = await model.next();
    const second = await runtime.session('two').send('Hi');
    expect(await runtime.session('two').explain()).toMatchObject({ reason: 'queued' });
    expect(runtime.metrics().sessionsQueued).toBe(1);
    call.answer('1');
    (await model.next()).answer('2');
    expect(await second.answer()).toBe('2');
  });

  test('waiting_for_retry with the remaining time, then waiting_for_model', async () => {
    const clock = manualClock();
    const model = gatedModel();
    const runtime = await kit.open({ provider: model.provider, clock, random: () => 0 });
    const session = runtime.session('s');
    await session.send('Hi');
    (await model.next()).answer({ error: { status: 529 } });
    await eventually(async () => (await session.state()).phase === 'retrying');
    expect(await session.explain()).toMatchObject({
      reason: 'waiting_for_retry',
      detail: expect.stringContaining('1 s'),
    });
    await clock.advance(1_000);
    const call = await model.next();
    expect(await session.explain()).toMatchObject({ reason: 'waiting_for_model' });
    expect((await session.state()).phase).toBeUndefined();
    call.answer('ok');
  });

  test('blocked: the credentials were refused', async () => {
    const session = (await kit.open({ provider: scripted([{ error: { status: 401 } }]) })).session('s');
    await failure(session.ask('Hi'));
    expect(await session.explain()).toMatchObject({ reason: 'blocked' });
  });

  test('agent_missing: the store is opened without the agent; once the agent is back the session continues', async () => {
    const directory = await kit.directory();
    const model = gatedModel();
    const agents = [agent({ name: 'gone' })];
    const first = await kit.open({ directory, agents, provider: model.provider });
    const receipt = await first.session('s').send('Hi');
    await model.next();
    await first.close({ deadlineMs: 0 });
    const second = await kit.open({ directory, provider: scripted(['no']) });
    expect(await second.session('s').explain()).toMatchObject({ reason: 'agent_missing' });
    await second.drain();
    await second.close();
    const third = await kit.open({ directory, agents, provider: scripted(['Back.']) });
    expect(await (await third.session('s').receipt(receipt.id)).answer()).toBe('Back.');
  });
});

test.skipIf(THROUGH_MEMBER)('a turn over toolRounds fails with LimitError, and the log stays legal', async () => {
  const think = tool({ name: 'think', description: 'Thinks.', input: z.object({}), run: () => 'hm' });
  const agents = [agent({ name: 'a', tools: [think], toolRounds: 3 })];
  const rules = [{ when: { text: 'stop' }, reply: 'Stopped.' }];
  const provider = scripted({ rules, otherwise: { toolUse: { name: 'think' } } });
  const runtime = await kit.open({ agents, provider });
  const session = runtime.session('s');
  const error = await failure(session.ask('loop'));
  expect(error.cause).toMatchObject({ name: 'LimitError', code: 'limit', data: { limit: 'toolRounds' } });
  expect(runtime.metrics().modelCalls).toBe(3);
  // The scripted model refuses requests that the API would refuse, for example a call without its result.
  expect(await session.ask('stop')).toBe('Stopped.');
  expect((await log(session)).filter((line) => line.startsWith('tool_response')).length).toBe(3);
});

test('a long conversation of many turns is one log in order', async () => {
  const session = (await kit.open({ provider: scripted({ rules: [], otherwise: 'to {{text}}' }) })).session('s');
  const receipts = await Promise.all(Array.from({ length: 50 }, (_, n) => session.send(`m${n}`, { deliver: 'turn' })));
  expect(await Promise.all(receipts.map((receipt) => receipt.answer()))).toEqual(
    Array.from({ length: 50 }, (_, n) => `to m${n}`),
  );
  const events = await collect(session.events({ until: (await session.state()).seq, deltas: false }));
  expect(types(events).filter((type) => type === 'turn.finished').length).toBe(50);
});
