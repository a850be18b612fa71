/**
 * Goal: sessions run on every wire through the AI SDK's own packages (V3). Method: the same conversation over the strict
 * fake of each wire: parallel calls, a picture as a result and in a message, thoughts, deliveries, two turns. A request
 * that the wire would refuse is a refusal of the fake.
 */
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { agent, content, open, tool } from '../../../src/index.ts';
import { aiModel, type LanguageModel } from '../../../src/models/ai-model/index.ts';
import {
  fakeGemini,
  fakeOpenAi,
  fakeOpenAiCompatible,
  type WireFake,
  type WireFakeOptions,
} from '../../../src/testing/index.ts';
import { add } from '../../support/pure-tools.ts';
import { PICTURE, PIXEL, vendors } from './samples.ts';

interface WireCase {
  readonly name: string;
  readonly fake: (options: WireFakeOptions) => WireFake;
  readonly model: (fetch: WireFake['fetch']) => LanguageModel;
  readonly providerOptions?: Readonly<Record<string, Readonly<Record<string, string | boolean>>>>;
}

const { openAi, gemini, compatible } = await vendors();

const WIRES: readonly WireCase[] = [
  { name: 'OpenAI Responses, stored', fake: fakeOpenAi, model: (fetch) => openAi(fetch, 'gpt-5.5') },
  {
    name: 'OpenAI Responses',
    fake: fakeOpenAi,
    model: (fetch) => openAi(fetch, 'gpt-5.5'),
    providerOptions: { openai: { store: false } },
  },
  { name: 'Gemini 3', fake: fakeGemini, model: (fetch) => gemini(fetch, 'gemini-3-pro') },
  { name: 'Gemini 2.5', fake: fakeGemini, model: (fetch) => gemini(fetch, 'gemini-2.5-flash') },
  { name: 'chat completions', fake: fakeOpenAiCompatible, model: (fetch) => compatible(fetch, 'qwen-4') },
];

const look = tool({
  name: 'look',
  description: 'Shows a picture.',
  input: z.object({}),
  effect: 'pure',
  run: () => content([{ type: 'text', text: 'A dot.' }, { type: 'text', text: 'Red.' }, PICTURE]),
});
const fail = tool({
  name: 'fail',
  description: 'Fails with a picture.',
  input: z.object({}),
  effect: 'pure',
  run: () => content([PICTURE], { isError: true }),
});

describe.each(WIRES)('$name', ({ fake: makeFake, model: makeModel, providerOptions }) => {
  it('a session with calls, pictures and thoughts over three turns: the wire refuses nothing', async () => {
    const fake = makeFake({
      script: [
        { thinking: 'Two numbers, and a look.', toolUse: [{ name: 'add', input: { a: 1, b: 2 } }, { name: 'look' }] },
        { thinking: 'Once more.', text: 'Wait.', toolUse: { name: 'fail' } },
        {
          thinking: 'Done.',
          text: 'Three.',
          usage: { input_tokens: 10, cache_read_input_tokens: 40, output_tokens: 9 },
        },
        'Still three.',
        { thinking: 'A dot.', text: 'The same dot.' },
      ],
    });
    const languageModel = makeModel(fake.fetch);
    const provider = aiModel(languageModel, providerOptions === undefined ? {} : { providerOptions });
    const helper = agent({
      name: 'helper',
      model: languageModel.modelId,
      system: 'Be brief.',
      tools: [add, look, fail],
    });
    const runtime = await open(':memory:', { provider, agents: [helper], logger: false });
    try {
      const session = runtime.session('s');
      const deltas: string[] = [];
      const receipt = await session.send('What is 1 + 2?');
      for await (const event of session.events({ until: receipt })) {
        if (event.type === 'text.delta' || event.type === 'thinking.delta') deltas.push(`${event.type} ${event.text}`);
      }
      expect(await receipt.answer()).toBe('Three.');
      expect(deltas.join('')).toContain('text.delta Three.');
      expect(deltas.join('')).toContain('thinking.delta Done.');
      expect(await session.ask('Sure?')).toBe('Still three.');
      expect(await session.ask([{ type: 'text', text: 'And this?' }, PICTURE])).toBe('The same dot.');
      expect(fake.refusals).toEqual([]);
      expect(fake.requests).toHaveLength(5);
      expect(JSON.stringify(fake.requests.at(-1)).split(PIXEL)).toHaveLength(4);
      // Results of chat completions are texts, and a picture is none.
      const results = (fake.requests.at(-1)?.['messages'] ?? []) as readonly { readonly role: string }[];
      expect(JSON.stringify(results.filter(({ role }) => role === 'tool'))).not.toContain(PIXEL);
      expect((await session.state()).usage).toMatchObject({ cache_read_input_tokens: 40 });
    } finally {
      await runtime.close();
    }
  });

  it('a request is byte for byte the same for the same history, and begins with the one before', async () => {
    const fake = makeFake({
      script: [{ toolUse: { name: 'add', input: { a: 1, b: 1 }, id: 'call_fix' } }, 'Two.', 'Two.'],
    });
    const languageModel = makeModel(fake.fetch);
    const provider = aiModel(languageModel, providerOptions === undefined ? {} : { providerOptions });
    const helper = agent({ name: 'helper', model: languageModel.modelId, tools: [add] });
    const runtime = await open(':memory:', { provider, agents: [helper], logger: false });
    try {
      await runtime.session('s').ask('1 + 1?');
      await runtime.session('s').ask('Sure?');
    } finally {
      await runtime.close();
    }
    const lists = fake.requests.map(
      (body) => (body['input'] ?? body['contents'] ?? body['messages']) as readonly unknown[],
    );
    lists.slice(1).forEach((list, index) => {
      expect(JSON.stringify(list).startsWith(JSON.stringify(lists[index]).slice(0, -1))).toBe(true);
    });
  });

  it('a structured answer comes as the input of a tool', async () => {
    const given = { name: 'Ulm', people: 126_000 };
    const fake = makeFake({ script: [{ thinking: 'Ulm.', toolUse: { name: 'final_answer', input: given } }, 'Yes.'] });
    const languageModel = makeModel(fake.fetch);
    const provider = aiModel(languageModel, providerOptions === undefined ? {} : { providerOptions });
    const agents = [agent({ name: 'guide', model: languageModel.modelId })];
    const runtime = await open(':memory:', { provider, agents, logger: false });
    try {
      const session = runtime.session('s');
      const output = z.object({ name: z.string(), people: z.number().int() });
      expect(await session.ask('Which city?', { output })).toEqual(given);
      expect(await session.ask('Sure?')).toBe('Yes.');
      expect(fake.refusals).toEqual([]);
    } finally {
      await runtime.close();
    }
  });

  it('a delivery of an enricher, which no model called, is accepted', async () => {
    const fake = makeFake({ script: ['ok'] });
    const provider = aiModel(makeModel(fake.fetch));
    const { modelId } = makeModel(fake.fetch);
    const answer = await provider.generate(
      {
        model: modelId,
        max_tokens: 100,
        messages: [
          { role: 'user', content: 'hi' },
          { role: 'assistant', content: 'Hello.' },
          {
            role: 'assistant',
            content: [
              { type: 'tool_use', id: `goal_snapshot_${'x'.repeat(110)}`, name: 'from_melete_goal', input: {} },
            ],
          },
          {
            role: 'user',
            content: [
              { type: 'tool_result', tool_use_id: `goal_snapshot_${'x'.repeat(110)}`, content: 'Win.' },
              { type: 'text', text: 'Go.' },
            ],
          },
        ],
      },
      { signal: new AbortController().signal, onDelta: () => undefined, session: 's' },
    );
    expect(fake.refusals).toEqual([]);
    expect(answer.content).toMatchObject([{ type: 'text', text: 'ok' }]);
  });
});
