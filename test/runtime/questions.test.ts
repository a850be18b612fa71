/** Questions of the model to a person and to a parent, at the public API. */
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { agent, ConfigError, ContentError, InvalidArgumentError, LimitError, type Session } from '../../src/index.ts';
import type { ModelProvider } from '../../src/models/provider.ts';
import type { Reply } from '../../src/models/script/script.ts';
import { manualClock, scripted } from '../../src/testing/index.ts';
import { askHuman, askParent, spawn_subagent } from '../../src/tools/built-in/index.ts';
import { eventually, failure, gatedModel, log, MATRIX, runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();

const trip = z.object({ city: z.string(), days: z.number().int().min(1) });
const ask = (name: string, question: string, extra: object = {}): Reply => ({
  toolUse: { name, input: { question, ...extra } },
});
/** A model that plays replies for each session. */
function played(replies: Readonly<Record<string, readonly Reply[]>>): ModelProvider {
  const calls = new Map<string, number>();
  return scripted((_request, { session }) => {
    const call = calls.get(session) ?? 0;
    calls.set(session, call + 1);
    return replies[session]?.[call] ?? 'nothing left';
  }) as ModelProvider;
}

/** The id of the call that asks; waits until it does. */
async function asked(session: Session<unknown>): Promise<string> {
  for await (const event of session.events()) if (event.type === 'question.asked') return event.toolUseId;
  throw new Error('nothing was asked');
}

describe.each(MATRIX)('sessions: $sessions, models: $models', (threads) => {
  test('a question with a schema is answered after a restart with another agent; a misfit changes nothing', async () => {
    const directory = await kit.directory();
    const agents = [agent({ name: 'guide', tools: [askHuman({ answer: trip, description: 'Asks.' })] })];
    const first = await kit.open({ directory, threads, agents, provider: played({ s: [ask('ask_human', 'Where?')] }) });
    const session = first.session('s');
    await session.send('plan');
    const callId = await asked(session);
    expect(await session.state()).toMatchObject({ state: 'executing', phase: 'question' });
    expect(await session.explain()).toMatchObject({ reason: 'waiting_for_answer' });
    await first.drain();
    await first.close();
    const again = await kit.open({
      directory,
      threads,
      agents: [agent({ name: 'guide' })],
      provider: played({ s: ['Ulm it is.'] }),
    });
    const same = again.session('s');
    const misfit = await failure(same.answer(callId, { city: 'Ulm', days: 0 }));
    expect(misfit).toBeInstanceOf(ContentError);
    expect(misfit.message).toMatch(/\$\.days.*decline\(\)/s);
    expect(await failure(same.answer(callId, () => 1))).toBeInstanceOf(ContentError);
    expect(await same.state()).toMatchObject({ phase: 'question' });
    expect(await failure(same.approve(callId, { allow: true }))).toBeInstanceOf(InvalidArgumentError);
    expect(await same.answer(callId, { days: 2, city: 'Ulm' })).toBe(true);
    expect(await same.answer(callId, { city: 'Ulm', days: 2 })).toBe(true);
    expect(await same.answer(callId, { city: 'Bonn', days: 2 })).toBe(false);
    expect(await same.decline(callId)).toBe(false);
    await again.drain();
    expect(await log(same)).toContain('tool_response:{"days":2,"city":"Ulm"}');
    expect((await same.messages()).at(-1)?.content).toBe('Ulm it is.');
  });

  test('a child asks the parent that spawned it, whose model answers with its name', async () => {
    const runtime = await kit.open({
      threads,
      agents: [agent({ name: 'a', tools: [spawn_subagent, askParent()] })],
      provider: scripted(({ messages }, { session: id, call }) => {
        if (id === 's:1') return call === 0 ? ask('ask_parent', 'Where?') : 'Dug.';
        if (call === 0) return { toolUse: { name: 'spawn_subagent', input: { task: 'dig', name: 'scout' } } };
        // The question may come with the result of the spawn call, or after it.
        return JSON.stringify(messages.at(-1)).includes('[question from scout]') ? 'Dig @scout at the oak.' : 'Fine.';
      }) as ModelProvider,
    });
    const session = runtime.session('s');
    await session.send('go');
    await eventually(async () => (await session.state()).children[0]?.exited === 'completed');
    const child = await session.child('s:1');
    expect(await log(child)).toContain('tool_response:Dig @scout at the oak.');
    const request = JSON.stringify((await child.request()).tools);
    expect(request).toContain('ask_parent');
    expect(JSON.stringify((await session.request()).tools)).not.toContain('ask_parent');
    expect((await log(session)).some((line) => line.includes('[question from scout] Where?'))).toBe(true);
  });
});

describe('a question to a person', () => {
  test('declined, the model reads why; over limits.messageBytes, it still waits', async () => {
    const provider = played({ s: [ask('ask_human', 'Who?', { choices: ['ada', 'bob'] }), 'Fine.'] });
    const agents = [agent({ name: 'a', tools: [askHuman()] })];
    const runtime = await kit.open({ agents, provider, limits: { messageBytes: 100 } });
    const session = runtime.session('s');
    const receipt = await session.send('go');
    const callId = await asked(session);
    expect(await failure(session.answer(callId, 'x'.repeat(101)))).toBeInstanceOf(LimitError);
    expect(await session.decline(callId, 'private')).toBe(true);
    expect(await receipt.answer()).toBe('Fine.');
    expect(await log(session)).toContain('tool_response:Not answered: your human declined to answer: private.');
    expect(await session.answer('nothing', 'x')).toBe(false);
  });

  test('approvals of the agent: its calls expire at its time, those of another agent never', async () => {
    const clock = manualClock();
    const tools = [askHuman()];
    const runtime = await kit.open({
      clock,
      agents: [agent({ name: 'hasty', tools, approvals: { expiresMs: 60_000 } }), agent({ name: 'calm', tools })],
      provider: played({ h: [ask('ask_human', 'Now?'), 'Late.'], c: [ask('ask_human', 'Now?')] }),
    });
    const [hasty, calm] = [runtime.session('h', 'hasty'), runtime.session('c', 'calm')];
    const receipt = await hasty.send('go');
    await calm.send('go');
    await Promise.all([asked(hasty), asked(calm)]);
    expect((await hasty.explain()).detail).toContain('; denied at ');
    expect((await calm.explain()).detail).not.toContain('; denied at ');
    await clock.advance(60_000);
    expect(await receipt.answer()).toBe('Late.');
    expect(await log(hasty)).toContain('tool_response:Not answered: no answer came within 60 seconds.');
    expect(await calm.state()).toMatchObject({ phase: 'question' });
  });

  test('tools with other names side by side; a sub-agent has those it was granted', async () => {
    const model = gatedModel();
    const tools = [askHuman(), askHuman({ name: 'ask_boss', answer: trip }), askParent({ name: 'ask_lead' })];
    const runtime = await kit.open({ provider: model.provider, agents: [agent({ name: 'a', tools })] });
    const session = runtime.session('s');
    await session.spawn({ task: 'x', tools: ['ASK_BOSS'] });
    await session.spawn({ task: 'x', tools: [] });
    const names = (await Promise.all([model.next(), model.next()])).map(({ request }) =>
      request.tools?.map(({ name }) => name),
    );
    expect(names).toEqual([
      ['mark_goal_completed', 'ask_boss', 'ask_lead'],
      ['mark_goal_completed', 'ask_lead'],
    ]);
  });

  test.each([
    [() => askHuman({ name: 'not a name' }), /a name is 1 to 128/],
    [() => askHuman({ description: ' ' }), /description must be a text/],
    [() => askParent({ answer: { type: 'string' } }), /"askParent.answer".*type "object"/],
    [() => askHuman({ other: 1 } as object), /askHuman.other/],
    [() => agent({ name: 'a', approvals: { expiresMs: 0 } }), /approvals.expiresMs/],
    [() => agent({ name: 'a', approvals: { onInput: 'drop' } as object }), /approvals.onInput/],
  ])('bad option %# is refused with its name', (make, message) => {
    expect(make).toThrow(ConfigError);
    expect(make).toThrow(message);
  });

  test('two tools of one name are refused at open', async () => {
    const agents = [agent({ name: 'a', tools: [askHuman(), askHuman()] })];
    expect(await failure(kit.open({ agents, provider: played({}) }))).toBeInstanceOf(ConfigError);
  });
});

describe('a question to a parent', () => {
  const tools = [spawn_subagent, askParent()];
  const spawning = (task: string): Reply => ({ toolUse: { name: 'spawn_subagent', input: { task } } });

  test('ends when the parent ends without an answer', async () => {
    const runtime = await kit.open({
      limits: { depth: 2 },
      agents: [agent({ name: 'a', tools })],
      provider: played({
        's:1': [spawning('deeper'), 'I wait.', 'I know nothing.'],
        's:1:1': [ask('ask_parent', 'Where?'), 'Then here.'],
      }),
    });
    const child = await runtime.session('s').spawn({ task: 'x', replies: 'handle' });
    expect(await child.reply()).not.toBe('');
    const grandchild = await child.child('s:1:1');
    await eventually(async () => (await grandchild.exit()).reason === 'completed');
    const texts = await log(grandchild);
    expect(texts.at(-1)).toBe('agent_message:Then here.');
    expect(texts.at(-2)).toContain('Not answered: the agent that gave you your task has ended');
  });

  test('ends when its parent is restarted, which leaves the question behind', async () => {
    const model = gatedModel();
    const runtime = await kit.open({
      limits: { depth: 2 },
      agents: [agent({ name: 'a', tools, supervision: { onChildFailure: 'restart' } })],
      provider: model.provider,
    });
    await runtime.session('s').spawn({ task: 'x', replies: 'handle' });
    (await model.next()).answer(spawning('deeper'));
    const both = [await model.next(), await model.next()];
    both.find(({ session }) => session === 's:1:1')?.answer(ask('ask_parent', 'Where?'));
    await asked(runtime.session('s:1:1'));
    both.find(({ session }) => session === 's:1')?.answer({ error: { type: 'invalid_request_error', message: 'no' } });
    const next = [await model.next(), await model.next()].find(({ session }) => session === 's:1:1');
    expect(JSON.stringify(next?.request.messages.at(-1))).toContain('has ended or begun again');
  });

  test('ends with an interrupt of the parent', async () => {
    const runtime = await kit.open({
      agents: [agent({ name: 'a', tools })],
      provider: played({ s: ['Noted.'], 's:1': [ask('ask_parent', 'Where?')] }),
    });
    const session = runtime.session('s');
    const child = await session.spawn({ task: 'x' });
    await asked(child);
    await runtime.drain();
    await session.interrupt();
    expect(await child.exit()).toMatchObject({ reason: 'cancelled' });
  });

  test('with replies to the handle, the program answers', async () => {
    const provider = played({ 's:1': [ask('ask_parent', 'Where?'), 'Thanks.'] });
    const runtime = await kit.open({ agents: [agent({ name: 'a', tools })], provider });
    const child = await runtime.session('s').spawn({ task: 'x', replies: 'handle' });
    expect(await child.answer(await asked(child), 'here')).toBe(true);
    expect(await child.reply()).toBe('Thanks.');
  });
});
