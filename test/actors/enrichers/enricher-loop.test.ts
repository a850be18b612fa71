/**
 * Goal: an enricher's loop calls, runs tools, calls again, and ends once. The scripted model refuses the requests that
 * the API would refuse.
 */
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { EnricherLoop, type EnricherTask, enricherTool } from '../../../actors/enrichers/enricher-loop.ts';
import { LIMIT_DEFAULTS } from '../../../src/base/bounds.ts';
import { parseSettings, type Settings, type SettingsInput } from '../../../src/base/settings.ts';
import { createAnthropicProvider } from '../../../src/models/anthropic/anthropic.ts';
import type { ModelPool } from '../../../src/models/pool.ts';
import { createInPlacePool } from '../../../src/models/pools/in-place-pool.ts';
import type { ModelProvider, ModelRequest } from '../../../src/models/provider.ts';
import { createScriptedProvider } from '../../../src/models/script/provider.ts';
import type { Script } from '../../../src/models/script/script.ts';
import { type ManualClock, manualClock } from '../../../src/testing/manual-clock.ts';
import { withFake } from '../../models/calls.ts';

interface Stage {
  readonly loop: EnricherLoop;
  readonly clock: ManualClock;
  readonly requests: { readonly session: string; readonly request: ModelRequest }[];
  readonly pool: ModelPool;
  readonly counted: () => number;
}

function stage(script: Script | ModelProvider, settings: SettingsInput = {}): Stage {
  const clock = manualClock();
  const requests: { session: string; request: ModelRequest }[] = [];
  const model = typeof script === 'object' && 'generate' in script ? script : createScriptedProvider(script);
  const provider: ModelProvider = {
    name: 'noted',
    generate: (request, context) => {
      requests.push({ session: context.session, request });
      return model.generate(request, context);
    },
  };
  const pool = createInPlacePool(provider, { completed: (all) => loop.completed(all), delta: () => undefined }, clock);
  let id = 0;
  let counted = 0;
  const checked: Settings = parseSettings(settings);
  const loop = new EnricherLoop({
    pool,
    settings: checked,
    limits: LIMIT_DEFAULTS,
    providers: ['', 'gpt'],
    clock,
    random: () => 0,
    resultStore: {
      shorten: (text, { charactersMax }) => text.slice(0, charactersMax),
      shortenNow: (text, { charactersMax }) => text.slice(0, charactersMax),
      removeOf: async () => undefined,
      fileKeyOf: () => undefined,
      fileOf: () => undefined,
    },
    callId: () => {
      id += 1;
      return id;
    },
    called: () => {
      counted += 1;
    },
  });
  return { loop, clock, requests, pool, counted: () => counted };
}

const heard: string[] = [];
const note = enricherTool({
  name: 'note',
  description: 'Notes a word.',
  input: z.object({ word: z.string() }),
  run: ({ word }) => {
    if (word === 'bad') throw new Error('not that one');
    heard.push(word);
    return `noted ${word}`;
  },
});

function task(more: Partial<EnricherTask> = {}): EnricherTask {
  heard.length = 0;
  return {
    session: 's',
    enricher: 'melete',
    model: 'claude-haiku-4-5',
    maxTokens: 100,
    system: 'Prepare.',
    text: 'User: hello',
    tools: [note],
    ...more,
  };
}

const call = (word: unknown, name = 'note') => ({ toolUse: { name, input: { word } } });

describe('a loop', () => {
  test('sends its messages so far, runs the tools in order, and ends with a text', async () => {
    const both = {
      toolUse: [
        { name: 'note', input: { word: 'a' } },
        { name: 'note', input: { word: 'b' } },
      ],
    };
    const { loop, requests, counted } = stage([both, call('c'), 'ready']);
    const outcome = await loop.run(task()).done;
    expect(heard).toEqual(['a', 'b', 'c']);
    expect(outcome).toMatchObject({ rounds: 2 });
    expect(outcome.error).toBeUndefined();
    expect(outcome.usage.output_tokens).toBeGreaterThan(0);
    expect(counted()).toBe(3);
    expect(loop.running).toBe(0);
    const [first, , last] = requests;
    expect(first?.request).toMatchObject({
      model: 'claude-haiku-4-5',
      max_tokens: 100,
      system: 'Prepare.',
      tools: [{ name: 'note', input_schema: { type: 'object' } }],
      messages: [{ role: 'user', content: 'User: hello' }],
    });
    expect(first?.session).toBe('s: melete');
    expect(last?.request.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant', 'user']);
    expect(JSON.stringify(last?.request.messages[2]?.content)).toContain('noted b');
  });

  test('its model may begin with the name of a provider, which is no part of the name that is sent', async () => {
    const { loop, requests } = stage(['one', 'two']);
    await loop.run(task({ model: 'gpt/claude-haiku-4-5' })).done;
    await loop.run(task({ model: 'vendor/large' })).done;
    expect(requests[0]?.request).toMatchObject({ model: 'claude-haiku-4-5', transport: { provider: 'gpt' } });
    expect(requests[1]?.request.model).toBe('vendor/large');
    expect(requests[1]?.request).not.toHaveProperty('transport');
  });

  test('a failing tool, an unknown one and a wrong input reach the model as failed results', async () => {
    const { loop, requests } = stage([call('bad'), call(7), call('x', 'other'), 'ready']);
    const outcome = await loop.run(task()).done;
    expect(outcome.error).toBeUndefined();
    const results = (requests.at(-1)?.request.messages ?? []).filter(({ role }) => role === 'user').slice(1);
    const told = results.map(({ content }) => JSON.stringify(content));
    expect(told[0]).toContain('not that one');
    expect(told[1]).toContain('word');
    expect(told[2]).toContain('Unknown tool: other');
    for (const each of told) expect(each).toContain('"is_error":true');
  });

  test('a long result is shortened by the rule of tool responses', async () => {
    const long = enricherTool({
      name: 'note',
      description: 'Long.',
      input: z.object({}),
      run: () => 'x'.repeat(9_000),
    });
    const { loop, requests } = stage([call('a'), 'ready']);
    await loop.run(task({ tools: [long] })).done;
    expect(JSON.stringify(requests[1]?.request.messages[2]?.content).length).toBeLessThan(6_200);
  });

  test('ends with `limit` after llm.maxToolRounds rounds', async () => {
    const { loop, counted } = stage(() => call('again'), { llm: { maxToolRounds: 3 } });
    const { error } = await loop.run(task()).done;
    expect(error).toMatchObject({ code: 'limit', data: { limit: 'maxToolRounds' } });
    expect(heard.length).toBe(3);
    expect(counted()).toBe(4);
  });

  test('the mirror is forgotten when the run ends, so another run sends its whole request', async () => {
    const { loop, requests, pool } = stage(() => 'ready');
    await loop.run(task()).done;
    expect(pool.holds('s: melete', 1, 1)).toBe(false);
    await loop.run(task({ text: 'again' })).done;
    expect(requests[1]?.request.messages).toEqual([{ role: 'user', content: 'again' }]);
  });
});

describe('a model that fails', () => {
  const overloaded = { error: { status: 529 } };

  test('a transient failure is retried as in a half-step, on the clock of the session', async () => {
    const { loop, clock, counted } = stage([overloaded, overloaded, 'ready']);
    const run = loop.run(task());
    await clock.advance(0);
    await clock.advance(999);
    expect(counted()).toBe(1);
    await clock.advance(1);
    expect(counted()).toBe(2);
    await clock.advance(16_000);
    expect(await run.done).toMatchObject({ rounds: 0 });
    expect(counted()).toBe(3);
    expect(clock.pending).toBe(0);
  });

  test('after five attempts the error is the outcome', async () => {
    const { loop, clock, counted } = stage(() => overloaded);
    const run = loop.run(task());
    await clock.advance(0);
    await clock.runAll();
    expect((await run.done).error).toMatchObject({ code: 'model_overloaded' });
    expect(counted()).toBe(5);
  });

  test('refused credentials are not retried', async () => {
    const { loop, counted } = stage(() => ({ error: { status: 401 } }));
    expect((await loop.run(task()).done).error).toMatchObject({ code: 'model_authentication' });
    expect(counted()).toBe(1);
  });
});

describe('a run ended from outside', () => {
  const hangs: ModelProvider = { name: 'hangs', generate: () => new Promise(() => undefined) };

  test('the time limit ends a call that hangs', async () => {
    const { loop, clock } = stage(hangs);
    const run = loop.run(task({ timeoutMs: 60_000 }));
    await clock.advance(60_000);
    expect((await run.done).error).toMatchObject({ code: 'timeout' });
    expect(loop.running).toBe(0);
    expect(clock.pending).toBe(0);
  });

  test('the time limit ends a wait between attempts', async () => {
    const { loop, clock, counted } = stage(() => ({ error: { status: 529 } }));
    const run = loop.run(task({ timeoutMs: 5_000 }));
    await clock.advance(0);
    await clock.advance(5_000);
    expect((await run.done).error).toMatchObject({ code: 'timeout' });
    expect(counted()).toBe(2);
    expect(clock.pending).toBe(0);
  });

  test('a cancelled run ends at once and starts nothing more', async () => {
    const { loop, clock, counted } = stage([call('a'), call('b'), 'ready']);
    const ends = (): string => {
      run.cancel();
      return 'late';
    };
    const run = loop.run(task({ tools: [{ ...note, run: ends }] }));
    expect((await run.done).error).toMatchObject({ code: 'cancelled' });
    await clock.advance(0);
    expect(counted()).toBe(1);
    run.cancel();
    expect((await run.done).rounds).toBe(1);
  });

  test('a new run of an enricher for a session ends the previous one; runs of other sessions continue', async () => {
    const { loop } = stage(hangs);
    const first = loop.run(task());
    const other = loop.run(task({ session: 't' }));
    const second = loop.run(task());
    expect((await first.done).error).toMatchObject({ code: 'cancelled' });
    expect(loop.running).toBe(2);
    loop.cancelAll();
    expect((await second.done).error).toMatchObject({ code: 'cancelled' });
    expect((await other.done).error).toMatchObject({ code: 'cancelled' });
    expect(loop.running).toBe(0);
  });
});

test('the API accepts every request, with the cache marks of any other', async () => {
  await withFake({ script: [call('a'), call('bad'), 'ready'] }, async (fake) => {
    const { loop } = stage(createAnthropicProvider({ baseURL: fake.url, apiKey: 'k' }));
    const outcome = await loop.run(task()).done;
    expect(outcome).toMatchObject({ rounds: 2 });
    expect(outcome.error).toBeUndefined();
    expect(fake.violations).toEqual([]);
    expect(JSON.stringify(fake.requests.at(-1))).toContain('cache_control');
  });
});
