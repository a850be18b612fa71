/**
 * Goal: an agent whose models are of several vendors moves between them in the middle of a turn, and no request is illegal
 * on either side. Method: the strict fakes of three wires, each of which fails when the plan says so; calls, thoughts and
 * a picture on every side; options that only Claude has.
 */
import { expect, it } from 'vitest';
import { z } from 'zod';
import { agent, anthropic, content, open, tool } from '../../../src/index.ts';
import { aiModel } from '../../../src/models/ai-model/index.ts';
import { fakeGemini, fakeOpenAi, strictFake } from '../../../src/testing/index.ts';
import { PICTURE, vendors } from './samples.ts';

const look = tool({
  name: 'look',
  description: 'Shows a picture.',
  input: z.object({}),
  effect: 'pure',
  run: () => content([PICTURE]),
});

/** The vendor that answers each call, turn by turn; the ones before it in the agent's list fail. */
const PLAN = [
  ...(['claude', 'gpt', 'gemini'] as const),
  ...(['claude', 'gemini', 'gemini'] as const),
  ...(['gpt', 'gpt', 'gemini'] as const),
  ...(['claude', 'claude', 'gpt'] as const),
  ...(['claude', 'claude', 'claude'] as const),
];
type Vendor = (typeof PLAN)[number];

it('each vendor takes a history of the others, with the options of an agent of Claude', async () => {
  let step = 0;
  const answers: Vendor[] = [];
  const reply = (vendor: Vendor): object | string => {
    if (PLAN[step] !== vendor) return { error: { status: 529 } };
    step += 1;
    answers.push(vendor);
    // Every third answer ends a turn.
    const thinking = `${vendor} thinks.`;
    return step % 3 === 0
      ? { thinking, text: `${vendor} says ${step}.` }
      : { thinking, text: 'I look.', toolUse: { name: 'look' } };
  };
  const claude = await strictFake({ script: () => reply('claude') as never });
  const gpt = fakeOpenAi({ script: () => reply('gpt') as never });
  const gemini = fakeGemini({ script: () => reply('gemini') as never });
  const made = await vendors();
  const painter = agent({
    name: 'painter',
    model: ['claude/claude-opus-5-5', 'gpt/gpt-5.5', 'gemini/gemini-3-pro'],
    effort: 'high',
    thinking: { type: 'adaptive' },
    cacheTtl: '1h',
    stopSequences: ['END'],
    tools: [look],
    returnAfterMs: 0,
    maxTokens: 1_000,
  });
  const runtime = await open(':memory:', {
    providers: {
      claude: anthropic({ apiKey: 'k', baseURL: claude.url }),
      gpt: aiModel(made.openAi(gpt.fetch, 'gpt-5.5')),
      gemini: aiModel(made.gemini(gemini.fetch, 'gemini-3-pro')),
    },
    settings: { llm: { retry: { attempts: 1, base: 0.001, maximum: 0.001 }, threads: true } },
    agents: [painter],
    logger: false,
  });
  try {
    const session = runtime.session('s');
    const said: string[] = [];
    for (const text of ['One', 'Two', 'Three', 'Four', 'Five']) said.push(await session.ask(text));
    expect(said).toEqual(['gemini says 3.', 'gemini says 6.', 'gemini says 9.', 'gpt says 12.', 'claude says 15.']);
    expect(answers).toEqual(PLAN);
    expect([gpt.refusals, gemini.refusals]).toEqual([[], []]);
    expect(claude.violations.filter(({ rule }) => rule !== 'R15')).toEqual([]);
    // A thought reaches only the model that had it.
    const bodies = { claude: claude.requests, gpt: gpt.requests, gemini: gemini.requests };
    for (const [vendor, requests] of Object.entries(bodies)) {
      const foreign = Object.keys(bodies).filter((each) => each !== vendor);
      for (const each of foreign) expect(JSON.stringify(requests)).not.toContain(`${each} thinks.`);
    }
    expect(JSON.stringify(claude.requests)).not.toMatch(/"origin"|provider_part/);
  } finally {
    await runtime.close();
    await claude.close();
  }
});
