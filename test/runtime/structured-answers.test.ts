/** Structured answers at the public API. The scripted model refuses what the Messages API refuses. */
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { agent, anthropic, ConfigError, TurnFailedError, tool } from '../../src/index.ts';
import type { ModelProvider, ModelRequest } from '../../src/models/provider.ts';
import type { Reply } from '../../src/models/script/script.ts';
import { scripted, strictFake } from '../../src/testing/index.ts';
import { isAccepted, THINKING } from '../support/model-settings.ts';
import { deferred, eventually, failure, gatedModel, history, MATRIX, runtimeKit } from '../support/runtime-kit.ts';
import { sdkModels } from '../support/type-reader.ts';

const kit = runtimeKit();

const city = z.object({ name: z.string(), people: z.number().int().min(1), kind: z.enum(['Capital', 'Town']) });
const ULM = { name: 'Ulm', people: 5, kind: 'Town' } as const;
const EMPTY = { ...ULM, people: 0 };

/** How a model gives its answer: as text in the format, or by the tool. */
type Way = 'format' | 'tool';
const MODELS: Readonly<Record<Way, string>> = { format: 'claude-opus-5-5', tool: 'some-model' };
const WAYS: readonly Way[] = ['format', 'tool'];

const given = (way: Way, value: object): Reply =>
  way === 'format' ? JSON.stringify(value) : { toolUse: { name: 'final_answer', input: { ...value } } };

/** A model that plays replies, and keeps the requests it got. */
function player(replies: readonly Reply[]): { readonly provider: ModelProvider; readonly requests: ModelRequest[] } {
  const requests: ModelRequest[] = [];
  const provider = scripted((request, { call }) => {
    requests.push(request);
    return replies[call] ?? 'nothing left';
  }) as ModelProvider;
  return { provider, requests };
}

describe.each(MATRIX)('sessions: $sessions, models: $models', (threads) => {
  test.each(WAYS)('ask resolves to the value, given by %s', async (way) => {
    const { provider, requests } = player([given(way, ULM), 'A town on the Danube.']);
    const runtime = await kit.open({ threads, provider, agents: [agent({ name: 'a', model: MODELS[way] })] });
    const session = runtime.session('s');
    expect(await session.ask('A city', { output: city })).toEqual(ULM);
    expect(await session.ask('And in words?')).toBe('A town on the Danube.');
    expect(requests.map(({ output_config, tools }) => [output_config !== undefined, tools?.length ?? 0])).toEqual(
      way === 'format'
        ? [
            [true, 0],
            [false, 0],
          ]
        : [
            [false, 1],
            [false, 0],
          ],
    );
  });
});

describe.each(WAYS)('an answer by %s', (way) => {
  const agents = [agent({ name: 'a', model: MODELS[way] })];

  test('that does not fit is corrected in the next half-step, with the reasons', async () => {
    const { provider, requests } = player([given(way, EMPTY), given(way, ULM)]);
    const runtime = await kit.open({ provider, agents });
    const session = runtime.session('s');
    expect(await session.ask('A city', { output: city })).toEqual(ULM);
    expect(requests).toHaveLength(2);
    const last = JSON.stringify(requests[1]?.messages.at(-1));
    expect(last).toContain('Your answer does not fit its schema:\\n$.people: must be >= 1\\n');
    const how = way === 'format' ? 'Answer again with' : 'Call final_answer again with';
    expect(last).toContain(`${how} the whole corrected value.`);
    // The answer that did not fit stays in the conversation.
    expect(JSON.stringify(requests[1]?.messages)).toContain(way === 'format' ? '\\"people\\":0' : '"people":0');
  });

  test('every fault is named at once', async () => {
    const { provider, requests } = player([given(way, { name: 1, kind: 'Village' }), given(way, ULM)]);
    const runtime = await kit.open({ provider, agents });
    await runtime.session('s').ask('A city', { output: city });
    const last = JSON.stringify(requests[1]?.messages.at(-1));
    for (const fault of ["'people'", '$.name: must be string', '$.kind: must be equal to one of']) {
      expect(last).toContain(fault);
    }
  });

  test('after the last correction the turn fails with the issues', async () => {
    for (const answerCorrections of [0, 1, 2]) {
      const { provider, requests } = player(Array.from({ length: 9 }, () => given(way, EMPTY)));
      const runtime = await kit.open({ provider, agents, limits: { answerCorrections } });
      const session = runtime.session('s');
      const error = await failure(session.ask('A city', { output: city }));
      expect(error).toBeInstanceOf(TurnFailedError);
      expect(error).toMatchObject({
        code: 'answer_invalid',
        data: { issues: [{ path: '$.people', message: 'must be >= 1' }] },
      });
      expect(requests).toHaveLength(1 + answerCorrections);
      // The session is as usable as after any failed turn, and its request is legal.
      expect(await session.state()).toMatchObject({ state: 'idle' });
      await session.ask('And now?');
    }
  });

  test('a refusal and a cut answer are typed failures, and are not corrected', async () => {
    for (const [stop, code] of [
      ['refusal', 'answer_refused'],
      ['max_tokens', 'answer_cut'],
      ['model_context_window_exceeded', 'answer_cut'],
    ] as const) {
      const reply = way === 'format' ? { text: '{"na' } : { toolUse: { name: 'final_answer', input: {} } };
      const { provider, requests } = player([{ ...reply, stopReason: stop }, 'Yes.']);
      const runtime = await kit.open({ provider, agents });
      const session = runtime.session('s');
      expect(await failure(session.ask('A city', { output: city }))).toMatchObject({ code });
      expect(requests).toHaveLength(1);
      expect(await session.ask('And now?')).toBe('Yes.');
    }
  });

  test('of an agent that no longer asks for it when the session is opened again is a typed failure', async () => {
    const directory = await kit.directory();
    const clerk = agent({ name: 'clerk', model: MODELS[way], output: city });
    const { provider } = player([given(way, ULM)]);
    const first = await kit.open({ directory, provider, agents: [clerk] });
    const session = first.session('s', clerk);
    const verdict = deferred<void>();
    session.onMessage(({ role }) => (role === 'assistant' ? verdict.promise : undefined), { wait: true });
    const receipt = await session.send('A city');
    await eventually(async () => (await session.messages()).length === 2);
    const copy = await kit.crashed(directory);
    verdict.resolve();
    const plain = agent({ name: 'clerk', model: MODELS[way] });
    const second = await kit.open({ directory: copy, provider: player([]).provider, agents: [plain] });
    const found = await second.session('s').receipt(receipt.id);
    expect(await failure(found.answer())).toMatchObject({
      code: 'answer_invalid',
      message: expect.stringContaining('no longer asks for a structured answer'),
    });
  });

  test('words in other letters get the letters of the schema', async () => {
    const { provider } = player([given(way, { ...ULM, kind: 'TOWN' })]);
    const runtime = await kit.open({ provider, agents });
    expect(await runtime.session('s').ask('A city', { output: city })).toEqual(ULM);
  });

  test('tools run before it, and the event of the turn has it', async () => {
    const look = tool({ name: 'look', description: 'Look.', input: z.object({}), run: () => 'Ulm' });
    const { provider } = player([{ toolUse: { name: 'look' } }, given(way, ULM)]);
    const runtime = await kit.open({ provider, agents: [agent({ name: 'a', model: MODELS[way], tools: [look] })] });
    const session = runtime.session('s');
    expect(await session.ask('A city', { output: city })).toEqual(ULM);
    const ended = (await history(session)).filter(({ type }) => type === 'turn.finished');
    expect(ended).toMatchObject([{ reason: 'completed', output: ULM }]);
    for await (const event of session.events({ after: 0, until: Number(ended[0]?.seq), mode: 'verbose' })) {
      expect(event).not.toHaveProperty('output');
    }
  });

  test('a restart between an answer and its correction loses neither', async () => {
    const directory = await kit.directory();
    const model = gatedModel();
    const first = await kit.open({ directory, provider: model.provider, agents });
    const receipt = await first.session('s').send('A city', { output: city });
    (await model.next()).answer(given(way, EMPTY));
    const correction = await model.next();
    await first.session('s').state();
    const copy = await kit.crashed(directory);

    const after = gatedModel();
    const second = await kit.open({ directory: copy, provider: after.provider, agents });
    const again = await after.next();
    expect(again.request).toEqual(correction.request);
    again.answer(given(way, EMPTY));
    (await after.next()).answer(given(way, EMPTY));
    const found = await second.session('s').receipt(receipt.id, { output: city });
    // The correction before the restart counts.
    expect(await failure(found.answer())).toMatchObject({ code: 'answer_invalid' });
    expect(after.calls).toHaveLength(2);
  });

  test('a receipt that is found again gives the value, or its text without the schema', async () => {
    const directory = await kit.directory();
    const { provider } = player([given(way, ULM)]);
    const first = await kit.open({ directory, provider, agents });
    const receipt = await first.session('s').send('A city', { output: city });
    expect(await receipt.answer()).toEqual(ULM);
    await first.close();
    const second = await kit.open({ directory, provider, agents });
    const session = second.session('s');
    expect(await (await session.receipt(receipt.id, { output: city })).answer()).toEqual(ULM);
    expect(await (await session.receipt(receipt.id)).answer()).toBe(JSON.stringify(ULM));
  });

  test('a fork continues without the form of the turn before it', async () => {
    const { provider } = player([given(way, ULM)]);
    const runtime = await kit.open({ provider, agents });
    const session = runtime.session('s');
    await session.ask('A city', { output: city });
    const fork = await session.fork({ id: 's:fork' });
    expect(await fork.ask('In words')).toBe(
      given(way, ULM) === JSON.stringify(ULM) ? JSON.stringify(ULM) : 'nothing left',
    );
  });

  test('a message that rides along joins the turn, and its sender gets the text', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ provider: model.provider, agents });
    const session = runtime.session('s');
    const asked = session.ask('A city', { output: city });
    const call = await model.next();
    const rider = await session.send('A small one');
    call.answer(given(way, EMPTY));
    (await model.next()).answer(given(way, ULM));
    expect(await asked).toEqual(ULM);
    expect(await rider.answer()).toBe(JSON.stringify(ULM));
  });

  test('two forms never share a turn', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ provider: model.provider, agents });
    const session = runtime.session('s');
    const word = z.object({ word: z.string() });
    const one = session.ask('A city', { output: city });
    const call = await model.next();
    const two = session.ask('A word', { output: word });
    await eventually(async () => (await session.pending()).length === 1);
    call.answer(given(way, ULM));
    (await model.next()).answer(given(way, { word: 'so' }));
    expect(await one).toEqual(ULM);
    expect(await two).toEqual({ word: 'so' });
  });

  test('a child replies in the form of its spawn, and its parent gets the text once', async () => {
    const replies: Readonly<Record<string, readonly Reply[]>> = {
      'p:1': [given(way, EMPTY), given(way, ULM)],
      'p:2': [given(way, { ...ULM, name: 'Bonn' })],
    };
    const provider = scripted((_request, { session, call }) => replies[session]?.[call] ?? 'Thanks.');
    const runtime = await kit.open({ provider, agents });
    const parent = runtime.session('p');
    const child = await parent.spawn({ task: 'A city', output: city });
    expect(await child.reply()).toEqual(ULM);
    const family = await parent.spawnAll([{ task: 'Another', output: city, replies: 'handle' }]);
    expect((await family.all()).map(({ reply }) => reply.name)).toEqual(['Bonn']);
    const told = (await parent.messages()).filter(
      ({ type, source }) => type === 'tool_response' && source?.type === 'subagent',
    );
    expect(told.map(({ content }) => content)).toEqual([JSON.stringify(ULM)]);
    expect(await child.ask('In words?')).toBe('Thanks.');
  });

  test('a child whose reply never fits has failed with the issues', async () => {
    const provider = scripted((_request, { session }) => (session === 'p:1' ? given(way, EMPTY) : 'Thanks.'));
    const runtime = await kit.open({ provider, agents });
    const child = await runtime.session('p').spawn({ task: 'A city', output: city });
    expect(await failure(child.reply())).toMatchObject({
      code: 'answer_invalid',
      data: { issues: [{ path: '$.people' }] },
    });
  });

  test('listeners see an answer before it is judged, and may stop the run', async () => {
    const { provider, requests } = player([given(way, EMPTY), given(way, ULM)]);
    const runtime = await kit.open({ provider, agents });
    const session = runtime.session('s');
    const seen: number[] = [];
    session.onMessage(() => void seen.push(requests.length), { wait: true });
    expect(await session.ask('A city', { output: city })).toEqual(ULM);
    expect(seen.at(-1)).toBe(2);
  });

  test('a pause between an answer and its correction keeps the correction', async () => {
    const model = gatedModel();
    const runtime = await kit.open({ provider: model.provider, agents });
    const session = runtime.session('s');
    const asked = session.ask('A city', { output: city });
    const call = await model.next();
    await session.pause();
    call.answer(given(way, EMPTY));
    await eventually(async () => (await session.state()).state === 'executing');
    expect(model.calls).toHaveLength(1);
    await session.resume();
    (await model.next()).answer(given(way, ULM));
    expect(await asked).toEqual(ULM);
  });

  test('an agent with an output types every answer of its sessions', async () => {
    const clerk = agent({ name: 'clerk', model: MODELS[way], output: city });
    const { provider } = player([given(way, ULM), given(way, ULM), given(way, { word: 'so' })]);
    const runtime = await kit.open({ provider, agents: [clerk] });
    const session = runtime.session('s', clerk);
    const { kind } = await session.ask('A city');
    expect(kind).toBe('Town');
    // By the agent's name the answer is the text.
    expect(await runtime.session('s', 'clerk').ask('Another')).toBe(JSON.stringify(ULM));
    // A message may ask for another form.
    expect(await session.ask('A word', { output: z.object({ word: z.string() }) })).toEqual({ word: 'so' });
  });
});

describe('an answer in parts', () => {
  test('that paused in the middle of its text is one value', async () => {
    const { provider, requests } = player([
      { text: '{"name":"Ulm","people":5,', stopReason: 'pause_turn' },
      '"kind":"Town"}',
    ]);
    const runtime = await kit.open({ provider, agents: [agent({ name: 'a', model: MODELS.format })] });
    expect(await runtime.session('s').ask('A city', { output: city })).toEqual(ULM);
    expect(requests).toHaveLength(2);
  });
});

describe('the answer tool', () => {
  test('called with an input that is no object is corrected with that reason', async () => {
    const requests: ModelRequest[] = [];
    const provider: ModelProvider = {
      name: 'odd',
      generate: async (request) => {
        requests.push(request);
        const input: unknown = requests.length === 1 ? 'Ulm' : ULM;
        const call = { type: 'tool_use', id: `c${requests.length}`, name: 'final_answer', input } as const;
        return { content: [call], stop_reason: 'tool_use', usage: { input_tokens: 1, output_tokens: 1 } };
      },
    };
    const runtime = await kit.open({ provider, agents: [agent({ name: 'a', model: MODELS.tool })] });
    expect(await runtime.session('s').ask('A city', { output: city })).toEqual(ULM);
    expect(JSON.stringify(requests[1]?.messages.at(-1))).toContain('was not a JSON object but string');
  });

  test('other calls of the same answer do not run, and every call has its result', async () => {
    let runs = 0;
    const look = tool({ name: 'look', description: 'Look.', input: z.object({}), run: () => (runs += 1) });
    const both = { toolUse: [{ name: 'look' }, { name: 'final_answer', input: ULM }] };
    const { provider, requests } = player([both, 'Yes.']);
    const runtime = await kit.open({ provider, agents: [agent({ name: 'a', model: MODELS.tool, tools: [look] })] });
    const session = runtime.session('s');
    expect(await session.ask('A city', { output: city })).toEqual(ULM);
    expect(await session.ask('And now?')).toBe('Yes.');
    expect(runs).toBe(0);
    const results = JSON.stringify(requests[1]?.messages);
    expect(results).toContain('Not executed: the same message gave the final answer.');
    expect(results).toContain('The answer was taken.');
  });

  test('a text that fits is taken too; any other text is corrected', async () => {
    const { provider, requests } = player(['Ulm, I think.', JSON.stringify(ULM)]);
    const runtime = await kit.open({ provider, agents: [agent({ name: 'a', model: MODELS.tool })] });
    expect(await runtime.session('s').ask('A city', { output: city })).toEqual(ULM);
    expect(JSON.stringify(requests[1]?.messages.at(-1))).toContain('give it by calling the tool final_answer');
  });

  test('takes another name beside a tool of that name, and no person has to allow it', async () => {
    const own = tool({ name: 'final_answer', description: 'Own.', input: z.object({}), run: () => 'own' });
    const { provider } = player([
      { toolUse: { name: 'final_answer' } },
      { toolUse: { name: 'final_answer_2', input: ULM } },
    ]);
    const agents = [agent({ name: 'a', model: MODELS.tool, tools: [own], approve: () => false, maxSteps: 2 })];
    const runtime = await kit.open({ provider, agents });
    expect(await runtime.session('s').ask('A city', { output: city })).toEqual(ULM);
  });

  test('with toolChoice none it is the only tool', async () => {
    const own = tool({ name: 'own', description: 'Own.', input: z.object({}), run: () => 'own' });
    const { provider, requests } = player([given('tool', ULM)]);
    const agents = [agent({ name: 'a', model: MODELS.tool, tools: [own], toolChoice: 'none' })];
    const runtime = await kit.open({ provider, agents });
    await runtime.session('s').ask('A city', { output: city });
    expect(requests[0]?.tools?.map(({ name }) => name)).toEqual(['final_answer']);
    expect(requests[0]?.tool_choice).toBeUndefined();
  });
});

describe('the schema', () => {
  test('its transforms and checks make the typed answer; a check that fails is a typed failure', async () => {
    const { provider } = player([JSON.stringify({ day: '2026-11-23' }), JSON.stringify({ day: 'soon' })]);
    const runtime = await kit.open({ provider });
    const output = z.object({ day: z.string().transform((text) => text.length) });
    expect(await runtime.session('s').ask('When?', { output })).toEqual({ day: 10 });
    const strict = z.object({ day: z.string().refine((text) => text.includes('-'), 'no day') });
    expect(await failure(runtime.session('s').ask('When?', { output: strict }))).toMatchObject({
      code: 'answer_invalid',
      data: { issues: [{ path: '$.day', message: 'no day' }] },
    });
  });

  test('a JSON Schema types the answer as JSON', async () => {
    const { provider } = player(['{"n":1}']);
    const runtime = await kit.open({ provider });
    const output = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] };
    expect(await runtime.session('s').ask('A number', { output })).toEqual({ n: 1 });
  });

  test('a key with another form is a key used again', async () => {
    const { provider } = player([JSON.stringify(ULM)]);
    const runtime = await kit.open({ provider });
    const session = runtime.session('s');
    await session.ask('A city', { output: city, key: 'k' });
    expect(await session.ask('A city', { output: city, key: 'k' })).toEqual(ULM);
    expect(await failure(session.send('A city', { key: 'k' }))).toMatchObject({ code: 'key_reused' });
  });

  test('what cannot be asked for is refused before anything is stored, with the option and a remedy', async () => {
    const runtime = await kit.open({ provider: scripted(['no']) });
    const session = runtime.session('s');
    const map = z.object({ map: z.record(z.string(), z.number()) });
    const refused = await failure(session.ask('x', { output: map }));
    expect(refused).toBeInstanceOf(ConfigError);
    expect(refused.message).toContain('option "send.output": $.properties.map: an object with any property names');
    // @ts-expect-error an answer is an object
    expect(await failure(session.ask('x', { output: z.string() }))).toBeInstanceOf(ConfigError);
    const long = { type: 'object', properties: { a: { type: 'string', description: 'x'.repeat(70_000) } } };
    expect((await failure(session.ask('x', { output: long }))).message).toContain('at most 65536 are sent');
    // @ts-expect-error the message has a separate turn
    const riding = session.ask('x', { output: city, deliver: 'ride' });
    expect((await failure(riding)).message).toContain('use turn, interrupt or reject');
    const spawned = await failure(session.spawn({ task: 't', output: map }));
    expect(spawned.message).toContain('option "spawn.0.output": $.properties.map');
    expect(() => agent({ name: 'a', output: map })).toThrow('option "agent a.output": $.properties.map');
    expect(() => agent({ name: 'a', output: city, toolChoice: 'any' })).toThrow('leave toolChoice out');
    const request = { output_config: { format: { type: 'json_schema', schema: {} } } };
    expect(() => agent({ name: 'a', output: city, request })).toThrow('use the option "output" alone');
  });
});

describe('requests', () => {
  const SETTINGS = [...sdkModels(), 'some-model'].flatMap((model) =>
    THINKING.filter(
      (thinking) => thinking === undefined || isAccepted({ model, thinking }) || model === 'some-model',
    ).map((thinking) => ({ model, thinking })),
  );

  test.each(SETTINGS)('are legal for $model with thinking $thinking', async ({ model, thinking }) => {
    const look = tool({ name: 'look', description: 'Look.', input: z.object({}), run: () => 'Ulm' });
    const thought = thinking === undefined || thinking.type === 'disabled' ? {} : { thinking: 'Hm.' };
    let calls = 0;
    const provider = scripted(({ output_config, tools, tool_choice }) => {
      calls += 1;
      expect(tool_choice).toBeUndefined();
      if (calls === 1) return { ...thought, toolUse: { name: 'look' } };
      if (calls > 3) return { ...thought, text: 'Yes.' };
      const value = calls === 2 ? EMPTY : ULM;
      if (output_config?.['format'] !== undefined) return { ...thought, text: JSON.stringify(value) };
      expect(tools?.map(({ name }) => name)).toEqual(['look', 'final_answer']);
      return { ...thought, toolUse: { name: 'final_answer', input: value } };
    });
    const options = { name: 'a', model, tools: [look], ...(thinking === undefined ? {} : { thinking }) };
    const runtime = await kit.open({ provider, agents: [agent(options)] });
    const session = runtime.session('s');
    const source = { type: 'text', media_type: 'text/plain', data: 'Ulm is small.' } as const;
    const document = { type: 'document', source, citations: { enabled: true } } as const;
    expect(await session.ask([document, { type: 'text', text: 'A city' }], { output: city })).toEqual(ULM);
    expect(await session.ask('And now?')).toBe('Yes.');
    expect(calls).toBe(4);
  });

  test('R58: a format that an agent sets by itself is sent without citations too', async () => {
    const format = { type: 'json_schema', schema: { type: 'object', additionalProperties: false } } as const;
    const { provider, requests } = player(['{}']);
    const agents = [agent({ name: 'a', model: 'claude-opus-5-5', request: { output_config: { format } } })];
    const runtime = await kit.open({ provider, agents });
    const source = { type: 'text', media_type: 'text/plain', data: 'Ulm is small.' } as const;
    const document = { type: 'document', source, citations: { enabled: true } } as const;
    expect(await runtime.session('s').ask([document, { type: 'text', text: 'A city' }])).toBe('{}');
    expect(JSON.stringify(requests[0]?.messages)).not.toContain('citations');
  });

  test('reach the strict fake over HTTP as the API takes them', async () => {
    for (const model of ['claude-opus-5-5', 'claude-haiku-4-5', 'claude-sonnet-5']) {
      const fake = await strictFake({ script: [JSON.stringify(EMPTY), JSON.stringify(ULM)] });
      const provider = anthropic({ apiKey: 'test', baseURL: fake.url });
      const runtime = await kit.open({ provider, agents: [agent({ name: 'a', model })] });
      expect(await runtime.session('s').ask('A city', { output: city })).toEqual(ULM);
      expect(fake.violations).toEqual([]);
      expect(fake.requests).toHaveLength(2);
      await runtime.close();
      await fake.close();
    }
  });
});
