/**
 * Goal: Melete prepares the turns of users' messages through the public API. Without Melete, nothing of Melete is
 * visible. With Melete, no failure of Melete keeps a turn from starting.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { agent, anthropic, type OpenOptions, type SessionEvent } from '../../src/index.ts';
import type { ModelRequest } from '../../src/models/provider.ts';
import type { Reply, ReplyFunction } from '../../src/models/script/script.ts';
import { scripted, strictFake } from '../../src/testing/index.ts';
import {
  eventually,
  failure,
  type GatedCall,
  gatedModel,
  history,
  log,
  MATRIX,
  runtimeKit,
} from '../support/runtime-kit.ts';

const kit = runtimeKit();

const MELETE = 'claude-haiku-4-5';
const enrichers = { melete: { model: MELETE } };
const call = (name: string, input: Readonly<Record<string, unknown>> = {}): Reply => ({ toolUse: { name, input } });
const READY = call('everything_is_ready');

/**
 * The main model answers `ok` and the number of its turn. Melete makes the replies of `enricher` each time it is asked,
 * and ends with text.
 */
function model(enricher: readonly Reply[], seen: ModelRequest[] = []): ReplyFunction {
  const steps = new Map<string, number>();
  return (request, { session }) => {
    if (request.model !== MELETE) return 'ok';
    seen.push(request);
    const fresh = request.messages.length === 1;
    const step = fresh ? 0 : (steps.get(session) ?? 0);
    steps.set(session, step + 1);
    return enricher[step] ?? 'done';
  };
}

async function definitions(): Promise<Pick<OpenOptions, 'skills' | 'workflows'>> {
  const root = await kit.directory();
  const write = async (folder: string, name: string, body: string): Promise<void> => {
    await mkdir(join(root, folder), { recursive: true });
    await writeFile(join(root, folder, `${name}.md`), `---\nname: ${name}\ndescription: about ${name}\n---\n${body}\n`);
  };
  await write('skills', 'baking', 'Knead.');
  await write('workflows', 'plan', 'Think first.');
  await write('workflows', 'build', 'Do it.');
  return { skills: join(root, 'skills'), workflows: join(root, 'workflows') };
}

function states(events: readonly SessionEvent[]): readonly string[] {
  return events.flatMap((event) =>
    event.type === 'session.state' ? [event.phase === undefined ? event.state : `${event.state} (${event.phase})`] : [],
  );
}

describe.each(MATRIX)('threads %o', (threads) => {
  test('F122, F012: after a user message Melete runs, then the half-step, with the prepared entries before the message', async () => {
    const seen: ModelRequest[] = [];
    const enricher = [
      call('activate_skill', { skill_name: 'baking' }),
      call('read_workflow', { workflow_name: 'plan' }),
      call('set_goal', { description: 'a loaf' }),
      call('rename_session', { emoji: '🍞', name: 'Bread' }),
      READY,
    ];
    const provider = scripted(model(enricher, seen));
    const runtime = await kit.open({ threads, provider, enrichers, ...(await definitions()) });
    const session = runtime.session('s');
    expect(await session.ask('bake me a bread')).toBe('ok');
    expect(await log(session)).toEqual([
      'tool_call:[recalled skill: baking]',
      'tool_response:Knead.',
      'tool_call:[recalled workflow: plan]',
      'tool_response:Think first.',
      'tool_call:[goal 1]',
      'tool_response:Goal created: a loaf (id: 1)',
      'user_message:bake me a bread',
      'agent_message:ok',
    ]);
    const events = await history(session);
    expect(states(events)).toEqual(['idle (preparing)', 'idle', 'awaiting', 'idle']);
    expect(events.filter(({ type }) => type === 'session.name')).toMatchObject([{ name: '🍞 Bread' }]);
    expect((await runtime.sessions.list({ order: 'id' })).map(({ name }) => name)).toEqual(['🍞 Bread']);
    const [first, , last] = seen;
    expect(first?.tools?.map(({ name }) => name)).toEqual([
      'rename_session',
      'activate_skill',
      'read_workflow',
      'set_goal',
      'update_goal',
      'finish_goal',
      'everything_is_ready',
    ]);
    expect(first?.max_tokens).toBe(4_096);
    expect(JSON.stringify(first?.messages)).toContain('User (pending): bake me a bread');
    for (const part of ['(unnamed)', 'baking: about baking', 'plan: about plan']) expect(first?.system).toContain(part);
    // The model reads a workflow to turn its steps into goals.
    expect(JSON.stringify(last?.messages)).toContain('Think first.');
  });

  test('the usage of a preparation counts for its session, and its calls are counted', async () => {
    const runtime = await kit.open({ threads, provider: scripted(model([READY])), enrichers });
    const session = runtime.session('s');
    await session.ask('hello');
    const plain = await kit.open({ threads, provider: scripted(model([])) });
    await plain.session('s').ask('hello');
    const without = (await plain.session('s').state()).usage.input_tokens;
    expect((await session.state()).usage.input_tokens).toBeGreaterThan(without);
    await eventually(() => runtime.metrics().modelCalls === 3);
    expect(plain.metrics().modelCalls).toBe(1);
  });

  test('F125: a failure is noted in the log, and the turn still starts', async () => {
    const provider = scripted((request: ModelRequest) =>
      request.model === MELETE ? { error: { status: 400, message: 'not like this' } } : 'ok',
    );
    const runtime = await kit.open({ threads, provider, enrichers });
    const session = runtime.session('s');
    expect(await session.ask('hello')).toBe('ok');
    const [note, ...rest] = await log(session);
    expect(note).toContain('system_message:The turn was not prepared: ');
    expect(note).toContain('not like this');
    expect(rest).toEqual(['user_message:hello', 'agent_message:ok']);
  });

  test('refused credentials act as in a half-step: the turn fails, and the mailbox waits for resume', async () => {
    let isRefused = true;
    const provider = scripted((request: ModelRequest) =>
      request.model === MELETE && isRefused ? { error: { status: 401 } } : 'ok',
    );
    const runtime = await kit.open({ threads, provider, enrichers });
    const session = runtime.session('s');
    expect((await failure(session.ask('hello'))).cause).toMatchObject({ code: 'model_authentication' });
    expect((await session.state()).blocked).toMatchObject({ code: 'model_authentication' });
    const events = await history(session);
    expect(events.filter(({ type }) => type === 'authentication_required')).toHaveLength(1);
    expect((await log(session)).at(-1)).toContain('system_message:Authentication failed');
    isRefused = false;
    await session.resume();
    expect(await session.ask('again')).toBe('ok');
  });

  test('F126, F127, F128: a skill is activated once and at once; of two workflows the newest is active', async () => {
    const enricher = [
      call('activate_skill', { skill_name: 'baking' }),
      call('activate_skill', { skill_name: 'baking' }),
      call('activate_skill', { skill_name: 'frying' }),
      call('read_workflow', { workflow_name: 'plan' }),
      call('read_workflow', { workflow_name: 'build' }),
      READY,
    ];
    const seen: ModelRequest[] = [];
    const provider = scripted(model(enricher, seen));
    const runtime = await kit.open({ threads, provider, enrichers, ...(await definitions()) });
    const session = runtime.session('s');
    await session.ask('go');
    const told = (await history(session)).flatMap((event): unknown[] => {
      if (event.type === 'skills.updated') return [event.skills];
      if (event.type === 'workflow.updated') return [event.workflow];
      return event.type === 'message.created' && event.message.type === 'user_message' ? ['promoted'] : [];
    });
    expect(told).toEqual([['baking'], 'plan', 'build', 'promoted']);
    expect((await log(session)).filter((line) => line === 'tool_response:Knead.')).toHaveLength(1);
    expect(await session.state()).toMatchObject({ skills: ['baking'], workflow: 'build' });
    expect(JSON.stringify(seen.at(-1)?.messages)).toContain('Unknown skill: frying');
    // Melete is not offered skills and workflows that are already in the window.
    await session.ask('more');
    expect(seen.at(-1)?.system).not.toContain('baking: about');
    expect(seen.at(-1)?.system).toContain('Active skills: baking');
  });
});

describe('during a preparation', () => {
  async function preparing(more: OpenOptions = {}) {
    const gate = gatedModel();
    const runtime = await kit.open({ provider: gate.provider, enrichers, ...more });
    const session = runtime.session('s');
    const receipt = await session.send('first');
    const enricher = await gate.next();
    expect(enricher.request.model).toBe(MELETE);
    return { gate, runtime, session, receipt, enricher };
  }
  const isEnricher = (each: GatedCall): boolean => each.request.model === MELETE;

  test('F012: its phase is published, more messages wait, and one run is in flight', async () => {
    const { gate, session, receipt, enricher } = await preparing();
    expect(await session.state()).toMatchObject({ state: 'idle', phase: 'preparing', mailbox: 1 });
    expect(await session.explain()).toMatchObject({ reason: 'preparing' });
    const second = await session.send('second');
    await session.send('aside', { deliver: 'steer' });
    expect(gate.calls.length).toBe(1);
    enricher.answer('done');
    const turn = await gate.next();
    expect(isEnricher(turn)).toBe(false);
    turn.answer('one');
    expect(await receipt.answer()).toBe('one');
    // The next turn is prepared in the same way.
    const next = await gate.next();
    expect(isEnricher(next)).toBe(true);
    expect(JSON.stringify(next.request.messages)).toContain('User (pending): second');
    next.answer('done');
    (await gate.next()).answer('two');
    expect(await second.answer()).toBe('two');
    expect(gate.calls.filter(isEnricher)).toHaveLength(2);
  });

  test('an interrupt cancels the run and ends the turn; the message stays, the next one is prepared', async () => {
    const { gate, session, receipt } = await preparing();
    expect(await session.interrupt()).toBe(true);
    expect((await failure(receipt.answer())).code).toBe('cancelled');
    expect(await log(session)).toEqual(['user_message:first']);
    expect(await session.state()).toMatchObject({ state: 'idle', mailbox: 0 });
    const again = await session.send('again');
    (await gate.next()).answer('done');
    (await gate.next()).answer('ok');
    expect(await again.answer()).toBe('ok');
  });

  test('R27: recalling the message ends the run; what the run prepared joins the next turn', async () => {
    const { gate, session, receipt, enricher } = await preparing();
    enricher.answer(call('set_goal', { description: 'a loaf' }));
    const more = await gate.next();
    expect(isEnricher(more)).toBe(true);
    expect(await session.recall(receipt.pendingId)).toBe(true);
    expect(await session.state()).toMatchObject({ state: 'idle', mailbox: 1 });
    expect((await session.state()).phase).toBeUndefined();
    const next = await session.send('next');
    (await gate.next()).answer('done');
    (await gate.next()).answer('ok');
    expect(await next.answer()).toBe('ok');
    expect((await log(session)).slice(0, 3)).toEqual([
      'tool_call:[goal 1]',
      'tool_response:Goal created: a loaf (id: 1)',
      'user_message:next',
    ]);
  });

  test('a message that interrupts goes first, and the other message is prepared again', async () => {
    const { gate, session, receipt } = await preparing();
    const urgent = await session.send('now', { deliver: 'interrupt' });
    (await gate.next()).answer('done');
    (await gate.next()).answer('urgent');
    expect(await urgent.answer()).toBe('urgent');
    const enricher = await gate.next();
    expect(isEnricher(enricher)).toBe(true);
    enricher.answer('done');
    (await gate.next()).answer('calm');
    expect(await receipt.answer()).toBe('calm');
  });

  test('a message that replaces another is prepared in place of the other', async () => {
    const gate = gatedModel();
    const runtime = await kit.open({ provider: gate.provider, enrichers });
    const session = runtime.session('s');
    const old = await session.send('old', { deliver: 'latest' });
    await gate.next();
    const newer = await session.send('new', { deliver: 'latest' });
    expect((await old.status()).status).toBe('dropped');
    const enricher = await gate.next();
    expect(JSON.stringify(enricher.request.messages)).not.toContain('old');
    enricher.answer('done');
    (await gate.next()).answer('ok');
    expect(await newer.answer()).toBe('ok');
  });

  test('a pause holds back the turn, and the message is not prepared twice', async () => {
    const { gate, session, receipt, enricher } = await preparing();
    await session.pause();
    enricher.answer('done');
    await eventually(async () => (await session.explain()).reason === 'paused');
    expect(gate.calls.length).toBe(1);
    await session.resume();
    const turn = await gate.next();
    expect(isEnricher(turn)).toBe(false);
    turn.answer('ok');
    expect(await receipt.answer()).toBe('ok');
  });

  test('A10: after a crash the preparation begins again, with the goals set before', async () => {
    const directory = await kit.directory();
    const gate = gatedModel();
    const first = await kit.open({ directory, provider: gate.provider, enrichers });
    await first.session('s').send('first', { key: 'k' });
    (await gate.next()).answer(call('set_goal', { description: 'a loaf' }));
    await gate.next();
    const after = gatedModel();
    const again = await kit.open({ directory: await kit.crashed(directory), provider: after.provider, enrichers });
    const enricher = await after.next();
    expect(isEnricher(enricher)).toBe(true);
    expect(enricher.request.system).toContain('a loaf (id: 1)');
    enricher.answer('done');
    (await after.next()).answer('ok');
    await again.drain();
    expect((await log(again.session('s'))).slice(-2)).toEqual(['user_message:first', 'agent_message:ok']);
  });

  test('A10: opened again without Melete, the turn starts without a preparation', async () => {
    const directory = await kit.directory();
    const gate = gatedModel();
    const first = await kit.open({ directory, provider: gate.provider, enrichers });
    await first.session('s').send('first');
    await gate.next();
    const again = await kit.open({ directory: await kit.crashed(directory), provider: scripted(() => 'ok') });
    await again.drain();
    expect(await log(again.session('s'))).toEqual(['user_message:first', 'agent_message:ok']);
  });

  test('a close does not wait for a preparation, which begins again at the next open', async () => {
    const directory = await kit.directory();
    const gate = gatedModel();
    const first = await kit.open({ directory, provider: gate.provider, enrichers });
    await first.session('s').send('first');
    await gate.next();
    await first.close({ deadlineMs: 60_000 });
    const again = await kit.open({ directory, provider: scripted(model([READY])), enrichers });
    await again.drain();
    expect(await log(again.session('s'))).toEqual(['user_message:first', 'agent_message:ok']);
  });

  test('deleting the session ends its run', async () => {
    const { gate, runtime, session, enricher } = await preparing();
    expect(await session.delete()).toBe(true);
    enricher.answer(call('set_goal', { description: 'too late' }));
    await runtime.drain();
    expect(await runtime.sessions.get('s')).toBeUndefined();
    expect(gate.calls.length).toBe(1);
  });
});

test('every request of both models is legal for the API', async () => {
  const enricher = [call('set_goal', { description: 'a loaf' }), call('set_goal', { description: ' ' }), READY];
  let step = 0;
  const script = (request: ModelRequest): Reply => {
    if (request.model !== MELETE) return 'ok';
    step = request.messages.length === 1 ? 0 : step + 1;
    return enricher[step] ?? 'done';
  };
  const fake = await strictFake({ script });
  const runtime = await kit.open({ provider: anthropic({ baseURL: fake.url, apiKey: 'k' }), enrichers });
  const session = runtime.session('s');
  expect(await session.ask('one')).toBe('ok');
  expect(await session.ask('two')).toBe('ok');
  expect(fake.violations).toEqual([]);
  expect(fake.requests.length).toBe(10);
  await fake.close();
});

test('F124: the task of a sub-agent, and deliveries to its parent, go to the half-step without a preparation', async () => {
  const seen: ModelRequest[] = [];
  const runtime = await kit.open({
    provider: scripted(model([READY], seen)),
    enrichers,
    agents: [agent({ name: 'main' })],
  });
  const child = await runtime.session('s').spawn({ task: 'look', name: 'scout' });
  expect(await child.reply()).toBe('ok');
  await runtime.drain();
  expect(seen).toEqual([]);
});

test('A9: enrichers are checked at open: unknown keys and invalid models are named', async () => {
  const open = (given: unknown) => failure(kit.open({ enrichers: given } as OpenOptions));
  expect((await open({ clio: { model: 'm' } })).message).toContain('enrichers.clio');
  expect((await open({ melete: { model: ' ' } })).message).toContain('enrichers.melete.model');
  expect((await open({ melete: { model: 'm', more: 1 } })).message).toContain('enrichers.melete.more');
  const both = await failure(
    kit.open({ enrichers: { mneme: { model: 'm' } }, settings: { compression: { enabled: true } } }),
  );
  expect(both.code).toBe('config');
  expect(both.message).toContain('compression');
  expect(both.message).toContain('enrichers.mneme');
});

test('A9: Melete is shown a part of a flooded mailbox and of a huge call', async () => {
  const seen: ModelRequest[] = [];
  const runtime = await kit.open({ provider: scripted(model([READY], seen)), enrichers });
  const session = runtime.session('s');
  await session.history.seed([
    { role: 'user', content: 'write it' },
    {
      role: 'assistant',
      content: '',
      toolCalls: [{ callId: 'w', name: 'write', arguments: { text: 'x'.repeat(50_000) } }],
    },
    { role: 'tool', toolCallId: 'w', content: 'done' },
    { role: 'assistant', content: 'written' },
  ]);
  await session.pause();
  for (let index = 0; index < 150; index += 1) await session.send(`word ${index}`, { deliver: 'merge' });
  await session.resume();
  await runtime.drain();
  const text = JSON.stringify(seen[0]?.messages);
  expect(text).toContain('Tool call: write');
  expect(text.length).toBeLessThan(20_000);
  expect(text).toContain('word 99');
  expect(text).not.toContain('word 100');
});
