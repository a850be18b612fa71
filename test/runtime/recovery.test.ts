import { type ChildProcess, spawn } from 'node:child_process';
import { appendFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { agent, type Effect, type Runtime, tool } from '../../src/index.ts';
import { OUTCOME_UNKNOWN } from '../../src/session/rules/tool-texts.ts';
import { manualClock } from '../../src/testing/manual-clock.ts';
import { scripted } from '../../src/testing/scripted.ts';
import {
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
} from '../support/runtime-kit.ts';

const kit = runtimeKit();

describe.each(MATRIX)('after a crash, sessions: $sessions, models: $models', (threads) => {
  test('F010, A10: a model call in flight is made again, with the same bytes and without promotion', async () => {
    const directory = await kit.directory();
    const before = gatedModel();
    const first = await kit.open({ threads, directory, provider: before.provider });
    const receipt = await first.session('s').send('Hi');
    const lost = await before.next();
    await first.session('s').send('waits');
    const copy = await kit.crashed(directory);

    const after = gatedModel();
    const second = await kit.open({ threads, directory: copy, provider: after.provider });
    const again = await after.next();
    expect(JSON.stringify(again.request)).toBe(JSON.stringify(lost.request));
    const session = second.session('s');
    expect((await session.pending()).map(({ content }) => content)).toEqual(['waits']);
    again.answer('Hello.');
    expect(await (await session.receipt(receipt.id)).answer()).toBe('Hello.');
    expect(types(await history(session))).toContain('session.recovered');
    (await after.next()).answer('Late.');
    await second.drain();
    expect(after.calls.length).toBe(2);
  });

  test('F011, A10: running tools end according to their effect; finished tools are not run again', async () => {
    const directory = await kit.directory();
    const calls = [
      ['pure', {}],
      ['keyed', {}],
      ['once', {}],
      ['probe', { known: true }],
      ['probe', { known: false }],
      ['quick', {}],
    ] as const;
    const toolUse = calls.map(([name, input], index) => ({ name, input, id: `call_${index}` }));

    const before = effectTools(() => new Promise(() => undefined));
    const agents = [agent({ name: 'a', tools: before.tools })];
    const first = await kit.open({ threads, directory, agents, provider: scripted([{ toolUse }]) });
    const receipt = await first.session('s').send('Go');
    await eventually(() => before.runs.length === 6);
    await eventually(async () => (await first.session('s').pending()).length === 1);
    const copy = await kit.crashed(directory);

    const model = gatedModel();
    const after = effectTools(async ({ name }) => `${name} ran`);
    const second = await kit.open({
      threads,
      directory: copy,
      agents: [agent({ name: 'a', tools: after.tools })],
      provider: model.provider,
    });
    const call = await model.next();
    expect(after.runs.map(({ name }) => name).sort()).toEqual(['keyed', 'probe', 'pure']);
    for (const run of after.runs) expect(before.runs.find(({ callId }) => callId === run.callId)?.key).toBe(run.key);
    const results = call.request.messages.at(-1)?.content;
    expect(results).toMatchObject([
      { tool_use_id: 'call_0', content: 'pure ran' },
      { tool_use_id: 'call_1', content: 'keyed ran' },
      { tool_use_id: 'call_2', content: OUTCOME_UNKNOWN, is_error: true },
      { tool_use_id: 'call_3', content: 'it happened' },
      { tool_use_id: 'call_4', content: 'probe ran' },
      { tool_use_id: 'call_5', content: 'quick ran' },
    ]);
    call.answer('Done.');
    const session = second.session('s');
    expect(await (await session.receipt(receipt.id)).answer()).toBe('Done.');
    const recovered = (await history(session)).find(({ type }) => type === 'session.recovered');
    expect(recovered).toMatchObject({
      redone: ['call_0', 'call_1', 'call_3', 'call_4'],
      synthesized: ['call_2'],
    });
    expect(model.calls.length).toBe(1);
  });

  test('F04: a child interrupted in its task continues, and its parent has the reply exactly once', async () => {
    const directory = await kit.directory();
    const before = gatedModel();
    const first = await kit.open({ threads, directory, provider: before.provider });
    const child = await first.session('p').spawn({ task: 'Look', name: 'scout' });
    await before.next();
    await child.state();
    const copy = await kit.crashed(directory);

    const rules = [{ when: { system: 'You are scout' }, reply: 'Seen.' }];
    const second = await kit.open({
      threads,
      directory: copy,
      provider: scripted({ rules, otherwise: 'Thanks.' }),
    });
    expect(await (await second.session('p').child(child.id)).reply()).toBe('Seen.');
    await second.drain();
    expect(await log(second.session('p'))).toEqual([
      'tool_call:[sub-agent scout]: Seen.',
      'tool_response:Seen.',
      'agent_message:Thanks.',
    ]);
  });

  test('a paused session stays paused, a blocked one stays blocked', async () => {
    const directory = await kit.directory();
    const refusing = scripted([{ error: { status: 401, message: 'bad key' } }]);
    const first = await kit.open({ threads, directory, provider: refusing });
    await first.session('paused').pause();
    await first.session('paused').send('Hi');
    await failure(first.session('blocked').ask('Hi'));
    await first.session('blocked').send('waits');
    const copy = await kit.crashed(directory);

    const provider = scripted({ rules: [], otherwise: 'to {{text}}' });
    const second = await kit.open({ threads, directory: copy, provider });
    await second.drain();
    expect(await second.session('paused').explain()).toMatchObject({ reason: 'paused' });
    expect((await second.session('blocked').state()).blocked).toMatchObject({ code: 'model_authentication' });
    expect(second.metrics().modelCalls).toBe(0);
    await second.session('paused').resume();
    await second.resume();
    await second.drain();
    expect((await log(second.session('paused'))).at(-1)).toBe('agent_message:to Hi');
    expect((await log(second.session('blocked'))).at(-1)).toMatch(/^agent_message:.*waits$/su);
  });
});

test('a waiting retry waits for the remaining time', async () => {
  const directory = await kit.directory();
  const model = gatedModel();
  const clock = manualClock();
  const first = await kit.open({ directory, provider: model.provider, clock, random: () => 0 });
  await first.session('s').send('Hi');
  (await model.next()).answer({ error: { status: 529 } });
  await eventually(async () => (await first.session('s').state()).phase === 'retrying');
  const copy = await kit.crashed(directory);

  const later = manualClock(clock.now() + 400);
  const after = gatedModel();
  const second = await kit.open({ directory: copy, provider: after.provider, clock: later, random: () => 0 });
  await eventually(async () => (await second.session('s').explain()).reason === 'waiting_for_retry');
  await later.advance(599);
  expect(after.calls).toEqual([]);
  await later.advance(1);
  (await after.next()).answer('At last.');
  await second.drain();
  expect((await log(second.session('s'))).at(-1)).toBe('agent_message:At last.');
});

test('settings.recovery.resumeAwaiting: false fails the lost call instead of making it again', async () => {
  const directory = await kit.directory();
  const model = gatedModel();
  const first = await kit.open({ directory, provider: model.provider });
  const receipt = await first.session('s').send('Hi');
  await model.next();
  const copy = await kit.crashed(directory);
  const settings = { recovery: { resumeAwaiting: false } };
  const second = await kit.open({ directory: copy, provider: scripted(['no']), settings });
  await expect((await second.session('s').receipt(receipt.id)).answer()).rejects.toMatchObject({ code: 'turn_failed' });
  expect(second.metrics().modelCalls).toBe(0);
});

test('a half-step that a message of the family begins during a restart is not taken for a lost one', async () => {
  const directory = await kit.directory();
  const before = gatedModel();
  const first = await kit.open({ directory, provider: before.provider });
  await first.session('p').spawn({ task: 'Look', name: 'scout' });
  await before.next();
  await first.close({ deadlineMs: 0 });
  const between = gatedModel();
  const second = await kit.open({ directory, provider: between.provider });
  const childCall = await between.next();
  const receipt = await second.session('p').send('Hi');
  (await between.next()).answer('Hello.');
  await receipt.answer();
  const copy = await kit.crashed(directory);
  childCall.answer('Seen.');

  // The child resumes before its parent, and fails at once. The parent's half-step for that message begins in the same
  // transition, before the parent has resumed. In strict mode its call is not out before the flush.
  const settings = { recovery: { resumeAwaiting: false } };
  const third = await kit.open({ directory: copy, provider: scripted(['I see.']), settings, durability: 'strict' });
  await third.drain();
  const parent = third.session('p');
  expect((await log(parent)).at(-1)).toBe('agent_message:I see.');
  expect(types(await history(parent))).not.toContain('session.recovered');
  expect(third.metrics().modelCalls).toBe(1);
});

test('many interrupted sessions resume by themselves, each once, also those sent a message at once', async () => {
  const directory = await kit.directory();
  const model = gatedModel();
  const first = await kit.open({ directory, provider: model.provider });
  const ids = Array.from({ length: 150 }, (_, n) => `s${n}`);
  await Promise.all(ids.map((id) => first.session(id).send('Hi')));
  for (const _ of ids) await model.next();
  await first.session('s0').state();
  const copy = await kit.crashed(directory);

  const after = gatedModel();
  const second = await kit.open({ directory: copy, provider: after.provider });
  const sends = Promise.all(ids.map((id) => second.session(id).send('more', { deliver: 'turn' })));
  for (let call = 0; call < 2 * ids.length; call += 1) {
    const { request, answer } = await after.next();
    answer(String(request.messages.filter(({ role }) => role === 'user').length));
  }
  await sends;
  await second.drain();
  expect(after.calls.length).toBe(300);
  for (const id of ids) {
    expect(await log(second.session(id))).toEqual([
      'user_message:Hi',
      'agent_message:1',
      'user_message:more',
      'agent_message:2',
    ]);
  }
});

test('a second crash during recovery loses none of the interrupted sessions', async () => {
  const directory = await kit.directory();
  const model = gatedModel();
  const first = await kit.open({ directory, provider: model.provider });
  const ids = Array.from({ length: 200 }, (_, n) => `s${n}`);
  await Promise.all(ids.map((id) => first.session(id).send('Hi')));
  for (const _ of ids) await model.next();
  await first.session('s0').state();
  const copy = await kit.crashed(directory);

  // The runtime closes before the second slice is read. A checkpoint must not leave out the rest.
  const second = await kit.open({ directory: copy, provider: gatedModel().provider });
  await second.close({ deadlineMs: 0 });
  const third = await kit.open({ directory: copy, provider: scripted(['Hello.', 'Hello.']) });
  await third.drain();
  const idle = await third.sessions.list({ state: 'idle' });
  expect(idle.length).toBe(200);
});

test('sessions.list right after a crash has the true states', async () => {
  const directory = await kit.directory();
  const model = gatedModel();
  const first = await kit.open({ directory, provider: model.provider });
  await first.session('s').send('Hi');
  await model.next();
  await first.session('s').state();
  const copy = await kit.crashed(directory);
  const second = await kit.open({ directory: copy, provider: gatedModel().provider });
  expect(await second.sessions.list()).toMatchObject([{ id: 's', state: 'awaiting' }]);
});

describe('a process killed with SIGKILL', () => {
  test('F01, F02, F10: acknowledged messages are there, finished work is not repeated, the lock is taken over', async () => {
    const directory = await kit.directory();
    const notes = join(directory, 'notes');
    await appendFile(notes, '');
    const [victim, lines] = start(directory, notes);
    for (let line = await lines.take(); line !== 'executing'; line = await lines.take());
    const ended = new Promise((resolve) => victim.once('exit', resolve));
    victim.kill('SIGKILL');
    await ended;
    expect(await readFile(notes, 'utf8')).toBe('first\nsecond\n');

    const hang = { ...note(notes), run: () => 'not run again' };
    const model = gatedModel();
    const runtime = await kit.open({
      directory,
      agents: [agent({ name: 'a', tools: [hang] })],
      provider: model.provider,
    });
    const call = await model.next();
    expect(call.request.messages.at(-1)?.content).toMatchObject([{ content: OUTCOME_UNKNOWN, is_error: true }]);
    call.answer('Recovered.');
    await runtime.drain();
    expect(await readFile(notes, 'utf8')).toBe('first\nsecond\n');
    expect((await log(runtime.session('s'))).filter((line) => !line.startsWith('tool'))).toEqual([
      'user_message:Write twice',
      'agent_message:Recovered.',
    ]);
    await expectWhole(runtime);
  });
});

async function expectWhole(runtime: Runtime): Promise<void> {
  const events = await history(runtime.session('s'));
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
}

function note(file: string) {
  return tool({
    name: 'note',
    description: 'Appends a line.',
    input: z.object({ line: z.string() }),
    run: async ({ line }) => {
      await appendFile(file, `${line}\n`);
    },
  });
}

/** A process that runs a turn of two tool calls and reports its progress. The first call ends, the second does not. */
function start(directory: string, notes: string) {
  const victim: ChildProcess = spawn(
    process.execPath,
    [
      '--import',
      new URL('../loader/register.mjs', import.meta.url).href,
      new URL('fixtures/crashing-process.ts', import.meta.url).pathname,
      directory,
      notes,
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const lines = queue<string>();
  victim.stdout?.on('data', (data: Buffer) => {
    for (const line of String(data).trim().split('\n')) lines.put(line);
  });
  return [victim, lines] as const;
}

interface Run {
  readonly name: string;
  readonly callId: string;
  readonly key: string;
}

/** One tool of each effect, and one that ends at once; `run` is the body of the others. */
function effectTools(run: (run: Run) => Promise<unknown>) {
  const runs: Run[] = [];
  const make = (name: string, effect: Effect, act: (run: Run) => unknown) =>
    tool({
      name,
      description: `A tool of effect ${effect}.`,
      input: z.object({ known: z.boolean().optional() }),
      effect,
      run: (_input, { callId, key }) => {
        runs.push({ name, callId, key });
        return act({ name, callId, key });
      },
      probe: ({ input }) => (input.known === true ? 'it happened' : undefined),
    });
  const effects: readonly Effect[] = ['pure', 'keyed', 'once', 'probe'];
  const tools = [...effects.map((effect) => make(effect, effect, run)), make('quick', 'once', () => 'quick ran')];
  return { tools, runs };
}

test('a running tool is aborted when its session is deleted', async () => {
  const started = deferred<AbortSignal>();
  const hang = tool({
    name: 'hang',
    description: 'Hangs.',
    input: z.object({}),
    run: (_input, { signal }) => {
      started.resolve(signal);
      return new Promise(() => undefined);
    },
  });
  const runtime = await kit.open({
    agents: [agent({ name: 'a', tools: [hang] })],
    provider: scripted([{ toolUse: { name: 'hang' } }]),
  });
  await runtime.session('s').send('Go');
  const signal = await started.promise;
  await runtime.session('s').delete();
  await eventually(() => signal.aborted);
  await runtime.drain();
});
