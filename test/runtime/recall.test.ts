/**
 * Goal: after goals changed while a turn was prepared, earlier messages are searched, and the finds join that same
 * turn.
 */
import { describe, expect, test } from 'vitest';
import type { ModelRequest } from '../../src/models/provider.ts';
import type { Reply, ReplyFunction } from '../../src/models/script/script.ts';
import { manualClock, scripted } from '../../src/testing/index.ts';
import { eventually, gatedModel, history, log, MATRIX, runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();

const MELETE = 'claude-haiku-4-5';
const MNEME = 'claude-sonnet-4-6';
/** Most tests here search other sessions. */
const search = { scope: 'all' } as const;
const enrichers = { melete: { model: MELETE }, mneme: { model: MNEME } };
const call = (name: string, input: Readonly<Record<string, unknown>> = {}): Reply => ({ toolUse: { name, input } });
const SET_GOAL = call('set_goal', { description: 'bake a loaf' });

interface Enrichers {
  readonly melete: readonly Reply[];
  readonly recall: readonly Reply[];
}

/**
 * The main model says `ok`. In sessions named `work` the enrichers give their listed replies; each run starts with the
 * first reply.
 */
function model(muses: Enrichers, seen: ModelRequest[] = []): ReplyFunction {
  const steps = new Map<string, number>();
  return (request, { session }) => {
    const isEnricher = request.model === MELETE || request.model === MNEME;
    if (isEnricher) seen.push(request);
    if (!isEnricher) return 'ok';
    if (!session.startsWith('work')) return 'done';
    const step = request.messages.length === 1 ? 0 : (steps.get(session) ?? 0);
    steps.set(session, step + 1);
    return (request.model === MELETE ? muses.melete : muses.recall)[step] ?? 'done';
  };
}

const recalls = (seen: readonly ModelRequest[]): readonly ModelRequest[] =>
  seen.filter((request) => request.model === MNEME);

describe.each(MATRIX)('threads %o', (threads) => {
  test('F122, F103: a goal is set, the recall finds a message of another session, and the turn includes it', async () => {
    const seen: ModelRequest[] = [];
    const provider = scripted(
      model(
        {
          melete: [SET_GOAL],
          recall: [
            call('search_messages', { query: 'sourdough' }),
            call('view_messages', { message_id: 'past#1' }),
            call('surface_memory', { message_id: 'past#1', why: 'the recipe' }),
          ],
        },
        seen,
      ),
    );
    const runtime = await kit.open({ threads, provider, enrichers, search });
    await runtime.session('past').ask('I like sourdough with rye');
    const session = runtime.session('work');
    expect(await session.ask('bread please')).toBe('ok');
    expect(await log(session)).toEqual([
      'tool_call:[goal 1]',
      'tool_response:Goal created: bake a loaf (id: 1)',
      'tool_call:message past#1 (session #past): I like sourdough with rye',
      'tool_response:message past#1 (session #past): I like sourdough with rye',
      'user_message:bread please',
      'agent_message:ok',
    ]);
    const [memory] = (await session.messages()).filter(({ source }) => source?.type === 'recall');
    expect(memory).toMatchObject({
      toolName: 'from_mneme',
      input: { message_id: 'past#1' },
      source: { name: 'past#1' },
    });
    const [first, second] = recalls(seen);
    expect(first?.tools?.map(({ name }) => name)).toEqual([
      'search_messages',
      'view_messages',
      'surface_memory',
      'nothing_to_surface',
    ]);
    expect(first?.system).toContain('bake a loaf');
    expect(JSON.stringify(first?.messages)).toContain('bake a loaf');
    expect(JSON.stringify(second?.messages)).toContain('message past#1');
    const told = (await history(session)).flatMap((event) =>
      event.type === 'session.state' ? [`${event.state} ${event.phase ?? ''}`.trim()] : [],
    );
    expect(told).toEqual(['idle preparing', 'idle', 'awaiting', 'idle']);
  });

  test('F104: a recall that fails is logged, and the turn starts', async () => {
    const provider = scripted((request: ModelRequest) => {
      if (request.model === MNEME) return { error: { status: 400 } };
      if (request.model !== MELETE) return 'ok';
      return request.messages.length === 1 ? SET_GOAL : 'done';
    });
    const runtime = await kit.open({ threads, provider, enrichers, search });
    const session = runtime.session('work');
    expect(await session.ask('bread please')).toBe('ok');
    expect(await log(session)).toEqual([
      'tool_call:[goal 1]',
      'tool_response:Goal created: bake a loaf (id: 1)',
      'user_message:bread please',
      'agent_message:ok',
    ]);
    expect((await session.state()).blocked).toBeUndefined();
  });
});

test('F123: a finished or unchanged goal triggers no recall; a reworded goal does', async () => {
  const run = async (change: Reply): Promise<number> => {
    const seen: ModelRequest[] = [];
    const provider = scripted(model({ melete: [change], recall: [call('nothing_to_surface')] }, seen));
    const runtime = await kit.open({ provider, enrichers, search });
    const session = runtime.session('work');
    await session.goals.create({ description: 'bake' });
    await session.ask('go');
    return recalls(seen).length;
  };
  expect(await run(call('finish_goal', { goal_id: 1 }))).toBe(0);
  expect(await run(call('update_goal', { goal_id: 1, description: 'bake' }))).toBe(0);
  expect(await run(call('everything_is_ready'))).toBe(0);
  expect(await run(call('update_goal', { goal_id: 1, description: 'bake well' }))).toBe(2);
});

test('F122: without Mneme nothing is recalled', async () => {
  const seen: ModelRequest[] = [];
  const provider = scripted(model({ melete: [SET_GOAL], recall: [] }, seen));
  const runtime = await kit.open({ provider, enrichers: { melete: { model: MELETE } }, search });
  expect(await runtime.session('work').ask('go')).toBe('ok');
  expect(recalls(seen)).toEqual([]);
});

test('Δ44, F103: messages that are visible or about to be, missing messages, and ones without a reason are not surfaced', async () => {
  const seen: ModelRequest[] = [];
  const surface = (message_id: string, why = 'useful') => call('surface_memory', { message_id, why });
  const recall = [surface('past#1'), surface('past#1'), surface('past#9'), surface('past#2', ' '), surface('nothing')];
  const more = surface('work#1');
  const provider = scripted(model({ melete: [SET_GOAL], recall: [...recall, more] }, seen));
  const runtime = await kit.open({ provider, enrichers, search });
  await runtime.session('past').ask('rye');
  const session = runtime.session('work');
  await session.ask('one');
  const results = JSON.stringify(recalls(seen).at(-1)?.messages);
  for (const part of ['Message past#1 is surfaced', 'already', 'Message not found: past#9', 'Why cannot be blank']) {
    expect(results).toContain(part);
  }
  expect(results).toContain('message id has the form');
  const memories = async (): Promise<number> =>
    (await session.messages()).filter(({ type, source }) => type === 'tool_call' && source?.type === 'recall').length;
  expect(await memories()).toBe(1);
  // In the next turn the message is in the window, so the system prompt names it, and surfacing it is refused.
  await session.ask('two');
  expect(recalls(seen).at(-1)?.system).toContain('- message past#1');
  expect(await memories()).toBe(1);
  expect(JSON.stringify(recalls(seen).at(-1)?.messages)).toContain('work#1 is before the model already');
});

test('a long memory is cut to recall.maxSnippetTokens', async () => {
  const provider = scripted(
    model({ melete: [SET_GOAL], recall: [call('surface_memory', { message_id: 'past#1', why: 'long' })] }),
  );
  const runtime = await kit.open({ provider, enrichers, search, settings: { recall: { maxSnippetTokens: 5 } } });
  await runtime.session('past').ask('x'.repeat(100));
  const session = runtime.session('work');
  await session.ask('go');
  expect(await log(session)).toContain(`tool_response:message past#1 (session #past): ${'x'.repeat(20)}`);
});

test('A10: a crash during a recall begins the recall again, and Melete is not called again', async () => {
  const directory = await kit.directory();
  const gate = gatedModel();
  const first = await kit.open({ directory, provider: gate.provider, enrichers, search });
  await first.session('work').send('go');
  (await gate.next()).answer(SET_GOAL);
  (await gate.next()).answer('done');
  expect((await gate.next()).request.model).toBe(MNEME);
  const after = gatedModel();
  const again = await kit.open({
    directory: await kit.crashed(directory),
    provider: after.provider,
    enrichers,
    search,
  });
  const recall = await after.next();
  expect(recall.request.model).toBe(MNEME);
  recall.answer('done');
  (await after.next()).answer('ok');
  await again.drain();
  expect(after.calls.length).toBe(2);
  expect((await log(again.session('work'))).at(-1)).toBe('agent_message:ok');
});

test('F125: a run that hangs ends at melete.timeout, and the turn starts', async () => {
  const clock = manualClock();
  const gate = gatedModel();
  const runtime = await kit.open({
    provider: gate.provider,
    enrichers,
    search,
    clock,
    settings: { melete: { timeout: 30 } },
  });
  const session = runtime.session('work');
  const receipt = await session.send('go');
  await gate.next();
  await clock.advance(30_000);
  const turn = await gate.next();
  expect(turn.request.model).not.toBe(MELETE);
  turn.answer('ok');
  await eventually(async () => (await receipt.status()).status === 'answered');
  expect((await log(session))[0]).toContain('system_message:The turn was not prepared: ');
  expect((await log(session))[0]).toContain('30000 ms');
});

test.each([
  ['by default', undefined],
  ['with its own tree', { scope: 'tree' as const }],
  ['where the scope function fails', { scope: () => Promise.reject(new Error('no directory of users')) }],
])('one user\\u2019s words do not reach another user\\u2019s prompt through recall, %s', async (_name, scope) => {
  const seen: ModelRequest[] = [];
  const main: ModelRequest[] = [];
  const muses = model(
    {
      melete: [SET_GOAL],
      recall: [
        call('search_messages', { query: 'sourdough' }),
        call('view_messages', { message_id: 'past#1' }),
        call('surface_memory', { message_id: 'past#1', why: 'the recipe' }),
      ],
    },
    seen,
  );
  const provider = scripted((request, context) => {
    if (request.model !== MELETE && request.model !== MNEME && context.session === 'work') main.push(request);
    return muses(request, context);
  });
  const runtime = await kit.open({ provider, enrichers, ...(scope === undefined ? {} : { search: scope }) });
  await runtime.session('past').ask('My secret sourdough has rye');
  expect(await runtime.session('work').ask('bread please')).toBe('ok');
  // The recall has ended, and no request of this session contains text of the other one.
  const asked = recalls(seen).filter((request) => JSON.stringify(request.messages).includes('surface_memory'));
  expect(asked.length).toBeGreaterThan(0);
  expect(JSON.stringify([...recalls(seen), ...(main.at(-1)?.messages ?? [])])).not.toContain('rye');
});
