// Goal: an agent with several models, through the public API: when a half-step moves to the next model, that the move is
// durable, and when a session returns to the first model.
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { agent, ConfigError, type OpenOptions, type Runtime, type SessionEvent, tool } from '../../../src/index.ts';
import type { ModelProvider, ModelRequest } from '../../../src/models/provider.ts';
import type { Reply } from '../../../src/models/script/script.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { failure, history, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();
const FIRST = 'claude-opus-4-8';
const SECOND = 'claude-sonnet-5-5';
/** The same model names at two providers. */
const NORTH = `north/${FIRST}`;
const SOUTH = `south/${SECOND}`;

/** A provider whose models answer as the test says, and the models of the calls so far. */
function models(reply: (model: string, request: ModelRequest, call: number) => Reply): {
  readonly provider: ModelProvider;
  readonly calls: string[];
} {
  const calls: string[] = [];
  const provider = scripted((request) => {
    calls.push(request.model);
    return reply(request.model, request, calls.length);
  }) as ModelProvider;
  return { provider, calls };
}

const refused = (status: number, retryAfterMs?: number): Reply => ({
  error: { status, message: `no (${status})`, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) },
});

const FAST_RETRY = { llm: { retry: { attempts: 3, base: 0.001, maximum: 0.001 } } };

/** A runtime whose first model is of one provider and whose second is of another. */
function openWith(provider: ModelProvider, more: OpenOptions & { readonly directory?: string } = {}): Promise<Runtime> {
  return kit.open({
    providers: { north: provider, south: provider },
    settings: FAST_RETRY,
    agents: [agent({ name: 'a', model: [NORTH, SOUTH] })],
    ...more,
  });
}

function changes(events: readonly SessionEvent[]): readonly object[] {
  return events.flatMap((event) =>
    event.type === 'model.changed' ? [{ model: event.model, reason: event.reason }] : [],
  );
}

describe('the move to the next model', () => {
  test.each([
    ['its retries are exhausted', 529, [FIRST, FIRST, FIRST, SECOND], 'model_overloaded'],
    ['its credentials are refused', 401, [FIRST, SECOND], 'model_authentication'],
    ['it is unknown', 404, [FIRST, SECOND], 'model_invalid_request'],
  ])('a half-step moves on if %s', async (_why, status, expected, reason) => {
    const { provider, calls } = models((model) => (model === FIRST ? refused(status) : 'ok'));
    const runtime = await openWith(provider);
    const session = runtime.session('s');
    expect(await session.ask('Hi')).toBe('ok');
    expect(calls).toEqual(expected);
    const state = await session.state();
    expect(state.blocked).toBeUndefined();
    expect(state.usage.models).toEqual({
      [SOUTH]: { input_tokens: expect.any(Number), output_tokens: expect.any(Number) },
    });
    expect(changes(await history(session))).toEqual([{ model: SOUTH, reason }]);
    // The session stays with it.
    expect(await session.ask('Again')).toBe('ok');
    expect(calls.at(-1)).toBe(SECOND);
    expect(calls).toHaveLength(expected.length + 1);
  });

  test('a refused key moves only to another provider: it stops all models of its own', async () => {
    const { provider, calls } = models((model) => (model === FIRST ? refused(401) : 'ok'));
    // A name without a prefix is of the first provider too.
    const agents = [agent({ name: 'a', model: [NORTH, `north/${SECOND}`, SECOND] })];
    const runtime = await openWith(provider, { agents });
    expect(await failure(runtime.session('s').ask('Hi'))).toMatchObject({ cause: { code: 'model_authentication' } });
    expect(calls).toEqual([FIRST]);
  });

  test('a request that the API calls invalid moves nowhere', async () => {
    const { provider, calls } = models(() => refused(400));
    const runtime = await openWith(provider);
    expect(await failure(runtime.session('s').ask('Hi'))).toMatchObject({ cause: { code: 'model_invalid_request' } });
    expect(calls).toEqual([FIRST]);
  });

  test('an answer that refuses is not in the log, and its tokens count for its model', async () => {
    const { provider, calls } = models((model) =>
      model === FIRST ? { text: 'I will not.', stopReason: 'refusal' } : 'ok',
    );
    const runtime = await openWith(provider);
    const session = runtime.session('s');
    expect(await session.ask('Hi')).toBe('ok');
    expect(calls).toEqual([FIRST, SECOND]);
    expect((await session.messages()).map(({ content }) => content)).toEqual(['Hi', 'ok']);
    expect(Object.keys((await session.state()).usage.models ?? {})).toEqual([NORTH, SOUTH]);
    expect(changes(await history(session))).toEqual([{ model: SOUTH, reason: 'refusal' }]);
  });

  test('a pause beyond fallbackAfterMs is not waited for, and other sessions do not ask at all', async () => {
    const clock = manualClock();
    const { provider, calls } = models((model) => (model === FIRST ? refused(429, 60_000) : 'ok'));
    const agents = [agent({ name: 'a', model: [NORTH, SOUTH], fallbackAfterMs: 5_000 })];
    const runtime = await openWith(provider, { clock, agents });
    expect(await runtime.session('s').ask('Hi')).toBe('ok');
    expect(await runtime.session('t').ask('Hi')).toBe('ok');
    expect(calls).toEqual([FIRST, SECOND, SECOND]);
  });
});

describe('the models of a session', () => {
  test('the model outlives the process; a tool whose answer came before the move runs once', async () => {
    const directory = join(await kit.directory(), 'store');
    let runs = 0;
    const charge = tool({
      name: 'charge',
      description: 'Charges.',
      input: { type: 'object' },
      effect: 'once',
      run: () => {
        runs += 1;
        return 'charged';
      },
    });
    const agents = [agent({ name: 'a', model: [NORTH, SOUTH], tools: [charge] })];
    const { provider, calls } = models((model, _request, call) => {
      if (call === 1) return { toolUse: { name: 'charge', input: {} } };
      return model === FIRST ? refused(529) : 'ok';
    });
    const runtime = await openWith(provider, { directory, agents });
    expect(await runtime.session('s').ask('Pay.')).toBe('ok');
    expect(calls).toEqual([FIRST, FIRST, FIRST, FIRST, SECOND]);
    await runtime.close();
    const again = await openWith(provider, { directory, agents });
    expect(await again.session('s').ask('And now?')).toBe('ok');
    expect(calls.slice(5)).toEqual([SECOND]);
    expect(runs).toBe(1);
    // With one model only, the session has that one.
    await again.close();
    const single = await openWith(provider, {
      directory,
      agents: [agent({ name: 'a', model: SOUTH, tools: [charge] })],
    });
    expect(await single.session('s').ask('Still?')).toBe('ok');
    expect(calls.slice(6)).toEqual([SECOND]);
    expect(changes(await history(single.session('s'))).at(-1)).toEqual({ model: SOUTH, reason: 'model_overloaded' });
  });

  test('a turn fails behind the last model, and the next turn begins with the first', async () => {
    let isDown = true;
    const { provider, calls } = models(() => (isDown ? refused(529) : 'ok'));
    const runtime = await openWith(provider);
    const session = runtime.session('s');
    expect(await failure(session.ask('Hi'))).toMatchObject({ cause: { code: 'model_overloaded' } });
    expect(calls).toEqual([FIRST, FIRST, FIRST, SECOND, SECOND, SECOND]);
    isDown = false;
    expect(await session.ask('Again')).toBe('ok');
    expect(calls.slice(6)).toEqual([FIRST]);
    expect(changes(await history(session))).toEqual([
      { model: SOUTH, reason: 'model_overloaded' },
      { model: NORTH, reason: 'return' },
    ]);
  });

  test('a new turn returns to the first model after returnAfterMs; its failure leads back at once', async () => {
    const clock = manualClock();
    let isDown = true;
    const { provider, calls } = models((model) => (isDown && model === FIRST ? refused(401) : 'ok'));
    const agents = [agent({ name: 'a', model: [NORTH, SOUTH], returnAfterMs: 60_000 })];
    const runtime = await openWith(provider, { clock, agents });
    const session = runtime.session('s');
    expect(await session.ask('One')).toBe('ok');
    await clock.advance(59_999);
    expect(await session.ask('Two')).toBe('ok');
    await runtime.resume();
    await clock.advance(1);
    expect(await session.ask('Three')).toBe('ok');
    expect(calls).toEqual([FIRST, SECOND, SECOND, FIRST, SECOND]);
    isDown = false;
    await runtime.resume();
    await clock.advance(60_000);
    expect(await session.ask('Four')).toBe('ok');
    expect(calls.slice(5)).toEqual([FIRST]);
    expect(await session.ask('Five')).toBe('ok');
    expect(calls.slice(6)).toEqual([FIRST]);
  });

  test('a child moves as its parent does, and settings.llm.subagentModel is its only model', async () => {
    const { provider, calls } = models((model) => (model === FIRST ? refused(401) : 'ok'));
    const runtime = await openWith(provider);
    const child = await runtime.session('s').spawn({ task: 'Look.' });
    expect(await child.reply()).toBe('ok');
    expect(calls.slice(0, 2)).toEqual([FIRST, SECOND]);
  });
});

describe('the options', () => {
  test.each([
    [{ model: [] }, /"agent a\.model"/u],
    [{ model: [NORTH, NORTH] }, /"agent a\.model".*twice/u],
    [{ model: NORTH, fallbackAfterMs: 10 }, /"agent a\.fallbackAfterMs".*several models/u],
    [{ model: [NORTH, SOUTH], returnAfterMs: -1 }, /"agent a\.returnAfterMs".*got number -1/u],
  ])('A9: %o is refused, and the error names the option', (options, message) => {
    let thrown: unknown;
    try {
      agent({ name: 'a', ...options });
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(ConfigError);
    expect((thrown as Error).message).toMatch(message);
  });

  test('an option that only a later model refuses is left out for it', async () => {
    const requests: ModelRequest[] = [];
    const provider = scripted((request) => {
      requests.push(request);
      return request.model === FIRST ? refused(401) : 'ok';
    });
    const agents = [agent({ name: 'a', model: [NORTH, 'south/claude-haiku-4-5'], effort: 'high', speed: 'fast' })];
    const runtime = await openWith(provider as ModelProvider, { agents });
    expect(await runtime.session('s').ask('Hi')).toBe('ok');
    expect(requests.map(({ output_config, speed }) => ({ effort: output_config?.effort, speed }))).toEqual([
      { effort: 'high', speed: 'fast' },
      { effort: undefined, speed: undefined },
    ]);
  });
});
