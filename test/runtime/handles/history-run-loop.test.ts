/**
 * The run loop as an embedder uses it: awaited listeners, suspended runs, step limits, guardrails, approvals. Each test
 * runs on the host thread and with session and model threads.
 */
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import {
  agent,
  CancelledError,
  type HistoryMessage,
  type ModelProvider,
  TurnFailedError,
  tool,
} from '../../../src/index.ts';
import { killSessionThread } from '../../../src/runtime/handles/runtime.ts';
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
  types,
} from '../../support/runtime-kit.ts';

const kit = runtimeKit();

/** A tool that records the input of each run. */
function noting(name = 'note', effect: 'once' | 'pure' = 'once') {
  const runs: unknown[] = [];
  const value = tool({
    name,
    description: 'Notes.',
    effect,
    input: z.object({ text: z.string().optional() }),
    run: (input) => {
      runs.push(input);
      return `noted ${runs.length}`;
    },
  });
  return { value, runs };
}

/** The data of an error, as far as tests read it. */
function dataOf(error: unknown): Readonly<Record<string, unknown>> {
  return (error as { readonly data: Readonly<Record<string, unknown>> }).data;
}

describe.each(MATRIX)('the run loop, sessions: $sessions, models: $models', (threads) => {
  test('H27, H28: a listener stops the run at the answer; a message runs the pending call once, before the message itself', async () => {
    const note = noting();
    const agents = [agent({ name: 'a', tools: [note.value] })];
    const model = gatedModel();
    const session = (await kit.open({ threads, agents, provider: model.provider })).session('s');
    const heard: HistoryMessage[] = [];
    let stops = true;
    const same = session.onMessage(
      (message, { interrupt }) => {
        heard.push(message);
        if (message.role === 'assistant' && stops) interrupt('let me look');
      },
      { wait: true },
    );
    expect(same).toBe(session);
    const receipt = await session.send('Go');
    (await model.next()).answer({ text: 'I note.', toolUse: { name: 'note', id: 'call_1' } });
    const error = await failure(receipt.answer());
    expect(error).toBeInstanceOf(CancelledError);
    expect(dataOf(error)).toMatchObject({ reason: 'let me look', content: 'I note.' });
    expect(await receipt.status()).toEqual({ status: 'suspended', reason: 'interrupted' });
    expect(note.runs).toEqual([]);
    expect(await session.state()).toMatchObject({ state: 'idle', phase: 'suspended' });
    expect(await session.explain()).toMatchObject({ reason: 'suspended' });

    stops = false;
    const next = await session.send('Go on');
    const call = await model.next();
    expect(note.runs.length).toBe(1);
    expect(call.request.messages.at(-1)?.content).toMatchObject([
      { type: 'tool_result', tool_use_id: 'call_1', content: 'noted 1' },
      { type: 'text', text: 'Go on' },
    ]);
    call.answer('Done.');
    expect(await next.answer()).toBe('Done.');
    expect(note.runs.length).toBe(1);
    expect(heard.map(({ role }) => role)).toEqual(['assistant', 'tool', 'assistant']);
    expect((await log(session)).slice(-3)).toEqual([
      'tool_response:noted 1',
      'user_message:Go on',
      'agent_message:Done.',
    ]);
  });

  test('a listener is awaited: nothing starts meanwhile, and its message is durable; later it is not called', async () => {
    const note = noting();
    const agents = [agent({ name: 'a', tools: [note.value] })];
    const script = [{ toolUse: { name: 'note' } }, 'Done.', 'Again.'];
    const session = (await kit.open({ threads, agents, provider: scripted(script) })).session('s');
    const asked = queue<{ readonly message: HistoryMessage; readonly go: () => void }>();
    const leave = new AbortController();
    session.onMessage(
      async (message) => {
        const end = deferred();
        asked.put({ message, go: () => end.resolve() });
        await end.promise;
      },
      { wait: true, signal: leave.signal },
    );
    const receipt = await session.send('Go');
    const first = await asked.take();
    expect(first.message).toMatchObject({ role: 'assistant', toolCalls: [{ name: 'note', arguments: '{}' }] });
    expect(await session.explain()).toMatchObject({ reason: 'waiting_for_listener' });
    expect((await session.messages()).map(({ type }) => type)).toEqual(['user_message', 'tool_call']);
    expect(note.runs).toEqual([]);
    first.go();
    const second = await asked.take();
    expect(second.message).toMatchObject({ role: 'tool', content: 'noted 1' });
    second.go();
    (await asked.take()).go();
    expect(await receipt.answer()).toBe('Done.');
    leave.abort();
    expect(await session.ask('More')).toBe('Again.');
  });

  test('a listener that throws fails the turn, and the message stays', async () => {
    const session = (await kit.open({ threads, provider: scripted(['Hello.', 'Fine.']) })).session('s');
    const leave = new AbortController();
    const boom = (): void => {
      throw new Error('no ears');
    };
    session.onMessage(boom, { wait: true, signal: leave.signal });
    const error = await failure(session.ask('Hi'));
    expect(error).toBeInstanceOf(TurnFailedError);
    expect(error.message).toContain('no ears');
    expect(await log(session)).toContain('agent_message:Hello.');
    leave.abort();
    expect(await session.ask('Again')).toBe('Fine.');
  });

  test('onMessage without a function is refused', async () => {
    const session = (await kit.open({ threads, provider: scripted(['Hello.']) })).session('s');
    expect(() => session.onMessage(undefined as never, { wait: true })).toThrow(
      expect.objectContaining({ code: 'callback_required' }),
    );
  });

  test('H29, H30: the step limit leaves calls pending; a text at the limit completes; a user turn gets the whole limit again', async () => {
    const note = noting();
    const agents = [agent({ name: 'a', tools: [note.value], maxSteps: 1 })];
    const use = { text: 'Noting.', toolUse: { name: 'note' } };
    const session = (await kit.open({ threads, agents, provider: scripted([use, use, 'Done.']) })).session('s');
    const error = await failure(session.ask('Go'));
    expect(error).toBeInstanceOf(TurnFailedError);
    expect(error.code).toBe('limit');
    expect(dataOf(error)).toMatchObject({ reason: 'max_steps', content: 'Noting.' });
    expect(note.runs.length).toBe(0);
    expect((await failure(session.ask('More'))).code).toBe('limit');
    expect(note.runs.length).toBe(1);
    expect(await session.ask('And more')).toBe('Done.');
    expect(note.runs.length).toBe(2);
    const finished = (await history(session)).filter(({ type }) => type === 'turn.finished');
    expect(finished).toMatchObject([
      { reason: 'max_steps', outcome: 'max_steps' },
      { reason: 'max_steps', outcome: 'max_steps' },
      { reason: 'end_turn' },
    ]);
  });

  test('H30: a resume without a message continues: pending calls, then the model', async () => {
    const note = noting();
    const agents = [agent({ name: 'a', tools: [note.value], maxSteps: 1 })];
    const runtime = await kit.open({ threads, agents, provider: scripted([{ toolUse: { name: 'note' } }, 'Done.']) });
    const session = runtime.session('s');
    await failure(session.ask('Go'));
    await session.resume();
    await runtime.drain();
    expect(note.runs.length).toBe(1);
    expect(await log(session)).toEqual([
      'user_message:Go',
      'tool_call:Calling note',
      'tool_response:noted 1',
      'agent_message:Done.',
    ]);
    expect((await session.state()).phase).toBeUndefined();
  });

  test('H31: a reply blocked by a guardrail is absent from the history, but its usage counts', async () => {
    const agents = [
      agent({
        name: 'a',
        guardrails: { after: [({ message }) => (message.content.includes('bomb') ? { block: 'unsafe' } : 'pass')] },
      }),
    ];
    const usage = { input_tokens: 7, output_tokens: 3 };
    const script = [
      { text: 'A bomb.', usage },
      { text: 'A cake.', usage },
    ];
    const session = (await kit.open({ threads, agents, provider: scripted(script) })).session('s');
    const error = await failure(session.ask('How?'));
    expect(error).toBeInstanceOf(TurnFailedError);
    expect(dataOf(error)).toMatchObject({ reason: 'guardrail' });
    expect(await log(session)).toEqual(['user_message:How?']);
    expect((await session.state()).usage).toMatchObject(usage);
    expect(await session.ask('What else?')).toBe('A cake.');
    expect(JSON.stringify(await history(session))).not.toContain('bomb');
  });

  test('guardrails run in order, each on the result of the previous one; a block prevents the call', async () => {
    const shown: string[] = [];
    const model = gatedModel();
    const hide = (text: string): string => text.replaceAll(/\d/g, '#');
    const agents = [
      agent({
        name: 'a',
        guardrails: {
          before: [
            ({ messages }) => ({
              transform: messages.map((message) =>
                message.role === 'user' && typeof message.content === 'string'
                  ? { ...message, content: hide(message.content) }
                  : message,
              ),
            }),
            ({ messages }) => {
              const last = messages.at(-1);
              shown.push(String(last?.content));
              return String(last?.content).includes('forbidden') ? { block: 'not that' } : undefined;
            },
          ],
          after: [({ message }) => ({ transform: { ...message, content: message.content.toUpperCase() } })],
        },
      }),
    ];
    const session = (await kit.open({ threads, agents, provider: model.provider })).session('s');
    const receipt = await session.send('My number is 42');
    const call = await model.next();
    expect(call.request.messages).toEqual([{ role: 'user', content: 'My number is ##' }]);
    call.answer('Noted.');
    expect(await receipt.answer()).toBe('NOTED.');
    expect(await log(session)).toEqual(['user_message:My number is ##', 'agent_message:NOTED.']);
    const error = await failure(session.ask('forbidden'));
    expect(dataOf(error)).toMatchObject({ reason: 'guardrail' });
    expect(model.calls.length).toBe(1);
    expect(await log(session)).toContain('user_message:forbidden');
    expect(shown).toEqual(['My number is ##', 'forbidden']);
  });

  test.each([
    ['throws', () => Promise.reject(new Error('broken guard')), 'broken guard'],
    ['returns what is no verdict', () => 'maybe' as never, 'a guardrail must return'],
    ['makes what is no message', () => ({ transform: { role: 'user', content: 'x' } }) as never, 'assistant message'],
    [
      'makes what cannot be stored',
      ({ message }: { message: object }) => ({ transform: { ...message, f: () => 1 } }) as never,
      'cannot be stored',
    ],
  ])('a guardrail that %s fails the turn', async (_what, guard, words) => {
    const agents = [agent({ name: 'a', guardrails: { after: [guard] } })];
    const session = (await kit.open({ threads, agents, provider: scripted(['Hello.']) })).session('s');
    const error = await failure(session.ask('Hi'));
    expect(error).toBeInstanceOf(TurnFailedError);
    expect(error.message).toContain(words);
    expect(await log(session)).not.toContain('agent_message:Hello.');
  });

  test('a call waits for an approval while others run; if allowed with another input, it runs with that input', async () => {
    const risky = noting('risky');
    const safe = noting('safe');
    const agents = [agent({ name: 'a', tools: [risky.value, safe.value], approve: ['risky'] })];
    const toolUse = [
      { name: 'risky', id: 'r', input: { text: 'all' } },
      { name: 'safe', id: 's' },
    ];
    const runtime = await kit.open({ threads, agents, provider: scripted([{ toolUse }, 'Done.']) });
    const session = runtime.session('s');
    const receipt = await session.send('Go');
    const [required] = await collect(
      session.events({ until: (event) => event.type === 'approval.required', deltas: false }),
    ).then((events) => events.slice(-1));
    expect(required).toMatchObject({ toolUseId: 'r', toolName: 'risky', input: { text: 'all' } });
    await eventually(() => safe.runs.length === 1);
    // A session that waits for an approval is not running.
    await runtime.drain();
    expect(await session.state()).toMatchObject({ state: 'executing', phase: 'approval' });
    expect(await session.explain()).toMatchObject({ reason: 'waiting_for_approval' });
    expect(risky.runs).toEqual([]);
    expect(await session.approve('r', { allow: true, input: { text: 'a little' } })).toBe(true);
    expect(await session.approve('r', { allow: true })).toBe(true);
    expect(await session.approve('r', { allow: false })).toBe(false);
    expect(await receipt.answer()).toBe('Done.');
    expect(risky.runs).toEqual([{ text: 'a little' }]);
  });

  test('H61: a denial answers the call with its reason and denies the other waiting calls; results keep call order', async () => {
    const risky = noting('risky');
    const safe = noting('safe');
    const agents = [agent({ name: 'a', tools: [risky.value, safe.value], approve: ({ name }) => name === 'risky' })];
    const model = gatedModel();
    const session = (await kit.open({ threads, agents, provider: model.provider })).session('s');
    const receipt = await session.send('Go');
    const toolUse = [
      { name: 'risky', id: 'r1' },
      { name: 'safe', id: 's1' },
      { name: 'risky', id: 'r2' },
    ];
    (await model.next()).answer({ toolUse });
    await eventually(async () => (await session.state()).phase === 'approval');
    expect(await session.approve('r2', { allow: false, reason: 'too much' })).toBe(true);
    const call = await model.next();
    expect(call.request.messages.at(-1)?.content).toMatchObject([
      { tool_use_id: 'r1', is_error: true, content: expect.stringContaining('denied another call') },
      { tool_use_id: 's1', content: 'noted 1' },
      { tool_use_id: 'r2', is_error: true, content: expect.stringContaining('too much') },
    ]);
    call.answer('I see.');
    expect(await receipt.answer()).toBe('I see.');
    expect(risky.runs).toEqual([]);
  });

  test('a changed input that the schema refuses is answered with the error, and does not run', async () => {
    const risky = noting('risky');
    const agents = [agent({ name: 'a', tools: [risky.value], approve: ['risky'] })];
    const script = [{ toolUse: { name: 'risky', id: 'r' } }, 'I see.'];
    const session = (await kit.open({ threads, agents, provider: scripted(script) })).session('s');
    const receipt = await session.send('Go');
    await eventually(async () => (await session.state()).phase === 'approval');
    expect(await session.approve('r', { allow: true, input: { text: 5 } })).toBe(true);
    expect(await receipt.answer()).toBe('I see.');
    expect(risky.runs).toEqual([]);
    expect((await session.messages())[2]).toMatchObject({ type: 'tool_response', success: false });
  });

  test('an approval survives a crash: it keeps waiting and is decided once', async () => {
    const directory = await kit.directory();
    const risky = noting('risky');
    const agents = [agent({ name: 'a', tools: [risky.value], approve: ['risky'] })];
    const script = [{ toolUse: { name: 'risky', id: 'r' } }, 'Done.'];
    const first = await kit.open({ threads, directory, agents, provider: scripted(script) });
    const receipt = await first.session('s').send('Go');
    await eventually(async () => (await first.session('s').state()).phase === 'approval');
    const copy = await kit.crashed(directory);

    const model = gatedModel();
    const second = await kit.open({ threads, directory: copy, agents, provider: model.provider });
    const session = second.session('s');
    expect(await session.state()).toMatchObject({ state: 'executing', phase: 'approval' });
    expect(types(await history(session)).filter((type) => type === 'approval.required')).toHaveLength(1);
    expect(await session.approve('r', { allow: true })).toBe(true);
    (await model.next()).answer('Done.');
    expect(await (await session.receipt(receipt.id)).answer()).toBe('Done.');
    expect(risky.runs.length).toBe(1);
  });

  test('an approval that is never decided expires, also after a restart: its deadline counts from when it began', async () => {
    const directory = await kit.directory();
    const risky = noting('risky');
    const agents = [agent({ name: 'a', tools: [risky.value], approve: ['risky'] })];
    const settings = { approvals: { expiresMs: 60_000 } };
    const clock = manualClock();
    const model = gatedModel();
    const options = { threads: { sessions: 0, models: 0 }, agents, provider: model.provider, settings, clock };
    const first = await kit.open({ ...options, directory });
    await first.session('s').send('Go');
    (await model.next()).answer({ toolUse: { name: 'risky', id: 'r' } });
    await eventually(async () => (await first.session('s').state()).phase === 'approval');
    await clock.advance(59_000);
    expect((await first.session('s').explain()).detail).toContain('denied at');
    await first.close();
    const second = await kit.open({ ...options, directory });
    expect(await second.session('s').state()).toMatchObject({ phase: 'approval' });
    await clock.advance(1_000);
    const call = await model.next();
    expect(JSON.stringify(call.request)).toContain('nobody decided within 60 seconds');
    call.answer('Then not.');
    await second.drain();
    expect(risky.runs).toEqual([]);
  });

  test('with onInput deny, a message sent while an approval waits is read next', async () => {
    const risky = noting('risky');
    const agents = [agent({ name: 'a', tools: [risky.value], approve: ['risky'] })];
    const model = gatedModel();
    const settings = { approvals: { onInput: 'deny' as const } };
    const runtime = await kit.open({ threads, agents, provider: model.provider, settings });
    const session = runtime.session('s');
    await session.send('Go');
    (await model.next()).answer({ toolUse: { name: 'risky', id: 'r' } });
    await eventually(async () => (await session.state()).phase === 'approval');
    const receipt = await session.send('Never mind');
    (await model.next()).answer('As you wish.');
    expect(await receipt.answer()).toBe('As you wish.');
    expect(risky.runs).toEqual([]);
    expect(await session.approve('r', { allow: true })).toBe(false);
  });

  test('a suspended run survives a crash, and its receipt reports its outcome', async () => {
    const directory = await kit.directory();
    const note = noting();
    const agents = [agent({ name: 'a', tools: [note.value], maxSteps: 1 })];
    const script = [{ text: 'Noting.', toolUse: { name: 'note', id: 'n' } }];
    const first = await kit.open({ threads, directory, agents, provider: scripted(script) });
    const receipt = await first.session('s').send('Go');
    await failure(receipt.answer());
    const copy = await kit.crashed(directory);

    const model = gatedModel();
    const second = await kit.open({ threads, directory: copy, agents, provider: model.provider });
    const session = second.session('s');
    expect(await session.state()).toMatchObject({ state: 'idle', phase: 'suspended' });
    expect((await failure((await session.receipt(receipt.id)).answer())).code).toBe('limit');
    expect(model.calls.length).toBe(0);
    await session.resume();
    (await model.next()).answer('Done.');
    await second.drain();
    expect(note.runs.length).toBe(1);
    expect((await log(session)).at(-1)).toBe('agent_message:Done.');
  });

  test('H32: a model that fails in the middle of an answer leaves no answer; the message stays', async () => {
    const provider: ModelProvider = {
      name: 'dying',
      generate: (_request, { onDelta }) => {
        onDelta({ type: 'text', text: 'Half an' });
        return Promise.reject(new Error('the stream broke'));
      },
    };
    const session = (await kit.open({ threads, provider })).session('s');
    await failure(session.ask('Go'));
    const lines = await log(session);
    expect(lines[0]).toBe('user_message:Go');
    expect(lines.filter((line) => line.startsWith('agent_message'))).toEqual([]);
  });

  test('H59: a failed turn is shown, and removed when the next one starts', async () => {
    const settings = { recovery: { rollbackFailed: true } };
    const script = ['Uno.', { error: { status: 400, message: 'refused' } }, 'Dos.'];
    const session = (await kit.open({ threads, settings, provider: scripted(script) })).session('s');
    await session.ask('one');
    await failure(session.ask('bad'));
    expect(await log(session)).toContain('user_message:bad');
    expect(await session.ask('two')).toBe('Dos.');
    expect(await log(session)).not.toContain('user_message:bad');
    const told = (await history(session)).filter(({ type }) => type === 'session.rollback');
    expect(told).toMatchObject([{ index: 2, reason: expect.stringContaining('refused') }]);
  });
});

test('a listener whose session thread died is called again, and nothing starts meanwhile', async () => {
  const note = noting();
  const model = gatedModel();
  const runtime = await kit.open({
    directory: await kit.directory(),
    threads: { sessions: 1, models: 1 },
    agents: [agent({ name: 'a', tools: [note.value] })],
    provider: model.provider,
  });
  const session = runtime.session('s');
  const asked = queue<{ readonly role: string; readonly go: () => void }>();
  session.onMessage(
    async ({ role }) => {
      const end = deferred();
      asked.put({ role, go: () => end.resolve() });
      await end.promise;
    },
    { wait: true },
  );
  const receipt = await session.send('Go');
  (await model.next()).answer({ toolUse: { name: 'note' } });
  const lost = await asked.take();
  await killSessionThread(runtime, 0);
  const again = await asked.take();
  expect([lost.role, again.role]).toEqual(['assistant', 'assistant']);
  expect(note.runs).toEqual([]);
  again.go();
  (await asked.take()).go();
  expect(note.runs.length).toBe(1);
  (await model.next()).answer('Done.');
  (await asked.take()).go();
  expect(await receipt.answer()).toBe('Done.');
});

describe('options of the run loop', () => {
  test('approve for an unknown tool, and bad values, are refused', async () => {
    const agents = [agent({ name: 'a', approve: ['nothing'] })];
    await expect(kit.open({ agents, provider: scripted(['x']) })).rejects.toThrow(/approve names "nothing"/);
    expect(() => agent({ name: 'a', maxSteps: 0 })).toThrow(/maxSteps/);
    expect(() => agent({ name: 'a', guardrails: { before: ['x' as never] } })).toThrow(/guardrails/);
    expect(() => agent({ name: 'a', approve: 5 as never })).toThrow(/approve/);
    expect(agent({ name: 'a', maxSteps: null }).maxSteps).toBeNull();
  });
});
