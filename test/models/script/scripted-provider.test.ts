import { describe, expect, it } from 'vitest';
import { CancelledError } from '../../../src/base/errors.ts';
import type { ContentBlock } from '../../../src/base/messages.ts';
import { checkRequest } from '../../../src/context/legality/legality.ts';
import type { ModelProvider, ModelRequest } from '../../../src/models/provider.ts';
import { resolveProvider } from '../../../src/models/resolve.ts';
import { createScriptedProvider } from '../../../src/models/script/provider.ts';
import type { Script } from '../../../src/models/script/script.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { ask, context, failure, textOf } from '../calls.ts';

const TOOLS = [{ name: 'add', description: 'Adds.', input_schema: { type: 'object' } }];

/** A request that answers the calls of a response. */
function answering(request: ModelRequest, content: readonly ContentBlock[], result: string): ModelRequest {
  const results = content.flatMap((block) =>
    block.type === 'tool_use' ? [{ type: 'tool_result' as const, tool_use_id: block.id, content: result }] : [],
  );
  return {
    ...request,
    messages: [...request.messages, { role: 'assistant', content }, { role: 'user', content: results }],
  };
}

async function say(model: ModelProvider, session: string, request: ModelRequest = ask()): Promise<string> {
  return textOf(await model.generate(request, context(session)));
}

describe('scripted model', () => {
  it('Q1, Q2: each session takes the list from its start, errors included, and fails with a message after the last reply', async () => {
    const model = createScriptedProvider(['one', { error: { status: 529, retryAfterMs: 9 } }, 'three']);
    expect(await say(model, 'a')).toBe('one');
    expect(await say(model, 'b')).toBe('one');
    await expect(say(model, 'a')).rejects.toMatchObject({
      code: 'model_overloaded',
      status: 529,
      retryAfterMs: 9,
      retryable: true,
    });
    expect(await say(model, 'a')).toBe('three');
    await expect(say(model, 'a')).rejects.toMatchObject({
      code: 'model_invalid_request',
      message: 'the script is exhausted after 3 replies',
    });
  });

  it('streams its words one by one, as far apart as asked; an interrupt ends the call between two of them', async () => {
    const clock = manualClock();
    const model = createScriptedProvider(['one two three', 'four five'], { clock, pieceMs: 50 });
    const call = context();
    const answered = model.generate(ask(), call);
    const seen: string[][] = [];
    for (let step = 0; step < 4; step += 1) {
      seen.push(call.deltas.map(({ text }) => text));
      await clock.advance(50);
    }
    expect(seen).toEqual([[], ['one '], ['one ', 'two '], ['one ', 'two ', 'three']]);
    expect(textOf(await answered)).toBe('one two three');
    const stop = new AbortController();
    const cut = { ...context(), signal: stop.signal };
    const given = model.generate(ask(), cut).catch((error: unknown) => error);
    await clock.advance(50);
    stop.abort();
    expect(await given).toBeInstanceOf(CancelledError);
    expect(scripted(['one'], { pieceMs: 5 })).toMatchObject({ kind: 'scripted', pieceMs: 5 });
    for (const pieceMs of [-1, Number.NaN, 60_001]) {
      expect(() => createScriptedProvider(['one'], { pieceMs })).toThrow('scripted.pieceMs');
    }
  });

  it('streams words that add up to the text, and thoughts first', async () => {
    const model = createScriptedProvider([{ thinking: 'Let me see.', text: ' One  two\nthree ' }]);
    const call = context();
    const response = await model.generate(ask(), call);
    const joined = (type: string): string =>
      call.deltas
        .filter((delta) => delta.type === type)
        .map((delta) => delta.text)
        .join('');
    expect(joined('text')).toBe(' One  two\nthree ');
    expect(joined('thinking')).toBe('Let me see.');
    expect(call.deltas.length).toBeGreaterThan(4);
    expect(response).toMatchObject({
      stop_reason: 'end_turn',
      content: [{ type: 'thinking', signature: expect.stringMatching(/./) }, { type: 'text' }],
    });
  });

  it('F38: usage is scripted, or is estimated from the texts and never zero', async () => {
    const model = createScriptedProvider(['', 'x'.repeat(400), { text: 'a', usage: { input_tokens: 5 } }]);
    const usages = [];
    for (let n = 0; n < 3; n += 1) usages.push((await model.generate(ask('x'.repeat(4_000)), context())).usage);
    expect(usages[0]?.output_tokens).toBe(1);
    expect(usages[0]?.input_tokens).toBeGreaterThan(1_000);
    expect(usages[1]?.output_tokens).toBeGreaterThanOrEqual(100);
    expect(usages[2]?.input_tokens).toBe(5);
  });

  it('Q3: generated ids repeat for the same request and never repeat inside a history', async () => {
    const script: Script = Array.from({ length: 4 }, () => ({
      toolUse: [{ name: 'add' }, { name: 'add', input: { a: 1 } }],
    }));
    const run = async (): Promise<ModelRequest> => {
      let request = ask('go', { tools: TOOLS });
      for (let round = 0; round < 2; round += 1) {
        // A new process starts the script again in the middle of the history.
        const model = createScriptedProvider(script);
        for (let call = 0; call < 2; call += 1) {
          const { content } = await model.generate(request, context());
          request = answering(request, content, 'x');
        }
      }
      return request;
    };
    const request = await run();
    expect(checkRequest(request)).toEqual([]);
    expect(await run()).toEqual(request);
    const three = answering(
      ask('go', { tools: TOOLS }),
      (await createScriptedProvider(script).generate(ask(), context())).content,
      'x',
    );
    const taken = (await createScriptedProvider(script).generate(three, context())).content;
    // A history of the same length, with exactly the ids that would be generated for it.
    const clash = answering(ask('go', { tools: TOOLS }), taken, 'x');
    const { content } = await createScriptedProvider(script).generate(clash, context());
    expect(checkRequest(answering(clash, content, 'x'))).toEqual([]);
  });

  it('Q4: an illegal request is refused with its rule and consumes no reply; strict: false accepts it', async () => {
    const bad = ask('x', { messages: [{ role: 'user', content: [{ type: 'text', text: '' }] }] });
    const model = createScriptedProvider(['kept']);
    expect(await failure(model, bad)).toMatchObject({
      code: 'model_invalid_request',
      status: 400,
      data: { rule: 'R08' },
    });
    expect(await say(model, 's')).toBe('kept');
    expect(await say(createScriptedProvider(['taken'], { strict: false }), 's', bad)).toBe('taken');
  });

  it('F31, R12, R38: a paused turn may be resumed unchanged, any other assistant end may not', async () => {
    const model = createScriptedProvider([
      { text: 'Looking', stopReason: 'pause_turn' },
      { text: ' on', stopReason: 'pause_turn' },
      'Done.',
    ]);
    const end = (...texts: string[]): ModelRequest =>
      ask('x', {
        messages: [
          { role: 'user', content: 'x' },
          { role: 'assistant', content: texts.map((text) => ({ type: 'text' as const, text })) },
        ],
      });
    expect(await say(model, 's')).toBe('Looking');
    expect(await failure(model, end('Other'))).toMatchObject({ data: { rule: 'R12' } });
    expect(await say(model, 's', end('Looking'))).toBe(' on');
    expect(await say(model, 's', end('Looking', ' on'))).toBe('Done.');
  });

  it('Q5, F39: delayMs follows the clock, and an abort ends it at once', async () => {
    const clock = manualClock();
    const model = createScriptedProvider(
      [
        { text: 'late', delayMs: 1_000 },
        { text: 'never', delayMs: 1_000 },
      ],
      { clock },
    );
    let answer: string | undefined;
    const first = say(model, 's').then((text) => {
      answer = text;
    });
    await clock.advance(999);
    expect(answer).toBeUndefined();
    await clock.advance(1);
    await first;
    expect(answer).toBe('late');
    const controller = new AbortController();
    const second = model.generate(ask(), context('s', controller.signal));
    await clock.advance(1);
    controller.abort();
    await expect(second).rejects.toBeInstanceOf(CancelledError);
    expect(clock.pending).toBe(0);
  });

  it('functions receive the request, the session and the number of the call; errors name the invalid reply', async () => {
    const model = createScriptedProvider((request, { session, call }) =>
      call === 1 ? ({ txt: 1 } as object) : `${session} ${call} ${textOfFirst(request)}`,
    );
    expect(await say(model, 'a', ask('hey'))).toBe('a 0 hey');
    await expect(say(model, 'a')).rejects.toThrow(/reply 1: unknown key "txt"/);
    expect(await say(createScriptedProvider(['x', () => 'from a function']), 'a')).toBe('x');
  });

  it('rules answer from texts and tool results, as plain data', async () => {
    const model = createScriptedProvider({
      rules: [
        { when: { tool: 'add', result: 'boom' }, reply: 'It failed.' },
        { when: { result: true }, reply: 'The sum is {{result}}, as asked: {{text}}' },
        {
          when: { call: 0, text: 'Add', system: 'brief' },
          reply: { toolUse: { name: 'add', input: { of: '{{text}}' } } },
        },
      ],
      otherwise: 'I cannot.',
    });
    const request = ask('Add $& 1', { tools: TOOLS, system: 'Be brief.' });
    const { content } = await model.generate(request, context());
    expect(content).toMatchObject([{ type: 'tool_use', input: { of: 'Add $& 1' } }]);
    expect(await say(model, 's', answering(request, content, '3'))).toBe('The sum is 3, as asked: Add $& 1');
    expect(await say(model, 's', answering(request, content, 'boom!'))).toBe('It failed.');
    expect(await say(model, 's', ask('Add'))).toBe('I cannot.');
    expect(await failure(createScriptedProvider({ rules: [] }))).toMatchObject({ code: 'model_invalid_request' });
  });

  it.each([
    [{ code: 'model_connection' }, 'model_connection', true],
    [{ code: 'model_protocol' }, 'model_protocol', true],
    [{ code: 'model_timeout' }, 'model_timeout', true],
    [{ type: 'rate_limit_error' }, 'model_rate_limited', true],
    [{ status: 403, message: 'no' }, 'model_authentication', false],
    [{}, 'model_overloaded', true],
  ] as const)('an error %j is %s', async (error, code, retryable) => {
    expect(await failure(createScriptedProvider([{ error }]))).toMatchObject({ code, retryable });
  });
});

function textOfFirst(request: ModelRequest): string {
  return String(request.messages[0]?.content);
}

describe('scripted()', () => {
  it('returns data for plain scripts, and a provider for functions and clocks', () => {
    expect(scripted(['a'])).toEqual({ kind: 'scripted', script: ['a'] });
    expect(scripted(['a'], { strict: false })).toEqual({ kind: 'scripted', script: ['a'], strict: false });
    expect(scripted(() => 'a')).toMatchObject({ name: 'scripted' });
    expect(scripted(['a', () => 'b'])).toMatchObject({ name: 'scripted' });
    expect(scripted(['a'], { clock: manualClock() })).toMatchObject({ name: 'scripted' });
    const module = scripted({ module: new URL('file:///a.ts'), export: 'b' });
    expect(structuredClone(module)).toEqual({ kind: 'scripted', script: { module: 'file:///a.ts', export: 'b' } });
  });

  it.each([
    [7, /script: expected a list/],
    [[7], /script\[0\]: expected a string or an object/],
    [[{ txt: 'a' }], /script\[0\]: unknown key "txt"/],
    [['a', { toolUse: {} }], /script\[1\]\.toolUse/],
    [[{ error: { retry: 1 } }], /script\[0\]\.error: unknown key "retry"/],
    [[{ content: 'a' }], /script\[0\]\.content/],
    [{ rules: 'a' }, /script\.rules/],
    [{ rules: [{ when: { who: 1 }, reply: 'a' }] }, /script\.rules\[0\]\.when: unknown key "who"/],
    [{ module: 'not a url' }, /script\.module/],
  ])('refuses %j by name', (script, message) => {
    expect(() => scripted(script as unknown as Script)).toThrow(message);
  });
});

describe('resolveProvider', () => {
  const modules = new URL('../modules/', import.meta.url);
  const script = new URL('script.ts', modules).href;

  it('builds each kind of data', async () => {
    expect((await resolveProvider({ kind: 'anthropic', options: { apiKey: 'k' } })).name).toBe('anthropic');
    expect(await say(await resolveProvider({ kind: 'scripted', script: ['a'] }), 's')).toBe('a');
    expect(
      await say(await resolveProvider({ kind: 'scripted', script: { module: script, export: 'answer' } }), 's'),
    ).toBe('s 0 1');
    expect(
      await say(await resolveProvider({ kind: 'scripted', script: { module: script, export: 'list' } }), 's'),
    ).toBe('from a list');
    expect((await resolveProvider({ kind: 'module', url: new URL('provider.ts', modules).href })).name).toBe('mine');
    expect(await say(createScriptedProvider({ module: script, export: 'answer' }), 's')).toBe('s 0 1');
  });

  it('names the data that it cannot build a provider from', async () => {
    const cases: readonly (readonly [Parameters<typeof resolveProvider>[0], RegExp])[] = [
      [{ kind: 'module', url: script }, /default export of .*script\.ts must be a provider/],
      [{ kind: 'module', url: new URL('missing.ts', modules).href }, /missing\.ts cannot be loaded/],
      [{ kind: 'scripted', script: { module: script, export: 'nothing' } }, /script: expected/],
      [{ kind: 'scripted', script: { module: script, export: 'absent' } }, /no export "absent"/],
      [{ kind: 'anthropic', options: { model: 'x' } as object }, /anthropic\.model/],
    ];
    for (const [data, message] of cases) {
      await expect(resolveProvider(data)).rejects.toMatchObject({
        code: 'config',
        message: expect.stringMatching(message),
      });
    }
  });
});
