/**
 * Goal: with several providers each model's calls go to its own, and the trouble of one stops no other. Spans layers:
 * options, shard, host, governor, enrichers.
 */
import { describe, expect, test } from 'vitest';
import { ModelError } from '../../../src/base/errors.ts';
import type { Logger, OpenOptions } from '../../../src/index.ts';
import { agent } from '../../../src/index.ts';
import type { ModelProvider, ModelRequest } from '../../../src/models/provider.ts';
import { checkOptions } from '../../../src/runtime/protocol/options.ts';
import { manualClock } from '../../../src/testing/manual-clock.ts';
import { scripted } from '../../../src/testing/scripted.ts';
import { MATRIX, runtimeKit } from '../../support/runtime-kit.ts';

const kit = runtimeKit();

const EXAMPLE = scripted(['ok']);

function problemOf(options: object): string {
  try {
    checkOptions(options);
  } catch (error) {
    return (error as Error).message;
  }
  return 'no error';
}

/** A provider value that notes its requests. `isRefusing`: the credentials are refused. */
function notedProvider(answer: string) {
  const requests: ModelRequest[] = [];
  const state = { isRefusing: false };
  const provider: ModelProvider = {
    name: `noted-${answer}`,
    generate: async (request, { onDelta }) => {
      requests.push(request);
      if (state.isRefusing) throw new ModelError('model_authentication', 'not this key', { data: { status: 401 } });
      onDelta({ type: 'text', text: answer });
      return {
        content: [{ type: 'text', text: answer }],
        stop_reason: 'end_turn',
        usage: { input_tokens: 1, output_tokens: 1 },
      };
    },
  };
  return { provider, requests, state };
}

const AGENTS = [
  agent({ name: 'left', model: 'one/model-1' }),
  agent({ name: 'right', model: 'two/vendor/model-2' }),
  agent({ name: 'plain', model: 'three/model-3' }),
];

describe('the options', () => {
  test('the first provider is `provider`, otherwise the first by name, otherwise the Anthropic API', () => {
    const keysOf = (options: OpenOptions): unknown => checkOptions(options).providers.map(({ key }) => key);
    expect(keysOf({})).toEqual(['']);
    expect(keysOf({ provider: EXAMPLE })).toEqual(['']);
    expect(keysOf({ providers: { b: EXAMPLE, a: EXAMPLE } })).toEqual(['b', 'a']);
    expect(keysOf({ provider: EXAMPLE, providers: { b: EXAMPLE } })).toEqual(['', 'b']);
    const url = new URL('file:///provider.js');
    expect(checkOptions({ providers: { b: url } }).providers).toMatchObject([
      { provider: { kind: 'module', url: url.href } },
    ]);
  });

  test('an error names the key, the value and the remedy', () => {
    expect(problemOf({ providers: {} })).toBe('option "providers": must have 1 to 32 providers by name; got object');
    const many = Object.fromEntries(Array.from({ length: 33 }, (_none, index) => [`p${index}`, EXAMPLE]));
    expect(problemOf({ providers: many })).toContain('option "providers": must have 1 to 32 providers by name');
    expect(problemOf({ providers: { 'a/b': EXAMPLE } })).toContain(
      'option "providers.a/b": the name of a provider has 1 to 64 letters, digits, "_" and "-"',
    );
    expect(problemOf({ providers: { ['x'.repeat(65)]: EXAMPLE } })).toContain('1 to 64 letters');
    expect(problemOf({ providers: { gpt: 5 } })).toContain('option "providers.gpt": must be a provider');
  });

  test('governor: the same limits for each provider, or limits by name', () => {
    const providers = { claude: EXAMPLE, gpt: EXAMPLE };
    const limitsOf = (governor: OpenOptions['governor']): unknown =>
      checkOptions({ providers, ...(governor === undefined ? {} : { governor }) }).providers.map(
        (each) => each.governor,
      );
    expect(limitsOf(undefined)).toEqual([undefined, undefined]);
    expect(limitsOf({ concurrency: 5 })).toEqual([{ concurrency: 5 }, { concurrency: 5 }]);
    expect(limitsOf({ gpt: { concurrency: 5 } })).toEqual([undefined, { concurrency: 5 }]);
    expect(problemOf({ providers, governor: { gtp: { concurrency: 5 } } })).toBe(
      'option "governor.gtp": must be the name of a provider: claude, gpt',
    );
    expect(problemOf({ governor: { gpt: { concurrency: 5 } } })).toContain('there is no option providers');
    expect(problemOf({ providers, governor: { gpt: { concurrency: 0 } } })).toContain('"governor.gpt.concurrency"');
    expect(problemOf({ providers, governor: { gpt: { calls: 1 } } })).toContain(
      'unknown option "governor.gpt.calls"; known options: ',
    );
    expect(problemOf({ governor: { concurrency: 'many' } })).toContain('"governor.concurrency"');
    expect(problemOf({ governor: { calls: 1 } })).toContain('unknown option "governor.calls"; known options: ');
    expect(problemOf({ governor: 5 })).toContain('option "governor"');
  });

  test('a limit that is too small for the session threads is refused by its own name', async () => {
    const threads = { sessions: 2, models: 0 };
    const providers = { gpt: EXAMPLE };
    const opening = kit.open({ threads, providers, governor: { gpt: { concurrency: 1 } } });
    await expect(opening).rejects.toThrow('option "governor.gpt.concurrency": must be at least');
  });

  test('a prefix that is almost the name of a provider is a part of the model, and a warning says so', async () => {
    const warnings: string[] = [];
    const quiet = (): void => undefined;
    const logger: Logger = { debug: quiet, info: quiet, error: quiet, warn: (_fields, text) => warnings.push(text) };
    const first = notedProvider('first');
    const agents = ['GPT/m', 'gptt/m', 'mistral/m', 'gpt/m', 'm'].map((model, index) =>
      agent({ name: `a${index}`, model }),
    );
    const runtime = await kit.open({ provider: first.provider, providers: { gpt: EXAMPLE }, agents, logger });
    expect(warnings).toEqual([
      'the model GPT/m goes to the first provider, since none has the name GPT: did you mean gpt/m?',
      'the model gptt/m goes to the first provider, since none has the name gptt: did you mean gpt/m?',
    ]);
    expect(await runtime.session('s', 'a0').ask('Hi')).toBe('first');
    expect(first.requests.map(({ model }) => model)).toEqual(['GPT/m']);
  });

  test('an option that the model refuses is refused under the name of its provider too', async () => {
    const agents = [agent({ name: 'a', model: 'claude/claude-opus-4-6', effort: 'xhigh' })];
    await expect(kit.open({ providers: { claude: EXAMPLE }, agents })).rejects.toThrow(
      'option "agent a.effort": claude-opus-4-6 refuses "xhigh"',
    );
  });
});

describe.each(MATRIX)('two providers, sessions: $sessions, models: $models', (threads) => {
  test('each model goes to the provider before the slash; without such a name the first has it', async () => {
    const one = notedProvider('one');
    const two = notedProvider('two');
    const providers = { one: one.provider, two: two.provider };
    const runtime = await kit.open({ threads, providers, agents: AGENTS });
    const said = await Promise.all(AGENTS.map(({ name }) => runtime.session(name, name).ask('Hi')));
    expect(said).toEqual(['one', 'two', 'one']);
    expect(one.requests.map(({ model }) => model).sort()).toEqual(['model-1', 'three/model-3']);
    expect(two.requests).toMatchObject([{ model: 'vendor/model-2', transport: { provider: 'two' } }]);
    expect(await runtime.session('right').ask('And now?')).toBe('two');
    expect(two.requests[1]?.messages).toHaveLength(3);
  });

  test('providers as data have their own model threads; a bad one keeps the runtime from starting', async () => {
    const providers = { one: scripted(['from one']), two: new URL('../fixtures/provider.ts', import.meta.url) };
    const runtime = await kit.open({ threads, providers, agents: AGENTS });
    expect(await runtime.session('l', 'left').ask('Hi')).toBe('from one');
    expect(await runtime.session('r', 'right').ask('Hi')).toMatch(/^thread \d+$/u);
    const missing = new URL('../fixtures/no-such-provider.ts', import.meta.url);
    const opening = kit.open({ threads, providers: { one: scripted([]), two: missing } });
    await expect(opening).rejects.toThrow('no-such-provider.ts cannot be loaded');
  });

  test('refused credentials stop the sessions of their provider alone, until resume()', async () => {
    const one = notedProvider('one');
    const two = notedProvider('two');
    const lines: { readonly fields: object; readonly text: string }[] = [];
    const quiet = (): void => undefined;
    const error = (fields: object, text: string): number => lines.push({ fields, text });
    const providers = { one: one.provider, two: two.provider };
    const logger: Logger = { debug: quiet, info: quiet, warn: quiet, error };
    const runtime = await kit.open({ threads, providers, agents: AGENTS, logger });
    two.state.isRefusing = true;
    const first = await runtime.session('first', 'right').send('Hi');
    await expect(first.answer()).rejects.toMatchObject({ cause: { code: 'model_authentication' } });
    const waiting = await runtime.session('waiting', 'right').send('Hi');
    expect(await runtime.session('free', 'left').ask('Hi')).toBe('one');
    await runtime.drain();
    expect(two.requests).toHaveLength(1);
    expect(await runtime.session('waiting').explain()).toMatchObject({
      reason: 'waiting_for_governor',
      detail: expect.stringMatching(/provider two: .*credentials.*resume\(\)/u),
    });
    const { providers: figures, ...totals } = runtime.metrics();
    expect(figures).toEqual({
      one: { modelCalls: 1, modelCallsRunning: 0, modelCallsWaiting: 0, circuitsOpen: 0, credentialsRefused: 0 },
      two: { modelCalls: 2, modelCallsRunning: 1, modelCallsWaiting: 1, circuitsOpen: 0, credentialsRefused: 1 },
    });
    expect(totals).toMatchObject({ modelCalls: 3, modelCallsRunning: 1, modelCallsWaiting: 1 });
    expect(lines).toEqual([
      {
        text: 'the credentials of provider two were refused: no session calls it until resume()',
        fields: expect.objectContaining({ provider: 'two' }),
      },
    ]);
    two.state.isRefusing = false;
    await runtime.resume();
    expect(await waiting.answer()).toBe('two');
    expect(runtime.metrics().providers['two']).toMatchObject({ modelCallsWaiting: 0, credentialsRefused: 0 });
  });
});

test('a lone provider has the figures of the runtime, under its name', async () => {
  const runtime = await kit.open({ provider: scripted(['ok']) });
  await runtime.session('s').ask('Hi');
  const none = { modelCallsRunning: 0, modelCallsWaiting: 0, circuitsOpen: 0, credentialsRefused: 0 };
  expect(runtime.metrics().providers).toEqual({ '': { modelCalls: 1, ...none } });
  const named = await kit.open({ providers: { only: scripted(['ok']) } });
  await named.session('s').ask('Hi');
  expect(named.metrics().providers).toEqual({ only: { modelCalls: 1, ...none } });
});

test('the circuit of a provider that does not answer is open for it alone, and the metrics say so', async () => {
  const clock = manualClock();
  let isDown = true;
  const calls: string[] = [];
  const down: ModelProvider = {
    name: 'down',
    generate: async (_request, { session }) => {
      calls.push(session);
      if (isDown) throw new ModelError('model_overloaded', 'no', { retryable: true, data: { status: 503 } });
      return {
        content: [{ type: 'text', text: 'up again' }],
        stop_reason: 'end_turn',
        usage: { input_tokens: 1, output_tokens: 1 },
      };
    },
  };
  const providers = { one: notedProvider('one').provider, two: down };
  const runtime = await kit.open({ providers, agents: AGENTS, clock, random: () => 0 });
  const names = Array.from({ length: 10 }, (_none, index) => `s${index}`);
  await Promise.all(names.map((name) => runtime.session(name, 'right').send('Hi')));
  await clock.advance(0);
  expect(calls).toHaveLength(10);
  expect(runtime.metrics().providers).toMatchObject({ one: { circuitsOpen: 0 }, two: { circuitsOpen: 1 } });
  const free = await runtime.session('free', 'left').send('Hi');
  await clock.advance(0);
  expect(await free.answer()).toBe('one');
  isDown = false;
  await clock.advance(60_000);
  await runtime.drain();
  expect(runtime.metrics().providers['two']).toMatchObject({ circuitsOpen: 0, modelCallsWaiting: 0 });
});

test('governor: the limits of one provider hold no call of another back', async () => {
  const clock = manualClock();
  const one = notedProvider('one');
  const two = notedProvider('two');
  const runtime = await kit.open({
    providers: { one: one.provider, two: two.provider },
    governor: { two: { requestsPerMinute: 1 } },
    agents: AGENTS,
    clock,
  });
  for (const name of ['a', 'b', 'c']) {
    await runtime.session(`l${name}`, 'left').send('Hi');
    await runtime.session(`r${name}`, 'right').send('Hi');
  }
  await clock.advance(0);
  expect([one.requests.length, two.requests.length]).toEqual([3, 1]);
  expect(runtime.metrics()).toMatchObject({
    modelCallsWaiting: 2,
    providers: { one: { modelCallsWaiting: 0 }, two: { modelCallsWaiting: 2 } },
  });
  await clock.advance(60_000);
  expect(two.requests).toHaveLength(2);
  await clock.advance(60_000);
  await runtime.drain();
  expect(two.requests).toHaveLength(3);
});

test('an enricher and the model for sub-agents may belong to another provider', async () => {
  const one = notedProvider('one');
  const two = notedProvider('two');
  const runtime = await kit.open({
    providers: { one: one.provider, two: two.provider },
    agents: [agent({ name: 'left' })],
    settings: { llm: { model: 'one/large', subagentModel: 'two/small' } },
    enrichers: { melete: { model: 'two/muse' } },
  });
  expect(await runtime.session('s').ask('Hi')).toBe('one');
  expect(one.requests.map(({ model }) => model)).toEqual(['large']);
  expect(two.requests).toMatchObject([{ model: 'muse', transport: { provider: 'two' } }]);
  const child = await runtime.session('s').spawn({ task: 'x', name: 'helper' });
  expect((await child.reply()) as unknown).toBe('two');
  expect(two.requests.map(({ model }) => model)).toContain('small');
});

test('a session whose agent moves to another provider opens an epoch there, with the whole conversation', async () => {
  const directory = await kit.directory();
  const one = notedProvider('one');
  const two = notedProvider('two');
  const providers = { one: one.provider, two: two.provider };
  const first = await kit.open({ directory, providers, agents: [agent({ name: 'a', model: 'one/m' })] });
  expect(await first.session('s').ask('Hi')).toBe('one');
  await first.close();
  const second = await kit.open({ directory, providers, agents: [agent({ name: 'a', model: 'two/m' })] });
  expect(await second.session('s').ask('And you?')).toBe('two');
  expect(two.requests[0]?.messages).toHaveLength(3);
});
