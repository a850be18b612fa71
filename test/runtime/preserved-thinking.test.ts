/**
 * Models that bind a thought to everything before it (R21): whatever changes before the thought, the next request is
 * accepted. Each test runs a session over the wire against the strict fake, which remembers the context of each
 * thought.
 */
import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { type Agent, agent, anthropic, type OpenOptions, type Session, tool } from '../../src/index.ts';
import type { ModelRequest } from '../../src/models/provider.ts';
import type { Script } from '../../src/models/script/script.ts';
import { type StrictFake, strictFake } from '../../src/testing/strict-fake.ts';
import { runtimeKit } from '../support/runtime-kit.ts';

const kit = runtimeKit();
const fakes: StrictFake[] = [];
afterEach(async () => {
  for (const fake of fakes.splice(0)) await fake.close();
});

const MODEL = 'claude-opus-5-5';
const THOUGHT = { thinking: 'Let me think about this.', text: 'That is what I think of it.' };

async function fakeModel(script: Script): Promise<StrictFake> {
  const fake = await strictFake({ script });
  fakes.push(fake);
  return fake;
}

const providerOf = (fake: StrictFake) => anthropic({ apiKey: 'test', baseURL: fake.url });
const words = (count: number, turn: number): string =>
  Array.from({ length: count }, (_, index) => `word${turn}x${index}`).join(' ');
const thinker = (more: Partial<Parameters<typeof agent>[0]> = {}): Agent =>
  agent({ name: 'thinker', model: MODEL, system: 'Think.', ...more });
const refused = (fake: StrictFake) => fake.violations.filter((violation) => violation.fatal);

/** The number of thoughts in each request. */
function thoughts(fake: StrictFake): readonly number[] {
  return fake.requests.map(({ messages }) => JSON.stringify(messages).split('"type":"thinking"').length - 1);
}

async function say(session: Session, text: string): Promise<string> {
  return (await session.send(text)).answer();
}

describe('a new epoch leaves out the thoughts of the epoch before it', () => {
  test('R21: an eviction', async () => {
    const fake = await fakeModel(() => THOUGHT);
    const runtime = await kit.open({ provider: providerOf(fake), agents: [thinker({ tokenBudget: 900 })] });
    const session = runtime.session('s');
    for (let turn = 0; turn < 10; turn += 1) expect(await say(session, words(60, turn))).toBe(THOUGHT.text);
    expect(refused(fake)).toEqual([]);
    // Within an epoch the thoughts are kept, so the model reads its earlier thoughts.
    expect(Math.max(...thoughts(fake))).toBeGreaterThan(1);
  });

  test('R20, R21: an eviction in the middle of a round', async () => {
    let round = 0;
    const fake = await fakeModel((request: ModelRequest) => {
      const last = JSON.stringify(request.messages.at(-1));
      if (last.includes('done')) return THOUGHT;
      round += 1;
      return { thinking: `Round ${round}.`, text: 'I look.', toolUse: { name: 'look', input: { round } } };
    });
    const look = tool({
      name: 'look',
      description: 'Looks.',
      input: z.object({ round: z.number() }),
      run: ({ round: at }) => (at >= 8 ? 'done' : words(60, at)),
    });
    const runtime = await kit.open({
      provider: providerOf(fake),
      agents: [thinker({ tokenBudget: 900, tools: [look], thinking: { type: 'adaptive' } })],
    });
    expect(await say(runtime.session('s'), 'begin')).toBe(THOUGHT.text);
    expect(refused(fake)).toEqual([]);
  });

  test('R21: a summary of the messages that leave', async () => {
    const fake = await fakeModel((request: ModelRequest) =>
      request.model === 'claude-haiku-5-5' ? { text: 'They spoke of words.' } : THOUGHT,
    );
    const runtime = await kit.open({
      provider: providerOf(fake),
      enrichers: { mneme: { model: 'claude-haiku-5-5' } },
      agents: [thinker({ tokenBudget: 900 })],
    });
    const session = runtime.session('s');
    for (let turn = 0; turn < 14; turn += 1) expect(await say(session, words(60, turn))).toBe(THOUGHT.text);
    await runtime.drain();
    expect(refused(fake)).toEqual([]);
  });

  test('R21: goals before the window', async () => {
    const fake = await fakeModel(() => THOUGHT);
    const runtime = await kit.open({ provider: providerOf(fake), agents: [thinker({ tokenBudget: 900 })] });
    const session = runtime.session('s');
    for (let turn = 0; turn < 6; turn += 1) await say(session, words(60, turn));
    const goal = await session.goals.create({ description: 'Count the words.' });
    await say(session, 'on');
    await session.goals.complete(goal.id);
    for (let turn = 6; turn < 9; turn += 1) await say(session, words(60, turn));
    expect(refused(fake)).toEqual([]);
  });

  test('R21: an edit before the end, and another branch', async () => {
    const fake = await fakeModel(() => THOUGHT);
    const runtime = await kit.open({ provider: providerOf(fake), agents: [thinker()] });
    const session = runtime.session('s');
    for (const text of ['one', 'two', 'three']) await say(session, text);
    const [first] = await session.history.messages();
    await session.history.update({ id: first?.id ?? '' }, { content: 'another beginning' });
    await say(session, 'four');
    await session.history.startTask('aside');
    await say(session, 'five');
    await session.history.undo();
    await say(session, 'six');
    expect(refused(fake)).toEqual([]);
  });

  test('R21: the initial history of a fork of an evicted conversation', async () => {
    const fake = await fakeModel(() => THOUGHT);
    const runtime = await kit.open({ provider: providerOf(fake), agents: [thinker({ tokenBudget: 900 })] });
    const session = runtime.session('s');
    await session.goals.create({ description: 'Count the words.' });
    for (let turn = 0; turn < 7; turn += 1) await say(session, words(60, turn));
    const fork = await session.fork({ id: 'f' });
    await say(fork, 'on');
    expect(refused(fake)).toEqual([]);
  });

  test('R21: a message that is in one request and missing from the next', async () => {
    const fake = await fakeModel(() => THOUGHT);
    const runtime = await kit.open({ provider: providerOf(fake), agents: [thinker()] });
    const session = runtime.session('s');
    await say(session, 'one');
    const shown = await session.history.append({ role: 'user', content: 'only now' }, { transient: true });
    await say(session, 'two');
    await session.history.remove(shown);
    await say(session, 'three');
    await say(session, 'four');
    expect(refused(fake)).toEqual([]);
  });

  test('R21: a thought given by an embedder is stored and not sent', async () => {
    const fake = await fakeModel(() => THOUGHT);
    const runtime = await kit.open({ provider: providerOf(fake), agents: [thinker()] });
    const session = runtime.session('s');
    const reasoning = [{ type: 'text', format: 'anthropic', text: 'hm', signature: 'c2ln' }] as const;
    await session.history.append({ role: 'user', content: 'before' });
    await session.history.append({ role: 'assistant', content: 'said', reasoning });
    expect(await say(session, 'on')).toBe(THOUGHT.text);
    expect(refused(fake)).toEqual([]);
    expect((await session.history.messages())[1]).toMatchObject({ reasoning });
  });
});

describe('a store opened again with other settings', () => {
  const look = tool({ name: 'look', description: 'Looks.', input: z.object({}), run: () => 'seen' });
  const CHANGES: readonly { what: string; agents: () => Agent; settings?: OpenOptions['settings'] }[] = [
    { what: 'another tool', agents: () => thinker({ tools: [look] }) },
    { what: 'another system text', agents: () => thinker({ system: 'Think twice.' }) },
    { what: 'a system function', agents: () => thinker({ system: () => 'Think thrice.' }) },
    { what: 'timestamps', agents: () => thinker(), settings: { session: { timestamps: true } } },
    { what: 'a smaller budget', agents: () => thinker({ tokenBudget: 300 }) },
    { what: 'another model that binds', agents: () => thinker({ model: 'claude-fable-5-1' }) },
    { what: 'thinking off', agents: () => thinker({ model: 'claude-opus-5', thinking: { type: 'disabled' } }) },
  ];
  test.each(CHANGES)('R21: $what', async ({ agents, settings }) => {
    const fake = await fakeModel(() => THOUGHT);
    const directory = await kit.directory();
    const first = await kit.open({ directory, provider: providerOf(fake), agents: [thinker()] });
    for (let turn = 0; turn < 4; turn += 1) await say(first.session('s'), words(60, turn));
    await first.close();
    const second = await kit.open({
      directory,
      provider: providerOf(fake),
      agents: [agents()],
      ...(settings === undefined ? {} : { settings }),
    });
    for (let turn = 4; turn < 7; turn += 1) await say(second.session('s'), words(60, turn));
    await second.close();
    // With the first agent again, thoughts from before the change stay out of the request.
    const third = await kit.open({ directory, provider: providerOf(fake), agents: [thinker()] });
    for (let turn = 7; turn < 9; turn += 1) await say(third.session('s'), words(60, turn));
    expect(refused(fake)).toEqual([]);
  });
});

describe('a request that is still refused because of its thoughts', () => {
  const REFUSAL = 'messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to another model.';

  test('R21, F35: the request is sent again at once without thoughts, an event says so, and the session continues', async () => {
    const fake = await fakeModel((_request, { call }) =>
      call === 1 ? { error: { status: 400, message: REFUSAL } } : THOUGHT,
    );
    const runtime = await kit.open({ provider: providerOf(fake), agents: [thinker()] });
    const session = runtime.session('s');
    await say(session, 'one');
    expect(await say(session, 'two')).toBe(THOUGHT.text);
    expect(thoughts(fake)).toEqual([0, 1, 0]);
    const retries: unknown[] = [];
    const { seq } = await session.state();
    for await (const event of session.events({ after: 0, until: (each) => each.seq === seq })) {
      if (event.type === 'llm.retry') retries.push(event);
    }
    expect(retries).toMatchObject([{ attempt: 1, waitMs: 0, status: 400, repaired: 'R21' }]);
    expect(await say(session, 'three')).toBe(THOUGHT.text);
    expect(refused(fake)).toEqual([]);
  });

  test('F35: a request refused again without thoughts blocks the session; there is no loop', async () => {
    const fake = await fakeModel((_request, { call }) =>
      call === 1 || call === 2 ? { error: { status: 400, message: REFUSAL } } : THOUGHT,
    );
    const runtime = await kit.open({ provider: providerOf(fake), agents: [thinker()] });
    const session = runtime.session('s');
    await say(session, 'one');
    const receipt = await session.send('two');
    await expect(receipt.answer()).rejects.toMatchObject({ code: 'turn_failed' });
    expect(fake.requests).toHaveLength(3);
    expect(await session.explain()).toMatchObject({ reason: 'blocked' });
  });
});
